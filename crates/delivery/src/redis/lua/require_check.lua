-- Makes the next reader compare the end of the window with the log. Returns now.
if hi then redis.call('HSET', HASH, 'checked', 0) end
return { now }
