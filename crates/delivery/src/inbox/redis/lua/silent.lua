-- Returns the nodes that have not said for so long that they run, each before the time since then. KEYS: times of nodes. ARGV: how
-- long, most nodes.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for at = 2, #found, 2 do found[at] = now - found[at] end
return found
