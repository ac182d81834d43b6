-- KEYS: key. ARGV: wakes, bytes, milliseconds they are kept.
-- 0: stored; 1: gone; 2: lost; 3: old; 4: newer.
local kind, version, owner, waited = cell(KEYS[1])
if not kind or kind == TOMB then return 1 end
local filling, own = string.sub(ARGV[2], 9, 16), string.sub(ARGV[2], 17, 24) == owner
if kind == LEASE then
  if not own then return 2 end
  if compare(filling, version) < 0 then return 3 end
else
  if own then return 0 end
  if compare(filling, version) <= 0 then return 4 end
end
become(KEYS[1], waited, ARGV[2], ARGV[3])
return 0
