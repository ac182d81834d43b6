-- Enters messages of a conversation into inboxes. KEYS: hash and stream of each user. ARGV: conversation, last number, most entries of
-- an inbox, most inboxes of a run. Returns now, how many users it has answered for, and how many of the others have an inbox; then
-- of each inbox the index of its user and an answer. The answer is its nodes: nothing is new; its nodes alone, in a list: the inbox
-- has ended; or its nodes, the generation, the position, and the first number (0: the conversation is new).
local last, most = tonumber(ARGV[2]), tonumber(ARGV[4])
local hashes = {}
for index = 1, #KEYS, 2 do hashes[#hashes + 1] = KEYS[index] end
-- Mostly no recipient has an inbox. Then this is all.
local left, found, user = redis.call('EXISTS', unpack(hashes)), 0, 0
local answers = { now, 0, 0 }
while left > 0 and found < most and user < #hashes do
    user = user + 1
    local hash, stream, answer = hashes[user], KEYS[2 * user], nil
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
    if answer then
        left, found = left - 1, found + 1
        answers[#answers + 1] = user
        answers[#answers + 1] = answer
    end
end
answers[2], answers[3] = left > 0 and user or #hashes, left
return answers
