-- KEYS: nodes. ARGV: wakes, node, the last entry that it has applied; then for each node that asked its channel
-- and its message.
local entry = redis.call('HGET', KEYS[1], ARGV[2])
if entry and #entry >= 21 and compare(ARGV[3], string.sub(entry, 1, 8)) > 0 then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. string.sub(entry, 9))
end
for at = 4, #ARGV, 2 do redis.call(PUBLISH, ARGV[at], ARGV[at + 1]) end
return 0
