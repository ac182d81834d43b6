-- Schedules checks of users of a gateway. KEYS: the users of the gateway. ARGV: 'replace' or 'sooner' (a known earlier time
-- stays), in how long, how long the key is kept after that, users.
local time = redis.call('TIME')
local at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[2])
local words = { 'ZADD', KEYS[1] }
if ARGV[1] == 'sooner' then words[3] = 'LT' end
for user = 4, #ARGV do
    words[#words + 1] = at
    words[#words + 1] = ARGV[user]
end
redis.call(unpack(words))
return redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) + tonumber(ARGV[3]))
