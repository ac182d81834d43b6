-- Sequences: the end of the last block of each.

CREATE TABLE sequences (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
