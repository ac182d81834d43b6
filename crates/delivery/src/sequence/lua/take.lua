-- Gives out numbers of a sequence. KEYS: 1 a hash: at, the last number that was given out; last, the end of the block; nfirst and
-- nlast, the block after it, if there is one. ARGV: how many, the highest number that the node was given or its caller knows, how
-- long the sequence is kept. Returns a code; with numbers also the first, how many, and how many are left.
-- Invariant: at only rises, and each number that is given out is in a block that a node took from the store and offered once.
local KEY = KEYS[1]
local NUMBERS, UNKNOWN, USED_UP = 0, 1, 3
local fields = redis.call('HMGET', KEY, 'at', 'last', 'nfirst', 'nlast')
local at, last, nfirst, nlast = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[3]), tonumber(fields[4])
local count, seen = tonumber(ARGV[1]), tonumber(ARGV[2])
-- An old state that was put back, or a block below what the caller knows.
if not at or at < seen then return { UNKNOWN } end
if at == last then
    if not nfirst then return { USED_UP } end
    at, last, nfirst = nfirst - 1, nlast, nil
    redis.call('HSET', KEY, 'last', last)
    redis.call('HDEL', KEY, 'nfirst', 'nlast')
end
local taken = math.min(count, last - at)
redis.call('HSET', KEY, 'at', at + taken)
redis.call('PEXPIRE', KEY, ARGV[3])
local left = last - at - taken
if nfirst then left = left + nlast - nfirst + 1 end
return { NUMBERS, at + 1, taken, left }
