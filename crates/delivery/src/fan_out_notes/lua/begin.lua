-- Notes a step under the time of the server. KEYS: the notes of a part of the conversations. ARGV: the note. Returns 0.
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
return 0
