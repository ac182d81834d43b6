-- Users, groups, their secrets, and the requests that have been answered.

CREATE TABLE users (
    id           INTEGER PRIMARY KEY,
    version      INTEGER NOT NULL,
    deleted      INTEGER NOT NULL,  -- 1: a stub; all below but name_key and name_free_ms is erased
    name         TEXT,
    name_key     TEXT,              -- as compared; a stub holds it until name_free_ms
    name_free_ms INTEGER,           -- of stubs alone
    nick         TEXT NOT NULL,
    email        TEXT,
    email_key    TEXT,
    phone        TEXT,
    gender       INTEGER NOT NULL,
    age          INTEGER NOT NULL,
    region       TEXT NOT NULL,
    icon         TEXT NOT NULL,
    params       TEXT NOT NULL,     -- JSON object of texts
    created_ms   INTEGER NOT NULL,
    updated_ms   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_name ON users (name_key) WHERE name_key IS NOT NULL;
CREATE INDEX users_email ON users (email_key, id) WHERE email_key IS NOT NULL;
CREATE INDEX users_phone ON users (phone, id) WHERE phone IS NOT NULL;
CREATE INDEX users_name_free ON users (name_free_ms) WHERE name_free_ms IS NOT NULL;

CREATE TABLE groups (
    id          INTEGER PRIMARY KEY,
    version     INTEGER NOT NULL,
    deleted     INTEGER NOT NULL,   -- 1: a stub; all below is erased
    name        TEXT NOT NULL,
    tags        TEXT NOT NULL,      -- JSON array of texts
    kind        INTEGER NOT NULL,
    visibility  INTEGER NOT NULL,
    join_policy INTEGER NOT NULL,
    history     INTEGER NOT NULL,
    params      TEXT NOT NULL,
    creator     INTEGER,
    created_ms  INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL
) STRICT;

CREATE TABLE group_search (
    key      TEXT NOT NULL,
    group_id INTEGER NOT NULL,
    PRIMARY KEY (key, group_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
    owner_kind INTEGER NOT NULL,    -- 1: user, 2: group
    owner_id   INTEGER NOT NULL,
    name       TEXT NOT NULL,
    sealed     TEXT NOT NULL,       -- a salted hash or a sealed text
    PRIMARY KEY (owner_kind, owner_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    id          TEXT PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    reply       TEXT NOT NULL,      -- JSON of the record as the write left it
    at_ms       INTEGER NOT NULL
) STRICT;
CREATE INDEX requests_at ON requests (at_ms);
