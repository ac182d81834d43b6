-- Removes notes. KEYS: the notes of some parts of the conversations. ARGV: for each key the number of its notes, and these. Returns 0.
local at = 1
for _, key in ipairs(KEYS) do
    redis.call('ZREM', key, unpack(ARGV, at + 1, at + ARGV[at]))
    at = at + ARGV[at] + 1
end
return 0
