-- The messages of each conversation.

CREATE TABLE messages (
    conversation TEXT NOT NULL,       -- d7-8 of two users, g9 of a group
    seq          INTEGER NOT NULL,    -- contiguous from 1
    sender       INTEGER NOT NULL,    -- 0: a service
    sent_ms      INTEGER NOT NULL,
    flags        INTEGER NOT NULL,    -- 1: silent, 2: mentions every reader, 4: an event
    version      INTEGER NOT NULL,    -- increases with every change of the message
    key          BLOB NOT NULL,       -- of the sender and the id that the client gave, or random
    hash         BLOB NOT NULL,       -- of the content as it was sent
    body         BLOB NOT NULL,       -- all else, packed; the last column, since it may be long
    PRIMARY KEY (conversation, seq)
) STRICT, WITHOUT ROWID;
-- A message that is sent again is found by it.
CREATE UNIQUE INDEX messages_sent ON messages (conversation, key);
