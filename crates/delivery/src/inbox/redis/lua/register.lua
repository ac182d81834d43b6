-- Makes a node one of those that read a conversation. ARGV: node, how long it counts. Returns 0.
local nodes = others(redis.call('GET', KEYS[1]) or '', ARGV[1])
nodes[#nodes + 1] = string.format('%.0f', now + tonumber(ARGV[2])) .. ' ' .. ARGV[1]
redis.call('SET', KEYS[1], table.concat(nodes, ' '), 'PX', ARGV[2])
return 0
