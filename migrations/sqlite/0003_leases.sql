-- What nodes agree on: which shared server an epoch is of, who alone does a thing, and how far it is done.

ALTER TABLE node_state ADD COLUMN server TEXT NOT NULL DEFAULT '';  -- of the epoch alone

CREATE TABLE leases (
    name     TEXT PRIMARY KEY,
    holder   TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    mark     BLOB
) STRICT, WITHOUT ROWID;
