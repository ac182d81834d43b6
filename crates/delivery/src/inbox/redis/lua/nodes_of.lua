-- Returns now, and the nodes with receivers of a user.
return { now, redis.call('HGET', KEYS[1], '@') or '' }
