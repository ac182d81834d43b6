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
local last, headers = redis.call('LINDEX', LIST, -1) or '', ''
if after < hi and has_headers then
    if lo < hi then headers = behind(redis.call('LINDEX', LIST, 0), after + 1 - lo) end
    headers = headers .. header_of(last)
elseif after < hi then
    local entries = redis.call('LRANGE', LIST, math.max(after + 1, lo) - lo, -1)
    for index = 1, #entries do entries[index] = header_of(entries[index]) end
    headers = table.concat(entries)
end
return { HIT, now, dropped, lo, hi, age(), last, headers }
