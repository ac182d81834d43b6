-- KEYS: key. ARGV: wakes, token, milliseconds of a tomb.
local kind, version, owner, waited = cell(KEYS[1])
if kind ~= LEASE or owner ~= ARGV[2] then return 0 end
become(KEYS[1], waited, version ~= ZERO and bare(TOMB, version, ZERO) or nil, ARGV[3])
return 0
