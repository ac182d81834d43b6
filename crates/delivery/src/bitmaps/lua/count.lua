-- KEYS: bitmaps. Returns how many readers have the bit of each; -1: it is not complete.
local counts = {}
for at, key in ipairs(KEYS) do
  if redis.call('GETBIT', key, 0) == 1 then
    counts[at] = redis.call('BITCOUNT', key) - 1
  else
    counts[at] = -1
  end
end
return counts
