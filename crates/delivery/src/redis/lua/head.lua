-- Reads the end of the window for a list of conversations. Takes no lease and changes nothing. ARGV: the number above which
-- headers are read. Returns code, now; of a window also lo, hi, its age, the last entry, and the headers.
local HIT, MISS, HELD = 0, 1, 3
local after = tonumber(ARGV[1])
if hold > now then return { HELD, now } end
if not hi or not is_whole() or (hi > 0 and lo > hi) then return { MISS, now } end
local headers = {}
if after < hi then
    for index, entry in ipairs(redis.call('LRANGE', LIST, math.max(after + 1, lo) - lo, -1)) do
        headers[index] = string.sub(entry, 1, 11 + 8 * (string.byte(entry, 11) or 0))
    end
end
return { HIT, now, lo, hi, age(), redis.call('LINDEX', LIST, -1) or '', headers }
