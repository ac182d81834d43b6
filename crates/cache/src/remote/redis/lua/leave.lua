-- KEYS: nodes. ARGV: wakes, node.
return redis.call('HDEL', KEYS[1], ARGV[2])
