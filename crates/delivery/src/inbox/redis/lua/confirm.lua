-- Says that a node runs, and what its receivers have confirmed. KEYS: times of nodes; what the node has confirmed. ARGV: node, how
-- long all of it is kept; then user and text of each, to which the time is added. Returns 0.
local time = redis.call('TIME')
local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
redis.call('ZADD', KEYS[1], now, ARGV[1])
for at = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1] .. ' ' .. now) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 0
