-- The epoch and its age, and if asked for all gateways with their time left. KEYS: claims, deadlines, epoch. ARGV:
-- a new epoch, 1: all gateways. An epoch that begins in the future was begun before the clock went back: it is replaced.
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local new = ARGV[1] .. ':' .. string.format('%.0f', ms)
redis.call('SET', KEYS[3], new, 'NX')
local epoch, begun = string.match(redis.call('GET', KEYS[3]), '^(.*):(%d+)$')
if tonumber(begun) > ms then
    redis.call('SET', KEYS[3], new)
    epoch, begun = ARGV[1], ms
end
local answer = { epoch, ms - tonumber(begun) }
if ARGV[2] == '1' then
    local all = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
    for at = 1, #all, 2 do
        answer[#answer + 1] = all[at]
        answer[#answer + 1] = math.max(0, tonumber(all[at + 1]) - ms)
    end
end
return answer
