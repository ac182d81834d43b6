local KEPT_MS = 600000

-- The highest epoch that a node has sent, as 8 bytes and as text.
local function highest(key)
  local stored = redis.pcall('GET', key)
  if type(stored) ~= 'string' or #stored < 9 then return ZERO, nil end
  return string.sub(stored, 1, 8), string.sub(stored, 9)
end

-- The keys of an epoch that was left expire. Nodes that still follow it learn the higher epoch from the answer.
local function left(...)
  for _, key in ipairs({...}) do redis.call('PEXPIRE', key, KEPT_MS) end
end
