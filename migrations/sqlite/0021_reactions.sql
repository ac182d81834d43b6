-- Reactions to messages, and their counts.

CREATE TABLE reactions (
    conversation TEXT NOT NULL,
    seq          INTEGER NOT NULL,      -- the message
    user_id      INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    made_ms      INTEGER NOT NULL,
    PRIMARY KEY (conversation, seq, user_id, kind)
) STRICT, WITHOUT ROWID;
-- Who reacts with a kind.
CREATE INDEX reactions_by_kind ON reactions (conversation, seq, kind, made_ms, user_id);
-- What a user leaves behind.
CREATE INDEX reactions_by_user ON reactions (user_id, conversation, seq);

-- The counts of 100 messages together.
CREATE TABLE reaction_summaries (
    conversation TEXT NOT NULL,
    document     INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    packed       BLOB NOT NULL,
    PRIMARY KEY (conversation, document)
) STRICT, WITHOUT ROWID;
