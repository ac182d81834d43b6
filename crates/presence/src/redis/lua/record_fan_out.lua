-- Records that the groups of a user were notified. KEYS: the user. ARGV: of which version. Returns its version; 0: unknown.
local version = redis.call('HGET', KEYS[1], 'version')
if not version then return 0 end
local fanned = tonumber(redis.call('HGET', KEYS[1], 'fanned') or '0')
if tonumber(ARGV[1]) > fanned and tonumber(ARGV[1]) <= tonumber(version) then
    redis.call('HSET', KEYS[1], 'fanned', ARGV[1])
end
return tonumber(version)
