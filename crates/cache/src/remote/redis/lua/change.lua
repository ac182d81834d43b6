-- KEYS: the changed keys, then log, nodes and highest epoch. ARGV: wakes, channel, nonce, message, most
-- entries of the log, milliseconds of tombs, the epoch, milliseconds after which a node is forgotten; then for
-- each key 'I' and its version (zero: unknown), or 'P', the milliseconds it is kept (4 bytes) and its bytes.
-- Cells, log and broadcast change in one step.
local keys = #KEYS - 3
local log, nodes = KEYS[keys + 1], KEYS[keys + 2]
for at = 1, keys do
  local order = ARGV[8 + at]
  if string.byte(order) == 80 then
    put(KEYS[at], string.sub(order, 6), (struct.unpack('>I4', order, 2)), ARGV[6])
  else
    invalidate(KEYS[at], string.sub(order, 2), ARGV[6])
  end
end
local before, id = ZERO, nil
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if last and #last[2][2] >= 8 then before = string.sub(last[2][2], 1, 8) end
-- A client that had no answer sends the change again: the last entry of the log was published already.
local again = last and before == ARGV[3]
local entry = ARGV[3] .. before .. ARGV[4]
if again then id = last[1] else id = redis.call('XADD', log, 'MAXLEN', '~', ARGV[5], '1-*', 'e', entry) end
local number = tonumber(string.sub(id, 3)) + 1
if not again then
  redis.call(PUBLISH, ARGV[2], struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296) .. entry)
end
local epoch = highest(KEYS[keys + 3])
if compare(epoch, ARGV[7]) > 0 then left(log, nodes) end
