-- Publishes a wake. KEYS: the channel. ARGV: the wake. Returns 0.
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 0
