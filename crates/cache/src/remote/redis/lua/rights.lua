-- ARGV: commands with their arguments, words separated by spaces. {those that the user may not run, those that the
-- server does not know}. Runs none of them. Servers that cannot say answer that all is well.
local denied, unknown = {}, {}
if not redis.acl_check_cmd then return {denied, unknown} end
for _, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not known then
    unknown[#unknown + 1] = words[1]
  elseif not allowed then
    denied[#denied + 1] = words[1]
  end
end
return {denied, unknown}
