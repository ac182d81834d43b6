-- KEYS: key. ARGV: bytes, milliseconds they are kept.
-- 0: stored; 1: gone; 2: lost; 3: old; 4: newer.
local kind, version, token = cell(KEYS[1])
if not kind or kind == TOMB then return 1 end
local filling, own = string.sub(ARGV[1], 9, 16), string.sub(ARGV[1], 17, 24) == token
if kind == LEASE then
  if not own then return 2 end
  if compare(filling, version) < 0 then return 3 end
else
  if own then return 0 end
  if compare(filling, version) <= 0 then return 4 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 0
