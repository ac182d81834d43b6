-- Forgets what a node has confirmed. KEYS: times of nodes; what the node has confirmed. ARGV: node, for how long it must be silent to
-- be forgotten itself; then the users. Returns 0.
-- Invariant: a node is forgotten with its last user, or it would be found for ever.
if #ARGV > 2 then redis.call('HDEL', KEYS[2], unpack(ARGV, 3)) end
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if at and now - at >= tonumber(ARGV[2]) and redis.call('HLEN', KEYS[2]) == 0 then
    redis.call('ZREM', KEYS[1], ARGV[1])
end
return 0
