-- KEYS: the owner of the prefix: id of a database (16 digits) and the moment when it was last renewed. ARGV: id of a
-- database ('': only look), milliseconds without renewal after which the prefix is free. Takes or renews the prefix for this
-- database unless another one has it. {the id that has it then, or '', the id of the database that had it before, or ''}.
local owner, now = redis.pcall('GET', KEYS[1]), clock()
local id, alive = '', false
if type(owner) == 'string' and #owner == 29 then
  id = string.sub(owner, 1, 16)
  alive = math.abs(tonumber(now) - (tonumber(string.sub(owner, 17)) or 0)) < tonumber(ARGV[2])
end
if ARGV[1] == '' or (alive and id ~= ARGV[1]) then return {alive and id or '', ''} end
redis.call('SET', KEYS[1], ARGV[1] .. now)
return {ARGV[1], id ~= ARGV[1] and id or ''}
