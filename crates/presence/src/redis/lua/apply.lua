-- Notes in a group where a user is online. Of each it keeps 'version:gateways', of those who went too, for a while: what
-- comes late is known by it. KEYS: users, online (ids of equal length, in their order), gateways with how many, gone with
-- when. ARGV: 'apply' or 'leave', user, the same of equal length, version, gateways, how long those who went are kept.
-- Returns 1 if that changes what is known. Whoever comes online has all groups told of it, so each call counts here.
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
    -- Whoever goes takes some along who went long ago: so they never become many.
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
        -- Only a group without anybody was to be forgotten.
        if redis.call('ZCARD', KEYS[2]) == 1 then
            for _, key in ipairs({KEYS[1], KEYS[3], KEYS[4]}) do redis.call('PERSIST', key) end
        end
    end
end
-- Nobody is left online in that of those who are.
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
for place = 2, #names do
    local number = tonumber(numbers[place] or '0') + by[names[place]]
    if number > 0 then
        put[#put + 1] = names[place]
        put[#put + 1] = number
    else
        redis.call('HDEL', KEYS[3], names[place])
    end
end
redis.call('HSET', KEYS[3], unpack(put))
if is_empty then forget() end
return 1
