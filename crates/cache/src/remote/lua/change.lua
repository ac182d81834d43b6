-- KEYS: the changed keys, then the log. ARGV: channel, nonce, message, most entries of the log, milliseconds
-- of values, milliseconds of tombs; then for each key 'I' and its version (zero: unknown), or 'P' and bytes.
-- The number of the change. What changes, is logged and is told is one step.
local keys = #KEYS - 1
for i = 1, keys do
  local order = ARGV[6 + i]
  local rest = string.sub(order, 2)
  if string.byte(order) == 80 then
    put(KEYS[i], rest, ARGV[5], ARGV[6])
  else
    invalidate(KEYS[i], rest, ARGV[6])
  end
end
local log = KEYS[keys + 1]
local before = ZERO
local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
if last then before = string.sub(last[2][2], 1, 8) end
local entry = ARGV[2] .. before .. ARGV[3]
local id = redis.call('XADD', log, 'MAXLEN', '~', ARGV[4], '1-*', 'e', entry)
local number = tonumber(string.sub(id, 3)) + 1
redis.call('PUBLISH', ARGV[1], struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296) .. entry)
return number
