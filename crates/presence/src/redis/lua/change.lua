-- Changes the sessions of a user, and publishes an event if that changes where it is online. A session is a field
-- 'device|gateway~incarnation' with the time of its end; no other field has '|' in its name.
-- KEYS: the user. ARGV: operation, user, channel, device, instance, how long the session lasts, maximum of sessions, how
-- long the user is kept after that, the command that publishes. Returns -1 for too many sessions, or: whether one was known, version, version of which
-- the groups were notified, gateways, time left of the last session at the instance (-1: none), whether it was published.
local what, device, instance = ARGV[1], ARGV[4], ARGV[5]
local field, lasts, kept = device .. '|' .. instance, tonumber(ARGV[6]), tonumber(ARGV[8])
local time = redis.call('TIME')
local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local ms = math.floor(us / 1000)

local all = redis.call('HGETALL', KEYS[1])
local sessions, count, version, fanned, published = {}, 0, 0, 0, ''
for at = 1, #all, 2 do
    local name, value = all[at], all[at + 1]
    if name == 'version' then version = tonumber(value)
    elseif name == 'fanned' then fanned = tonumber(value)
    elseif name == 'gateways' then published = value
    elseif tonumber(value) > ms then
        sessions[name] = tonumber(value)
        count = count + 1
    else
        redis.call('HDEL', KEYS[1], name)
    end
end

local known = 0
if what == 'open' then
    if not sessions[field] and count >= tonumber(ARGV[7]) then return -1 end
    sessions[field] = ms + lasts
    redis.call('HSET', KEYS[1], field, string.format('%.0f', ms + lasts))
elseif sessions[field] and what == 'renew' then
    known = 1
    sessions[field] = ms + lasts
    redis.call('HSET', KEYS[1], field, string.format('%.0f', ms + lasts))
elseif sessions[field] and what == 'close' then
    known = 1
    sessions[field] = nil
    redis.call('HDEL', KEYS[1], field)
elseif what == 'end' then
    local ended = {}
    for name in pairs(sessions) do
        if string.match(name, '|(.*)$') == instance then ended[#ended + 1] = name end
    end
    for _, name in ipairs(ended) do
        known = 1
        sessions[name] = nil
        redis.call('HDEL', KEYS[1], name)
    end
end

local seen, gateways, left, latest = {}, {}, -1, 0
for name, deadline in pairs(sessions) do
    local at, gateway = string.match(name, '|(([^~]+)~.*)$')
    if at == instance then left = math.max(left, deadline - ms) end
    latest = math.max(latest, deadline - ms)
    if not seen[gateway] then
        seen[gateway] = true
        gateways[#gateways + 1] = gateway
    end
end
table.sort(gateways)
local now = table.concat(gateways, ',')
local changed = 0
if now ~= published then
    changed = 1
    version = math.max(version + 1, us)
    redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version), 'gateways', now)
    redis.call(ARGV[9], ARGV[3], ARGV[2] .. ' ' .. string.format('%.0f', version) .. ' ' .. now)
end
redis.call('PEXPIRE', KEYS[1], latest + kept)
return { known, version, fanned, now, left, changed }
