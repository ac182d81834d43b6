-- Returns notes that are at least so old, the oldest of each part first, each before its age. KEYS: the notes of some parts of the
-- conversations. ARGV: the age in milliseconds, most notes of a part.
local time = redis.call('TIME')
local now, due = time[1] * 1000 + math.floor(time[2] / 1000), {}
for _, key in ipairs(KEYS) do
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', now - ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
    for at = 1, #found, 2 do
        due[#due + 1] = found[at]
        due[#due + 1] = now - found[at + 1]
    end
end
return due
