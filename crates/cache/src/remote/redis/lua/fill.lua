-- KEYS: key. ARGV: wakes, bytes, milliseconds they are kept, milliseconds of leases if those count from the lease, else 0.
-- 0: stored; 1: gone; 2: lost; 3: old; 4: newer.
local kind, version, owner, waited = cell(KEYS[1])
if not kind or kind == TOMB then return 1 end
local kept = tonumber(ARGV[3])
local filling, own = string.sub(ARGV[2], 9, 16), string.sub(ARGV[2], 17, 24) == owner
if kind == LEASE then
  if not own then return 2 end
  if compare(filling, version) < 0 then return 3 end
  if ARGV[4] ~= '0' then kept = kept - (tonumber(ARGV[4]) - redis.call('PTTL', KEYS[1])) end
  if kept < 1 then
    become(KEYS[1], waited)
    return 1
  end
else
  if own then return 0 end
  if compare(filling, version) <= 0 then return 4 end
end
become(KEYS[1], waited, ARGV[2], kept)
return 0
