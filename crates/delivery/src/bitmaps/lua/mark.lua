-- KEYS: bitmaps. ARGV: bit, how long an incomplete bitmap is kept.
-- An incomplete bitmap keeps marks that a running fill may have missed in the store.
for _, key in ipairs(KEYS) do
  redis.call('SETBIT', key, ARGV[1], 1)
  if redis.call('GETBIT', key, 0) == 0 then
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return 0
