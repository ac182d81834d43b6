-- Enters messages of a conversation into inboxes of one slot. KEYS: hash and stream of each user. ARGV: conversation, last number,
-- most entries. Returns now; then of each user 0: there is no inbox; its nodes: nothing is new; its nodes alone, in a list: the
-- inbox has ended; or its nodes, the generation, the position, and the first number (0: the conversation is new).
local last = tonumber(ARGV[2])
local answers = { now }
for index = 1, #KEYS, 2 do
    local hash, stream, answer = KEYS[index], KEYS[index + 1], 0
    local fields = redis.call('HMGET', hash, '@', 'g', 'p', ARGV[1])
    local nodes, g, p, mark = fields[1], fields[2], tonumber(fields[3]), tonumber(fields[4])
    if g and mark and mark >= last then
        answer = nodes
    elseif g then
        local position = add(hash, stream, g, p, ARGV[3], range(ARGV[1], mark, ARGV[2]))
        answer = { nodes }
        if position then
            redis.call('HSET', hash, 'p', position, ARGV[1], ARGV[2])
            answer = { nodes, g, position, mark and mark + 1 or 0 }
        end
    end
    answers[#answers + 1] = answer
end
return answers
