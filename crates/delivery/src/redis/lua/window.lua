-- The window of a conversation: its last messages. KEYS: 1 the hash, 2 the list of entries.
-- The hash: lo and hi, numbers of the first and the last entry; bytes of all entries; checked, a moment at which the log did
-- not end above hi; floor, the log is known to end there or above; hold, until then the window stays absent; holds, each with
-- its end; lease, the reader that may fill the window; leased, until then no other one may; headers, without lo and hi: the first
-- number of a window of headers, for lists. That window ends at floor. Its list has the headers before the last message in a row,
-- if there are any, and the last entry, so that a list reads two elements and not a hundred.
-- Invariant: without hi there is no window; with it the list has lo..hi, and each entry has every change whose event is at hi
-- or below. No step takes its own time of arrival for the time at which something was known: it may come late.
local HASH, LIST = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local fields = redis.call('HMGET', HASH, 'lo', 'hi', 'bytes', 'checked', 'floor', 'hold', 'lease', 'leased', 'headers')
local lo, hi, bytes = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[3])
local checked, floor, hold = tonumber(fields[4]) or 0, tonumber(fields[5]) or 0, tonumber(fields[6]) or 0
local lease, leased = fields[7], tonumber(fields[8]) or 0
local has_headers = not hi and fields[9]
if has_headers then lo, hi = tonumber(fields[9]), floor end

-- Why a window was dropped, for the metrics.
local GAP, CHANGE, HOLD, BEHIND, EVICTED = 1, 2, 3, 4, 5
local dropped = 0

-- The log is known to have messages up to this one: a fill that ends below it was read before.
local function raise(last)
    if last > floor then
        floor = last
        redis.call('HSET', HASH, 'floor', floor)
    end
end

local function drop(why)
    if hi then
        dropped = why
        raise(hi)
    end
    redis.call('DEL', LIST)
    redis.call('HDEL', HASH, 'lo', 'hi', 'bytes', 'checked', 'headers')
    lo, hi, bytes, checked, has_headers = nil, nil, nil, 0, false
end

-- Redis may evict the list and keep the hash: then the window is absent.
local function is_whole()
    local count = hi - lo + 1
    if has_headers then count = math.min(count, 2) end
    return redis.call('LLEN', LIST) == count
end

local function keep(ttl)
    redis.call('PEXPIRE', HASH, ttl)
    redis.call('PEXPIRE', LIST, ttl)
end

-- What unread counts need of an entry.
local function header_of(entry)
    return string.sub(entry, 1, 11 + 8 * (string.byte(entry, 11) or 0))
end

-- Headers in a row, without the first ones.
local function behind(headers, count)
    local at = 1
    for _ = 1, count do at = at + 11 + 8 * (string.byte(headers, at + 10) or 0) end
    return string.sub(headers, at)
end

-- Gives the lease to this reader, unless another one has it.
local function lease_to(token, lasts, ttl)
    if leased > now then return false end
    redis.call('HSET', HASH, 'lease', token, 'leased', now + lasts)
    keep(ttl)
    return true
end

-- Time since the log was known not to end above hi; -1: not known, also where the clock of the server went back.
local function age()
    if checked == 0 or checked > now then return -1 end
    return now - checked
end
