-- Reads the entries first..last that the window has, or takes the lease. ARGV: first, last, token, how long a lease and how long
-- the window lasts. Returns code, now, why the window was dropped; of a window also lo, hi, its age and the entries.
local HIT, MISS, BUSY, HELD = 0, 1, 2, 3
local first, last, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if hi and not is_whole() then drop(EVICTED) end
if hold > now then return { HELD, now, dropped } end
if hi then
    keep(ARGV[5])
    local entries = {}
    first, last = math.max(first, lo), math.min(last, hi)
    if first <= last then entries = redis.call('LRANGE', LIST, first - lo, last - lo) end
    return { HIT, now, dropped, lo, hi, age(), entries }
end
-- One reader fills: others read the store meanwhile, and may not fill.
if leased > now then return { BUSY, now, dropped } end
redis.call('HSET', HASH, 'lease', token, 'leased', now + tonumber(ARGV[4]))
keep(ARGV[5])
return { MISS, now, dropped }
