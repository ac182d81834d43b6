-- KEYS: log, nodes, highest epoch, abouts. ARGV: wakes, node, applied, about, the epoch as 8 bytes and as text,
-- milliseconds after which a node is forgotten ('': none is now), whether the node enters the epoch ('': not).
-- {number of the last entry, its nonce, highest epoch, who this server is}.
local log, nodes, abouts, node = KEYS[1], KEYS[2], KEYS[4], ARGV[2]
local known, text = highest(KEYS[3])
local order = compare(ARGV[5], known)
if order > 0 and ARGV[8] ~= '' then
  redis.call('SET', KEYS[3], ARGV[5] .. ARGV[6])
  if text then
    local function before(key) return string.sub(key, 1, -#ARGV[6] - 1) .. text end
    left(before(log), before(nodes), before(abouts))
  end
  known = ARGV[5]
end
redis.call('HSET', nodes, node, ARGV[3] .. clock())
redis.call('HSET', abouts, node, ARGV[4])
if order < 0 then left(log, nodes, abouts) end
if ARGV[7] ~= '' then forget(nodes, abouts, ARGV[7]) end
local number, nonce = 0, ZERO
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if last then
  number = tonumber(string.sub(last[1], 3)) + 1
  if #last[2][2] >= 8 then nonce = string.sub(last[2][2], 1, 8) end
end
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
return {number, nonce, known, server}
