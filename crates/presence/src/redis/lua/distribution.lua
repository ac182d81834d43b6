-- The numbers of online members of a group. KEYS: users, online, gateways. Returns the total, the version, then each gateway
-- with its number.
local all = redis.call('HGETALL', KEYS[3])
local answer = { redis.call('ZCARD', KEYS[2]), 0 }
for at = 1, #all, 2 do
    if all[at] == ':version' then
        answer[2] = tonumber(all[at + 1])
    else
        answer[#answer + 1] = all[at]
        answer[#answer + 1] = tonumber(all[at + 1])
    end
end
return answer
