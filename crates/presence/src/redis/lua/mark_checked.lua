-- Records that users were checked. KEYS: the users of the gateway. ARGV: 1: also those before their time, then of each user its id
-- and the time until its next check ('-1': none).
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for at = 2, #ARGV, 2 do
    local user, left = ARGV[at], tonumber(ARGV[at + 1])
    local known = redis.call('ZSCORE', KEYS[1], user)
    if known and (ARGV[1] == '1' or tonumber(known) <= ms) then
        if left >= 0 then
            redis.call('ZADD', KEYS[1], ms + left, user)
        else
            redis.call('ZREM', KEYS[1], user)
        end
    end
end
return 1
