-- KEYS: nodes, abouts. ARGV: wakes, milliseconds after which a node is forgotten.
-- {what registered() says, what each of these nodes says of itself}.
local found, texts = registered(KEYS[1], ARGV[2]), {}
for at = 1, #found, 3 do
  local text = redis.call('HGET', KEYS[2], found[at])
  texts[#texts + 1] = text or string.sub(redis.call('HGET', KEYS[1], found[at]), 22)
end
return {found, texts}
