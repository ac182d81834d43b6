-- Ends what OPEN began for a node. ARGV: node. Returns 0.
local nodes = redis.call('HGET', KEYS[1], '@')
if nodes then redis.call('HSET', KEYS[1], '@', table.concat(others(nodes, ARGV[1]), ' ')) end
return 0
