-- Reads entries after a position. ARGV: generation, position, most entries. Returns 0 if a receiver cannot continue there; else the
-- entries, by rising position.
-- Invariant: an answer has every entry from the position on, or all of them have been read.
local after = tonumber(ARGV[2])
local fields = redis.call('HMGET', KEYS[1], 'g', 'p')
local g, p = fields[1], tonumber(fields[2])
if g ~= ARGV[1] or after > p then return 0 end
if after == p then return {} end
local function id(position) return g .. '-' .. string.format('%.0f', position) end
local found = redis.call('XRANGE', KEYS[2], id(after + 1), '+', 'COUNT', ARGV[3])
local count = #found
-- The next one was trimmed, or one of them is missing.
if count == 0 or found[1][1] ~= id(after + 1) or found[count][1] ~= id(after + count) then return 0 end
local entries = {}
for index, entry in ipairs(found) do entries[index] = entry[2][2] end
return entries
