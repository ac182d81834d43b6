-- Who asks to be a friend, or to be in a group; how much is pending with whom; and the lists that applications stand in.

CREATE TABLE dockets (
    side       INTEGER NOT NULL,      -- 0: receiver is a user, 1: a group
    receiver   INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    requests   INTEGER NOT NULL,      -- pending: of friends, or to be let in
    invites    INTEGER NOT NULL,      -- pending
    PRIMARY KEY (side, receiver)
) STRICT, WITHOUT ROWID;

CREATE TABLE applications (
    side       INTEGER NOT NULL,
    receiver   INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    origin     INTEGER NOT NULL,      -- who asks: a user, or of invites the group
    state      INTEGER NOT NULL,
    effect     INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    decided_ms INTEGER,
    forget_ms  INTEGER NOT NULL,
    body       TEXT NOT NULL,         -- the record, which is read as a whole
    PRIMARY KEY (side, receiver, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX applications_slot ON applications (side, receiver, kind, origin) WHERE state = 1;
CREATE INDEX applications_expiring ON applications (expires_ms) WHERE state = 1;
CREATE INDEX applications_outstanding ON applications (decided_ms) WHERE effect = 1;
CREATE INDEX applications_forgotten ON applications (forget_ms) WHERE state > 1;

CREATE TABLE application_lists (
    list        INTEGER NOT NULL,     -- 0: sent by a user, 1: received by a user, 2: of a group
    owner       INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    side        INTEGER NOT NULL,
    receiver    INTEGER NOT NULL,
    received_ms INTEGER,
    read_ms     INTEGER,
    PRIMARY KEY (list, owner, id, side, receiver)
) STRICT, WITHOUT ROWID;
