-- Makes the window of what its reader has read from the store. ARGV: token, moment of the lookup that gave the lease, lo, hi, how
-- long the window lasts, entries. Returns code, now.
-- Invariant: everything that was known of the log before the store was read is in the entries. A change since then has taken the
-- lease away, an append since then has raised the floor.
local STORED, LOST, BELOW = 0, 1, 2
local token, at, from, to = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if lease ~= token then return { LOST, now } end
if hold > now then return { LOST, now } end
if to < floor then return { BELOW, now } end
redis.call('DEL', LIST)
bytes = 0
for index = 6, #ARGV do
    redis.call('RPUSH', LIST, ARGV[index])
    bytes = bytes + #ARGV[index]
end
redis.call('HSET', HASH, 'lo', from, 'hi', to, 'bytes', bytes, 'checked', math.max(checked, at))
redis.call('HDEL', HASH, 'lease', 'leased')
keep(ARGV[5])
return { STORED, now }
