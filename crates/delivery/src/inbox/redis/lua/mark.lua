-- Raises marks to the ends of conversations. ARGV: generation, 1 if all have a mark after this, most entries; then conversation and
-- end of each. Returns 0 if the generation has ended; else now, the nodes, the position of the last entry, how many were written,
-- how many conversations have a mark, and the mark of each that was given.
-- Invariant: what raises a mark is entered, for the receivers that read on from earlier. The first mark of a conversation is not,
-- until all have one: each receiver of that time gives marks itself, and learns by their number whether it missed one.
local HASH, STREAM = KEYS[1], KEYS[2]
local fields = redis.call('HMGET', HASH, '@', 'g', 'p', 'all')
local nodes, g, p, all = fields[1], fields[2], tonumber(fields[3]), fields[4] == '1'
if g ~= ARGV[1] then return 0 end
local answer, position = { now, nodes, 0, 0, 0 }, p
for index = 4, #ARGV, 2 do
    local conversation, last = ARGV[index], ARGV[index + 1]
    local mark = tonumber(redis.call('HGET', HASH, conversation))
    if not mark or mark < tonumber(last) then
        if mark or (all and last ~= '0') then
            position = add(HASH, STREAM, g, position, ARGV[3], range(conversation, mark, last))
            if not position then return 0 end
        end
        redis.call('HSET', HASH, conversation, last)
        mark = tonumber(last)
    end
    answer[#answer + 1] = mark
end
if position > p then redis.call('HSET', HASH, 'p', position) end
if ARGV[2] == '1' then redis.call('HSET', HASH, 'all', 1) end
answer[3], answer[4] = position, position - p
answer[5] = redis.call('HLEN', HASH) - 3 - redis.call('HEXISTS', HASH, 'all')
return answer
