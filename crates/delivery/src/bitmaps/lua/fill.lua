-- KEYS: bitmap, the generation of its section, scratch. ARGV: generation and time at which the fill began, for how long it may have
-- run, bits, how long the bitmap is kept. Returns how many readers have its bit; -1: too late, -2: invalidated meanwhile.
if tonumber(redis.call('GET', KEYS[2]) or '0') ~= tonumber(ARGV[1]) then
  return -2
end
-- Incomplete bitmaps keep marks for longer than this, but not for ever.
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[2]) + tonumber(ARGV[3]) then
  return -1
end
redis.call('SET', KEYS[3], ARGV[4])
redis.call('BITOP', 'OR', KEYS[1], KEYS[1], KEYS[3])
redis.call('DEL', KEYS[3])
redis.call('SETBIT', KEYS[1], 0, 1)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return redis.call('BITCOUNT', KEYS[1]) - 1
