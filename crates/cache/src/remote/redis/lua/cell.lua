-- Rules of one key; the same as in cell.rs. Versions are compared as two halves: Lua's numbers are doubles,
-- and its strings are compared by locale. ARGV[1] of every script is the channel of the wakes; MARK, before this
-- text, is what every cell of this version begins with, and PUBLISH the command that publishes.
local VALUE, NULL, TOMB, LEASE = 1, 2, 3, 4
local ZERO = '\0\0\0\0\0\0\0\0'

-- What the key holds: kind, version, token, whether a reader waits; nil for nothing and for data that is not of
-- this product.
local function cell(key)
  local head = redis.pcall('GETRANGE', key, 0, 31)
  if type(head) ~= 'string' or #head < 32 or string.sub(head, 1, 2) ~= MARK then return nil end
  local kind = string.byte(head, 3)
  if kind < VALUE or kind > LEASE then return nil end
  return kind, string.sub(head, 9, 16), string.sub(head, 17, 24), string.byte(head, 8) == 1
end

-- -1, 0 or 1.
local function compare(a, b)
  if a == b then return 0 end
  local ah, al = struct.unpack('>I4I4', a)
  local bh, bl = struct.unpack('>I4I4', b)
  if ah ~= bh then return ah < bh and -1 or 1 end
  return al < bl and -1 or 1
end

local function is_next(version, before)
  local vh, vl = struct.unpack('>I4I4', version)
  local bh, bl = struct.unpack('>I4I4', before)
  if before == ZERO then return false end
  if vl == 0 then return bl == 4294967295 and vh == bh + 1 end
  return vh == bh and vl == bl + 1
end

local function bare(kind, version, token)
  return MARK .. string.char(kind) .. '\0\0\0\0\0' .. version .. token .. ZERO
end

-- Stores these bytes for this long, or deletes the key (nil). Wakes a reader that waits for it.
local function become(key, waited, bytes, ms)
  if bytes then redis.call('SET', key, bytes, 'PX', ms) else redis.call('DEL', key) end
  if waited then redis.call(PUBLISH, ARGV[1], key) end
end

local function invalidate(key, version, tomb_ms)
  local kind, here, _, waited = cell(key)
  if version == ZERO then return become(key, waited) end
  if kind and compare(here, version) >= 0 then return end
  become(key, waited, bare(TOMB, version, ZERO), tomb_ms)
end

local function put(key, bytes, ttl_ms, tomb_ms)
  local version = string.sub(bytes, 9, 16)
  local kind, here, _, waited = cell(key)
  if (kind == VALUE or kind == NULL) and is_next(version, here) then
    become(key, waited, bytes, ttl_ms)
  else
    invalidate(key, version, tomb_ms)
  end
end
