-- Makes a node one of those with receivers, and an inbox if there is none. ARGV: node, how long it counts, how long the inbox lasts,
-- generation of a new one. Returns 0: it was there, 1: it is new, 2: it is new, and the stream of an earlier one was there; the
-- generation, the position of the last entry, 1 if all marks are set.
local HASH, STREAM = KEYS[1], KEYS[2]
local fields = redis.call('HMGET', HASH, '@', 'g', 'p', 'all')
local nodes, g, p, all = fields[1] or '', fields[2], tonumber(fields[3]), tonumber(fields[4]) or 0
local made = 0
if not g then
    made = 1 + redis.call('DEL', STREAM)
    g, p = ARGV[4], 0
    redis.call('HSET', HASH, 'g', g, 'p', p)
end
local kept = others(nodes, ARGV[1])
kept[#kept + 1] = string.format('%.0f', now + tonumber(ARGV[2])) .. ' ' .. ARGV[1]
redis.call('HSET', HASH, '@', table.concat(kept, ' '))
redis.call('PEXPIRE', HASH, ARGV[3])
redis.call('PEXPIRE', STREAM, ARGV[3])
return { made, g, p, all }
