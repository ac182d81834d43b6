-- Reads the sessions of a user. KEYS: the user. Returns version, version of which the groups were notified, then each
-- session with its time left.
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local all = redis.call('HGETALL', KEYS[1])
local answer = { 0, 0 }
for at = 1, #all, 2 do
    local name, value = all[at], all[at + 1]
    if name == 'version' then answer[1] = tonumber(value)
    elseif name == 'fanned' then answer[2] = tonumber(value)
    elseif name ~= 'gateways' and tonumber(value) > ms then
        answer[#answer + 1] = name
        answer[#answer + 1] = tonumber(value) - ms
    end
end
return answer
