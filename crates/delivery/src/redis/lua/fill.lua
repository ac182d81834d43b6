-- Makes the window of what its reader has read from the store. ARGV: token, moment of the lookup that gave the lease, lo, hi, 1 for
-- a window of headers, how long the window lasts, entries. Returns code, now.
-- Invariant: everything that was known of the log before the store was read is in the entries. A change since then has taken the
-- lease away, an append since then has raised the floor.
local STORED, LOST, BELOW = 0, 1, 2
local token, at, from, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if lease ~= token then return { LOST, now } end
if hold > now then return { LOST, now } end
if to < floor then return { BELOW, now } end
redis.call('DEL', LIST)
bytes = 0
for index = 7, #ARGV do
    redis.call('RPUSH', LIST, ARGV[index])
    bytes = bytes + #ARGV[index]
end
if ARGV[5] == '1' then
    raise(to)
    redis.call('HSET', HASH, 'headers', from)
else
    redis.call('HSET', HASH, 'lo', from, 'hi', to)
    redis.call('HDEL', HASH, 'headers')
end
redis.call('HSET', HASH, 'bytes', bytes, 'checked', math.max(checked, at))
redis.call('HDEL', HASH, 'lease', 'leased')
keep(ARGV[6])
return { STORED, now }
