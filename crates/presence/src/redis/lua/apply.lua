-- Notes in a group where a user is online. Of each it keeps 'version:gateways', of those who went too, for a while: what
-- comes late is known by it. KEYS: users, online (ids of equal length, in their order), gateways with how many, gone with
-- when. ARGV: 'apply' or 'leave', user, the same of equal length, version, gateways, how long those who went are kept.
-- Returns 1 if that changes what is known.
local user, padded, version, now = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local kept = tonumber(ARGV[6])
local time = redis.call('TIME')
local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local ms = math.floor(us / 1000)

for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', ms - kept), 'LIMIT', 0, 10)) do
    redis.call('ZREM', KEYS[4], old)
    redis.call('HDEL', KEYS[1], old)
end
local known = redis.call('HGET', KEYS[1], user)
local of_known, before = '0', ''
if known then of_known, before = string.match(known, '^(%d+):(.*)$') end
if ARGV[1] == 'leave' then
    if not known then return 0 end
    version, now = of_known, ''
elseif tonumber(version) < tonumber(of_known) then
    return 0
end
redis.call('HSET', KEYS[1], user, version .. ':' .. now)
if now == '' then
    redis.call('ZADD', KEYS[4], ms, user)
    redis.call('ZREM', KEYS[2], padded)
else
    redis.call('ZREM', KEYS[4], user)
    redis.call('ZADD', KEYS[2], 0, padded)
end
if redis.call('ZCARD', KEYS[2]) == 0 then
    for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, kept) end
elseif before == '' then
    for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
end
if before == now then return 0 end

local function gateways(text)
    local set = {}
    for gateway in string.gmatch(text, '[^,]+') do set[gateway] = true end
    return set
end
local were, are = gateways(before), gateways(now)
for gateway in pairs(are) do
    if not were[gateway] then redis.call('HINCRBY', KEYS[3], gateway, 1) end
end
for gateway in pairs(were) do
    if not are[gateway] and redis.call('HINCRBY', KEYS[3], gateway, -1) <= 0 then
        redis.call('HDEL', KEYS[3], gateway)
    end
end
-- No gateway has ':' in its name.
local of_group = tonumber(redis.call('HGET', KEYS[3], ':version') or '0')
redis.call('HSET', KEYS[3], ':version', string.format('%.0f', math.max(of_group + 1, us)))
if now == '' and redis.call('ZCARD', KEYS[2]) == 0 then redis.call('PEXPIRE', KEYS[3], kept) end
return 1
