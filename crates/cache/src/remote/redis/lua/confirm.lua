-- KEYS: nodes. ARGV: wakes, channel of who asked, node, the last entry that it has applied, message.
local entry = redis.call('HGET', KEYS[1], ARGV[3])
if entry and #entry >= 21 and compare(ARGV[4], string.sub(entry, 1, 8)) > 0 then
  redis.call('HSET', KEYS[1], ARGV[3], ARGV[4] .. string.sub(entry, 9))
end
return redis.call('PUBLISH', ARGV[2], ARGV[5])
