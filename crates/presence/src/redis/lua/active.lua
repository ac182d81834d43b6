-- The online members of a group. KEYS: users, online. ARGV: the padded user before the first ('': none), most.
-- Returns each user and its 'version:gateways'.
local from = '-'
if ARGV[1] ~= '' then from = '(' .. ARGV[1] end
local answer = {}
for _, padded in ipairs(redis.call('ZRANGEBYLEX', KEYS[2], from, '+', 'LIMIT', 0, ARGV[2])) do
    local user = string.gsub(padded, '^0+', '')
    answer[#answer + 1] = user
    answer[#answer + 1] = redis.call('HGET', KEYS[1], user) or ''
end
return answer
