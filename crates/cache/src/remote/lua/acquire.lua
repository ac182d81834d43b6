-- KEYS: key. ARGV: token, milliseconds of the lease.
-- {0, bytes}: a copy; {1, floor}: leased; {2, milliseconds}: another has the lease that long.
local kind, version, token = cell(KEYS[1])
if kind == VALUE or kind == NULL then return {0, redis.call('GET', KEYS[1])} end
if kind == LEASE then
  if token == ARGV[1] then return {1, version} end
  return {2, redis.call('PTTL', KEYS[1])}
end
local floor = version or ZERO
redis.call('SET', KEYS[1], bare(LEASE, floor, ARGV[1]), 'PX', ARGV[2])
return {1, floor}
