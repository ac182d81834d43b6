-- KEYS: the generation of the section. Returns it, and the time of this server in milliseconds.
local time = redis.call('TIME')
return { tonumber(redis.call('GET', KEYS[1]) or '0'), time[1] * 1000 + math.floor(time[2] / 1000) }
