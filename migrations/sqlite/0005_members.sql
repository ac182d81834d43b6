-- Who is in which group, what all of a group have in common, and in which order they changed.

CREATE TABLE rosters (
    id         INTEGER PRIMARY KEY,   -- of the group
    version    INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    ordinals   INTEGER NOT NULL,
    owner      INTEGER,
    muted_ms   INTEGER
) STRICT;

CREATE TABLE members (
    group_id   INTEGER NOT NULL,
    user_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL,      -- that of the roster when it changed last
    live       INTEGER NOT NULL,      -- 0: has left; keeps its ordinal
    role       INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    remark     TEXT NOT NULL,
    muted_ms   INTEGER,
    joined_ms  INTEGER NOT NULL,
    PRIMARY KEY (group_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_living ON members (group_id, user_id) WHERE live = 1;
CREATE INDEX members_above ON members (group_id, user_id) WHERE live = 1 AND role > 1;
CREATE INDEX members_groups ON members (user_id, group_id) WHERE live = 1;
CREATE INDEX members_changed ON members (group_id, version, user_id);
