-- KEYS: nodes. ARGV: wakes, milliseconds after which a node is forgotten. See registered().
return registered(KEYS[1], ARGV[2])
