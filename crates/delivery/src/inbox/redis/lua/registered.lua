-- Returns now, and the nodes that read a conversation.
return { now, redis.call('GET', KEYS[1]) or '' }
