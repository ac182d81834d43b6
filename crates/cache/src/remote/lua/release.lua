-- KEYS: key. ARGV: token, milliseconds of a tomb.
local kind, version, token = cell(KEYS[1])
if kind ~= LEASE or token ~= ARGV[1] then return 0 end
if version == ZERO then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], bare(TOMB, version, ZERO), 'PX', ARGV[2])
end
return 0
