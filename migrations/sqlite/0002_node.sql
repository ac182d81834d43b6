-- What a node keeps for itself: id counters, epoch, keys.

CREATE TABLE id_counters (
    kind TEXT PRIMARY KEY,
    next INTEGER NOT NULL           -- the smallest id that was not given out
) STRICT, WITHOUT ROWID;

CREATE TABLE node_state (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE node_keys (
    name TEXT PRIMARY KEY,
    key  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
