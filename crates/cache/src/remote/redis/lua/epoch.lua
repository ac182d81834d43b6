local KEPT_MS = 600000

-- The highest epoch that was told of, as 8 bytes and as text.
local function highest(key)
  local told = redis.pcall('GET', key)
  if type(told) ~= 'string' or #told < 9 then return ZERO, nil end
  return string.sub(told, 1, 8), string.sub(told, 9)
end

-- What belongs to an epoch that was left goes by itself: nodes that still follow it are told so at once.
local function left(log, nodes)
  redis.call('PEXPIRE', log, KEPT_MS)
  redis.call('PEXPIRE', nodes, KEPT_MS)
end
