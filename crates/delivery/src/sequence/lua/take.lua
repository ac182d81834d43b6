-- Issues numbers of a sequence. KEYS: 1 a hash: at, the last number that was issued; last, the end of the block; nfirst and nlast,
-- a block above it, if there is one; fetch, when the lease of the node that fetches a block ends, in ms. ARGV: how many numbers, the
-- highest number that the node was given or its caller knows, below how many left a block is to be fetched, the length of a lease in
-- ms, how long the sequence is kept in ms, 1 if that begins again. Returns the first number, how many, and the lease if the caller is to fetch a block, else 0.
-- Invariant: at only rises, and each number that is issued is in a block that a node took from the store and offered once.
-- Invariant: one node fetches at a time. Blocks of two nodes could arrive in either order, and at would pass the later one.
local KEY = KEYS[1]
local fields = redis.call('HMGET', KEY, 'at', 'last', 'nfirst', 'nlast', 'fetch')
local at, last, nfirst, nlast = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0, tonumber(fields[3]), tonumber(fields[4])
local count, seen, low = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local first, taken, left, lease = at + 1, 0, 0, 0
-- Below seen: an old state that was put back, or a block below what the caller knows.
if at >= seen then
    if at == last and nfirst then
        at, last, nfirst, first = nfirst - 1, nlast, nil, nfirst
        redis.call('HSET', KEY, 'last', last)
        redis.call('HDEL', KEY, 'nfirst', 'nlast')
    end
    taken = math.min(count, last - at)
    left = last - at - taken
    if nfirst then left = left + nlast - nfirst + 1 end
end
if taken > 0 then redis.call('HSET', KEY, 'at', at + taken) end
if taken == 0 or left < low then
    local time = redis.call('TIME')
    local now, fetch = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(fields[5])
    if not fetch or fetch <= now then
        lease = now + tonumber(ARGV[4])
        redis.call('HSET', KEY, 'fetch', lease)
    end
end
-- A key without an end would stay for ever: a lease may have made it.
if lease > 0 or ARGV[6] == '1' then redis.call('PEXPIRE', KEY, ARGV[5]) end
return { first, taken, lease }
