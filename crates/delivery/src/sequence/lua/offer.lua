-- Adds a block that a node took from the store. KEYS: 1 the hash, as in TAKE. ARGV: first, last, the highest number that was known
-- when the block was taken, how long the sequence is kept. Returns 0.
-- Invariant: the block is above the number that was known, so at rises also where the block replaces another one. What is dropped
-- is a gap, never a repetition.
local KEY = KEYS[1]
local fields = redis.call('HMGET', KEY, 'at', 'last', 'nfirst', 'nlast')
local at, last, nfirst, nlast = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[3]), tonumber(fields[4])
local first, top, seen = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not at or at < seen then
    redis.call('DEL', KEY)
    redis.call('HSET', KEY, 'at', first - 1, 'last', top)
elseif nfirst then
    if first == nlast + 1 then redis.call('HSET', KEY, 'nlast', top) end
elseif first == last + 1 then
    redis.call('HSET', KEY, 'last', top)
elseif first > last then
    redis.call('HSET', KEY, 'nfirst', first, 'nlast', top)
end
redis.call('PEXPIRE', KEY, ARGV[4])
return 0
