-- Adds a block that a node took from the store, and ends the lease of its fetch. KEYS: 1 the hash, as in TAKE. ARGV: first, last, the
-- highest number that was known when the block was taken, the lease, how long the sequence is kept in ms. Returns 0.
-- Invariant: the block is above the number that was known, so at rises also where the block replaces another one. What is dropped
-- is a gap, never a repetition.
local KEY = KEYS[1]
local fields = redis.call('HMGET', KEY, 'at', 'last', 'nfirst', 'nlast', 'fetch')
local at, last, nfirst, nlast = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0, tonumber(fields[3]), tonumber(fields[4])
local first, top, seen = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if at < seen then
    redis.call('HDEL', KEY, 'nfirst', 'nlast')
    redis.call('HSET', KEY, 'at', first - 1, 'last', top)
elseif first <= last then
    -- Below the present block: its numbers must not be issued after higher ones.
elseif first == last + 1 then
    if nfirst == top + 1 then
        top = nlast
        redis.call('HDEL', KEY, 'nfirst', 'nlast')
    end
    redis.call('HSET', KEY, 'last', top)
elseif not nfirst then
    redis.call('HSET', KEY, 'nfirst', first, 'nlast', top)
elseif first == nlast + 1 then
    redis.call('HSET', KEY, 'nlast', top)
elseif top == nfirst - 1 then
    redis.call('HSET', KEY, 'nfirst', first)
end
if fields[5] == ARGV[4] then redis.call('HDEL', KEY, 'fetch') end
redis.call('PEXPIRE', KEY, ARGV[5])
return 0
