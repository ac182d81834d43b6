-- Who follows whom, how long the lists of each user are, and what users have set about others.

CREATE TABLE follows (
    from_id    INTEGER NOT NULL,
    to_id      INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    live       INTEGER NOT NULL,    -- 0: a stub, which keeps the version and its former place
    since_ms   INTEGER NOT NULL,
    placed_ms  INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,    -- of a stub: when the follow was taken back
    PRIMARY KEY (from_id, to_id)
) STRICT, WITHOUT ROWID;
-- The lists, read backwards. They hold all that a page shows, so that none of it is looked up anew.
CREATE INDEX follows_following ON follows (from_id, placed_ms, to_id, version, since_ms) WHERE live = 1;
CREATE INDEX follows_fans ON follows (to_id, placed_ms, from_id, version, since_ms) WHERE live = 1;

CREATE TABLE follow_counts (
    id        INTEGER PRIMARY KEY,  -- of the user
    following INTEGER NOT NULL,
    fans      INTEGER NOT NULL
) STRICT;

CREATE TABLE blocks (
    from_id     INTEGER NOT NULL,
    to_id       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    deleted     INTEGER NOT NULL,   -- 1: a stub; all below is erased
    blocked_ms  INTEGER,
    permissions INTEGER,            -- NULL: what is so by default
    dnd_ms      INTEGER,
    remark      TEXT NOT NULL,
    updated_ms  INTEGER NOT NULL,
    PRIMARY KEY (from_id, to_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_blocked ON blocks (from_id, blocked_ms, to_id) WHERE blocked_ms IS NOT NULL;
CREATE INDEX blocks_dnd ON blocks (from_id, dnd_ms, to_id) WHERE dnd_ms IS NOT NULL;
-- What ends with a user, from it and to it.
CREATE INDEX blocks_from ON blocks (from_id, to_id) WHERE deleted = 0;
CREATE INDEX blocks_to ON blocks (to_id, from_id) WHERE deleted = 0;

-- Users whose deletion has begun, until none of their follows and blocks is left.
CREATE TABLE edge_removals (
    id       INTEGER PRIMARY KEY,   -- of the user
    noted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX edge_removals_noted ON edge_removals (noted_ms);
