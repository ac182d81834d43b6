-- Users that must be checked. KEYS: the users of the gateway. ARGV: most, 1: all users, also before their time.
if ARGV[2] == '1' then return redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1) end
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', ms), 'LIMIT', 0, ARGV[1])
