-- Publishes a wake. KEYS: the channel. ARGV: the wake, the command that publishes. Returns 0.
redis.call(ARGV[2], KEYS[1], ARGV[1])
return 0
