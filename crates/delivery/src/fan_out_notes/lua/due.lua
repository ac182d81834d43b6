-- Returns notes that are at least so old, the oldest first, each before its age. KEYS: the notes of a part of the conversations.
-- ARGV: the age in milliseconds, most notes.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local due = {}
for at = 1, #found, 2 do
    due[at], due[at + 1] = found[at], now - found[at + 1]
end
return due
