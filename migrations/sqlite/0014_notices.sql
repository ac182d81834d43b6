-- Notices to all readers of an audience, and which reader has read which of them.

CREATE TABLE audiences (
    id         INTEGER PRIMARY KEY,
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    of_users   INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    next_slot  INTEGER NOT NULL,
    entries    BLOB NOT NULL            -- 33 bytes each, in the order in which they are listed
) STRICT;

CREATE TABLE notices (
    id            INTEGER PRIMARY KEY,
    version       INTEGER NOT NULL,
    deleted       INTEGER NOT NULL,
    revision      INTEGER NOT NULL,
    title         TEXT NOT NULL,
    body          TEXT NOT NULL,
    params        TEXT NOT NULL,
    audiences     TEXT NOT NULL,
    publish_ms    INTEGER NOT NULL,
    expire_ms     INTEGER,
    pinned        INTEGER NOT NULL,
    must_confirm  INTEGER NOT NULL,
    for_newcomers INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    updated_ms    INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_expired ON notices (expire_ms) WHERE expire_ms IS NOT NULL;

CREATE TABLE notice_readers (
    audience INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    reader   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    words    BLOB,                      -- page and word of each, 4 and 8 bytes; NULL: none
    PRIMARY KEY (audience, ordinal)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX notice_readers_by_id ON notice_readers (audience, reader);
