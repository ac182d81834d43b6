-- The inbox of a user: KEYS are its hash and its stream.
-- The hash: @, nodes with receivers, each as the end of its time and its name; g, the generation; p, the position of the last
-- entry; all, 1 once every conversation of the user has a mark; and of each conversation its mark.
-- Invariant: an entry of a conversation begins behind its mark and sets it. So the entries of one conversation are contiguous.
-- Invariant: the entry at a position has the id g-position. The stream has the last entries up to p, or none: Redis may have
-- evicted it, which is as if all were trimmed. Only OPEN makes the hash; without it there is no inbox.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- Adds an entry behind position p, and returns its position. Returns nothing if the stream has later entries than the hash
-- knows of: Redis was given another state. Then the inbox is gone. Any other failure ends the script before it has changed this
-- inbox.
local function add(hash, stream, g, p, most, entry)
    local id = g .. '-' .. string.format('%.0f', p + 1)
    local added = redis.pcall('XADD', stream, 'NOMKSTREAM', 'MAXLEN', '~', most, id, 'e', entry)
    if added and added.err and string.find(added.err, 'equal or smaller', 1, true) then
        redis.call('DEL', hash, stream)
        return nil
    end
    if not added or added.err then
        redis.call('XADD', stream, id, 'e', entry)
        redis.call('PEXPIRE', stream, math.max(redis.call('PTTL', hash), 1))
    end
    return p + 1
end

local function range(conversation, mark, last)
    return 'm ' .. conversation .. ' ' .. string.format('%.0f', mark and mark + 1 or 0) .. ' ' .. last
end
