-- Which nodes there are. Each is a field of a hash: its number (8 bytes), and of it the last entry applied
-- (8 bytes) and the moment of its last probe by the clock of this server (13 digits, milliseconds since 1970).
-- What it says of itself is a field of another hash, because each strict write reads this one. A node of an
-- earlier version has that text behind the moment.
local function clock()
  local time = redis.call('TIME')
  return string.format('%013.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- How long the node of this entry is silent; nil: it is none.
local function silence(entry, now)
  local at = #entry >= 21 and tonumber(string.sub(entry, 9, 21))
  return at and math.max(0, tonumber(now) - at)
end

-- Number, applied and silence in milliseconds of each node that was active recently.
local function registered(key, silent_ms)
  local fields, found, now = redis.call('HGETALL', key), {}, clock()
  for at = 1, #fields, 2 do
    local node, entry = fields[at], fields[at + 1]
    local silent = silence(entry, now)
    if silent and #node == 8 and silent < tonumber(silent_ms) then
      found[#found + 1] = node
      found[#found + 1] = string.sub(entry, 1, 8)
      found[#found + 1] = silent
    end
  end
  return found
end

local function forget(key, abouts, silent_ms)
  local fields, now = redis.call('HGETALL', key), clock()
  for at = 1, #fields, 2 do
    local silent = silence(fields[at + 1], now)
    if not silent or silent >= tonumber(silent_ms) then
      redis.call('HDEL', key, fields[at])
      redis.call('HDEL', abouts, fields[at])
    end
  end
end
