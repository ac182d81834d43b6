-- Returns what a node had confirmed when it last said something: some users, each before its text. KEYS: times of nodes; what the
-- node has confirmed. ARGV: node, most users, how long it may go without renewal.
-- Invariant: what is not renewed is of a receiver whose end could not be written. It is removed.
local said, found, old = redis.call('ZSCORE', KEYS[1], ARGV[1]), {}, {}
local confirmed = said and redis.call('HGETALL', KEYS[2]) or {}
for at = 1, #confirmed, 2 do
    local user, text = confirmed[at], confirmed[at + 1]
    if said - string.match(text, '%d+$') > tonumber(ARGV[3]) then
        old[#old + 1] = user
    elseif #found < 2 * ARGV[2] then
        found[#found + 1], found[#found + 2] = user, text
    end
end
for _, user in ipairs(old) do redis.call('HDEL', KEYS[2], user) end
return found
