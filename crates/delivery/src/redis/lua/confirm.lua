-- Records where the log ended when it was read. ARGV: moment of a lookup before that read, end, how long the window lasts. Returns
-- now, why the window was dropped.
local at, ends = tonumber(ARGV[1]), tonumber(ARGV[2])
if hi and hi >= ends then
    redis.call('HSET', HASH, 'checked', math.max(checked, at))
else
    drop(BEHIND)
    raise(ends)
    keep(ARGV[3])
end
return { now, dropped }
