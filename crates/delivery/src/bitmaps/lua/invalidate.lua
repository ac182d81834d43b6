-- KEYS: the generation of the section, then bitmaps. ARGV: how long the generation is kept.
-- Fills that run read the store before this, and are refused by the generation.
for at = 2, #KEYS do
  redis.call('DEL', KEYS[at])
end
redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 0
