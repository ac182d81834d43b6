-- What each user keeps about its conversations, and what is set for all users of a conversation.

CREATE TABLE dialogs (
    user_id          INTEGER NOT NULL,
    conversation     TEXT NOT NULL,
    version          INTEGER NOT NULL,
    settings_version INTEGER NOT NULL,
    read_seq         INTEGER NOT NULL,
    unread_ranges    BLOB,                -- first and last of each, 8 bytes each; NULL: none
    min_seq          INTEGER,
    max_seq          INTEGER,
    pinned_ms        INTEGER,
    hidden_seq       INTEGER,
    dnd              INTEGER NOT NULL,
    marked           INTEGER NOT NULL,
    ext              BLOB,                -- NULL: none
    day              INTEGER NOT NULL,
    PRIMARY KEY (user_id, conversation)
) STRICT, WITHOUT ROWID;
CREATE INDEX dialogs_recent ON dialogs (user_id, day, conversation);

CREATE TABLE conversations (
    id      TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    min_seq INTEGER NOT NULL,
    trim    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
