-- Records in a group where a user is online. Keeps 'version:gateways' of each user, for a while also of offline users, to
-- recognize late calls. KEYS: users, online users (ids of equal length, in order), counts by gateway, offline users with
-- the time. ARGV: 'apply' or 'leave', user, the padded user, version, gateways, how long offline users are kept.
-- Returns 1 if the group changed. A user who comes online causes a call for each group, so the cost of a call matters.
local user, padded, version, now = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local kept = tonumber(ARGV[6])

local known = redis.call('HGET', KEYS[1], user)
local of_known, before = '0', ''
if known then of_known, before = string.match(known, '^(%d+):(.*)$') end
if ARGV[1] == 'leave' then
    if not known then return 0 end
    version, now = of_known, ''
elseif tonumber(version) < tonumber(of_known) then
    return 0
end

local time = redis.call('TIME')
local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local is_empty = false
if now == '' then
    local ms = math.floor(us / 1000)
    -- Removes some users who went offline long ago, so that their number stays bounded.
    local last = string.format('%.0f', ms - kept)
    for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', last, 'LIMIT', 0, 10)) do
        redis.call('ZREM', KEYS[4], old)
        redis.call('HDEL', KEYS[1], old)
    end
    redis.call('HSET', KEYS[1], user, version .. ':')
    redis.call('ZADD', KEYS[4], ms, user)
    redis.call('ZREM', KEYS[2], padded)
    is_empty = redis.call('ZCARD', KEYS[2]) == 0
else
    redis.call('HSET', KEYS[1], user, version .. ':' .. now)
    if before == '' then
        if known then redis.call('ZREM', KEYS[4], user) end
        redis.call('ZADD', KEYS[2], 0, padded)
        -- Only the keys of a group without online users expire.
        if redis.call('ZCARD', KEYS[2]) == 1 then
            for _, key in ipairs({KEYS[1], KEYS[3], KEYS[4]}) do redis.call('PERSIST', key) end
        end
    end
end
-- No user of the group is online: its keys expire.
local function forget()
    for _, key in ipairs({KEYS[1], KEYS[3], KEYS[4]}) do redis.call('PEXPIRE', key, kept) end
end
if before == now then
    if is_empty then forget() end
    return 0
end

local by = {}
for gateway in string.gmatch(now, '[^,]+') do by[gateway] = 1 end
for gateway in string.gmatch(before, '[^,]+') do by[gateway] = (by[gateway] or 0) - 1 end
-- No gateway has ':' in its name.
local names = {':version'}
for gateway, more in pairs(by) do
    if more ~= 0 then names[#names + 1] = gateway end
end
local numbers = redis.call('HMGET', KEYS[3], unpack(names))
local put = {':version', string.format('%.0f', math.max(tonumber(numbers[1] or '0') + 1, us))}
for index = 2, #names do
    local number = tonumber(numbers[index] or '0') + by[names[index]]
    if number > 0 then
        put[#put + 1] = names[index]
        put[#put + 1] = number
    else
        redis.call('HDEL', KEYS[3], names[index])
    end
end
redis.call('HSET', KEYS[3], unpack(put))
if is_empty then forget() end
return 1
