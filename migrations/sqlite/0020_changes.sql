-- Changes that other systems read: one entry for each commit, while they are kept.

CREATE TABLE changes_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER,                 -- NULL: changes are not kept
    dialogs    INTEGER NOT NULL,        -- 1: with changes to dialogs
    base       INTEGER NOT NULL         -- the highest number before the generation
) STRICT;
INSERT INTO changes_state (id, generation, dialogs, base) VALUES (1, NULL, 0, 0);

CREATE TABLE changes (
    number     INTEGER PRIMARY KEY,     -- contiguous
    written_ms INTEGER NOT NULL,
    total      INTEGER NOT NULL,        -- bytes of all entries up to this one, also of removed ones
    packed     BLOB NOT NULL
) STRICT;
