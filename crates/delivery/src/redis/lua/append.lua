-- Adds messages that the log has got. KEYS: 3 the nodes that read the conversation. ARGV: first, last, a moment before the append to the log began (0: not known), 1 where one
-- of them is the event of a change, most entries, most bytes, how long the window lasts, entries. Returns now, why the window was
-- dropped, and these nodes.
-- Invariant: an entry is added behind the one before it, or not at all.
local first, last, at = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local entries_max, bytes_max = tonumber(ARGV[5]), tonumber(ARGV[6])
if hi and not is_whole() then drop(EVICTED) end
if ARGV[4] == '1' then
    -- The window may have the message as it was before.
    drop(CHANGE)
elseif hi and first > hi + 1 then
    drop(GAP)
end
-- Of an absent window nothing is known but its floor: these may be messages that were changed meanwhile.
if not hi then
    raise(last)
elseif last > hi and has_headers then
    raise(last)
    local entries = redis.call('LRANGE', LIST, 0, -1)
    if #entries > 0 then entries[#entries] = header_of(entries[#entries]) end
    for seq = hi + 1, last - 1 do entries[#entries + 1] = header_of(ARGV[8 + seq - first]) end
    local removed, entry = math.max(last - lo + 1 - entries_max, 0), ARGV[8 + last - first]
    local headers = behind(table.concat(entries), removed)
    if #headers + #entry > bytes_max then
        drop(EVICTED)
    else
        redis.call('DEL', LIST)
        if headers ~= '' then redis.call('RPUSH', LIST, headers) end
        redis.call('RPUSH', LIST, entry)
        redis.call('HSET', HASH, 'headers', lo + removed, 'checked', math.max(checked, at))
    end
elseif last > hi then
    for seq = hi + 1, last do
        local entry = ARGV[8 + seq - first]
        redis.call('RPUSH', LIST, entry)
        bytes = bytes + #entry
        hi = hi + 1
    end
    while hi - lo + 1 > entries_max or bytes > bytes_max do
        bytes = bytes - #redis.call('LPOP', LIST)
        lo = lo + 1
    end
    redis.call('HSET', HASH, 'lo', lo, 'hi', hi, 'bytes', bytes, 'checked', math.max(checked, at))
end
keep(ARGV[7])
return { now, dropped, redis.call('GET', KEYS[3]) or '' }
