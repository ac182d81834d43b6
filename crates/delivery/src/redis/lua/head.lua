-- Reads the end of the window for a list of conversations, or takes the lease to make a window of headers. ARGV: the number above
-- which headers are read, token, how long a lease and how long the window lasts. Returns code, now, why the window was dropped; of
-- a window also lo, hi, its age, the last entry, and the headers in a row; without a window whether the reader has the lease.
local HIT, MISS, HELD = 0, 1, 3
local after = tonumber(ARGV[1])
if hi and not is_whole() then drop(EVICTED) end
if hold > now then return { HELD, now, dropped } end
if not hi then return { MISS, now, dropped, lease_to(ARGV[2], ARGV[3], ARGV[4]) and 1 or 0 } end
-- The last message had no room: it is read from the store.
if hi > 0 and lo > hi then return { MISS, now, dropped, 0 } end
local headers = {}
if after < hi then
    headers = redis.call('LRANGE', LIST, math.max(after + 1, lo) - lo, -1)
    for index = has_headers and #headers or 1, #headers do
        headers[index] = header_of(headers[index])
    end
end
return { HIT, now, dropped, lo, hi, age(), redis.call('LINDEX', LIST, -1) or '', table.concat(headers) }
