-- Which users are banned from which groups.

CREATE TABLE bans (
    group_id  INTEGER NOT NULL,
    user_id   INTEGER NOT NULL,
    banned_by INTEGER,                -- NULL: a service
    since_ms  INTEGER NOT NULL,
    until_ms  INTEGER,                -- NULL: until the user is unbanned
    PRIMARY KEY (group_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX bans_user ON bans (user_id, group_id);

-- Mutes that outlive a membership, which end with the group.
CREATE INDEX members_muted ON members (group_id, user_id) WHERE live = 0 AND muted_ms IS NOT NULL;
