-- Verifies the identity of a gateway. KEYS: claims, deadlines, epoch. ARGV: gateway, incarnation that it offers ('0':
-- none), one that is free, how long it lives, most gateways, a new epoch. Returns the incarnation; '' if another one
-- is the gateway; nothing if there are too many.
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('SET', KEYS[3], ARGV[6] .. ':' .. string.format('%.0f', ms), 'NX')
local held = redis.call('HGET', KEYS[1], ARGV[1])
local incarnation = ARGV[3]
if not held then
    if ARGV[2] ~= '0' then incarnation = ARGV[2] end
elseif held == ARGV[2] then
    incarnation = held
else
    local deadline = redis.call('ZSCORE', KEYS[2], ARGV[1] .. '~' .. held)
    if ARGV[2] ~= '0' or (deadline and tonumber(deadline) > ms) then return '' end
end
local instance = ARGV[1] .. '~' .. incarnation
if not redis.call('ZSCORE', KEYS[2], instance) and redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then
    return false
end
redis.call('HSET', KEYS[1], ARGV[1], incarnation)
redis.call('ZADD', KEYS[2], ms + tonumber(ARGV[4]), instance)
return incarnation
