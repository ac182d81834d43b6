-- Removes notes. KEYS: the notes of a part of the conversations. ARGV: the notes. Returns 0.
redis.call('ZREM', KEYS[1], unpack(ARGV))
return 0
