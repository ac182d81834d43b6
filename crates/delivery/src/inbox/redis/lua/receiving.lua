-- KEYS: hashes of users. Returns now, and of each user with nodes the index and the nodes with receivers.
local answers = { now }
for index, hash in ipairs(KEYS) do
    local nodes = redis.call('HGET', hash, '@')
    if nodes and nodes ~= '' then
        answers[#answers + 1] = index
        answers[#answers + 1] = nodes
    end
end
return answers
