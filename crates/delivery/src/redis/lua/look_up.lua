-- Reads the entries first..last that the window has, or takes the lease. ARGV: first, last, token, how long a lease and how long
-- the window lasts. Returns code, now, why the window was dropped; of a window also lo, hi, its age and the entries.
local HIT, MISS, BUSY, HELD = 0, 1, 2, 3
local first, last, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if hi and not is_whole() then drop(EVICTED) end
if hold > now then return { HELD, now, dropped } end
if hi and not has_headers then
    keep(ARGV[5])
    local entries = {}
    first, last = math.max(first, lo), math.min(last, hi)
    if first <= last then entries = redis.call('LRANGE', LIST, first - lo, last - lo) end
    return { HIT, now, dropped, lo, hi, age(), entries }
end
-- One reader fills: others read the store meanwhile, and may not fill.
if not lease_to(token, ARGV[4], ARGV[5]) then return { BUSY, now, dropped } end
return { MISS, now, dropped }
