-- Removal of messages: what is to be removed, and whose messages.

-- The first message of each document of 100, so one row in a hundred.
CREATE INDEX messages_aged ON messages (sent_ms) WHERE seq % 100 = 1;
CREATE INDEX conversations_untrimmed ON conversations (id) WHERE trim;

CREATE TABLE erasures (
    user_id INTEGER PRIMARY KEY,
    ended   INTEGER NOT NULL,
    state   BLOB NOT NULL         -- the whole record, as JSON
) STRICT;
CREATE INDEX erasures_unfinished ON erasures (user_id) WHERE NOT ended;
