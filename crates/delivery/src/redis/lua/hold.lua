-- Holds the window for a change of a message, or ends a hold. ARGV: token, how long (0: ends it), how long the window lasts.
-- Returns now, why the window was dropped.
-- Invariant: from the begin of a hold to its end there is no window, and what was read from the store before its begin or before
-- its end fills none: the lease is gone. Other holds go on.
local token, lasts = ARGV[1], tonumber(ARGV[2])
drop(HOLD)
redis.call('HDEL', HASH, 'lease', 'leased')
local holds = {}
for holder, ends in string.gmatch(redis.call('HGET', HASH, 'holds') or '', '(%w+)=(%d+)') do
    if tonumber(ends) > now and holder ~= token then holds[holder] = tonumber(ends) end
end
if lasts > 0 then holds[token] = now + lasts end
hold = 0
local texts = {}
for holder, ends in pairs(holds) do
    hold = math.max(hold, ends)
    texts[#texts + 1] = holder .. '=' .. string.format('%.0f', ends)
end
redis.call('HSET', HASH, 'hold', hold, 'holds', table.concat(texts, ' '))
keep(ARGV[3])
return { now, dropped }
