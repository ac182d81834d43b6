-- KEYS: nodes, abouts. ARGV: wakes, node.
redis.call('HDEL', KEYS[2], ARGV[2])
return redis.call('HDEL', KEYS[1], ARGV[2])
