-- Notes steps under the time of the server. KEYS: the notes of some parts of the conversations. ARGV: for each key the number of its
-- notes, and these. Returns 0.
local time = redis.call('TIME')
local now, at = time[1] * 1000 + math.floor(time[2] / 1000), 1
for _, key in ipairs(KEYS) do
    for index = at + 1, at + ARGV[at] do redis.call('ZADD', key, now, ARGV[index]) end
    at = at + ARGV[at] + 1
end
return 0
