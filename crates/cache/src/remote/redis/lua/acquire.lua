-- KEYS: key. ARGV: wakes, token, milliseconds of a lease, milliseconds after which it may be taken over.
-- {0, bytes}: a copy; {1, floor}: leased; {2, milliseconds}: another has the lease to itself that long.
local key, token = KEYS[1], ARGV[2]
local kind, version, owner, waited = cell(key)
if kind == VALUE or kind == NULL then return {0, redis.call('GET', key)} end
if kind == LEASE then
  if owner == token then return {1, version} end
  local left = redis.call('PTTL', key) + ARGV[4] - ARGV[3]
  if left > 0 then
    if not waited then redis.call('SETRANGE', key, 7, '\1') end
    return {2, left}
  end
end
local floor = version or ZERO
become(key, waited, bare(LEASE, floor, token), ARGV[3])
return {1, floor}
