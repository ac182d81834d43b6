-- Enters a note. ARGV: most entries, the note. Returns 0 if there is no inbox; else now, the nodes, and unless the inbox has ended
-- the generation and the position.
local HASH, STREAM = KEYS[1], KEYS[2]
local fields = redis.call('HMGET', HASH, '@', 'g', 'p')
local nodes, g, p = fields[1], fields[2], tonumber(fields[3])
if not g then return 0 end
local position = add(HASH, STREAM, g, p, ARGV[1], ARGV[2])
if not position then return { now, nodes } end
redis.call('HSET', HASH, 'p', position)
return { now, nodes, g, position }
