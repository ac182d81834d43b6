-- The highest time up to each document of 100 messages: times of messages may fall, this one never does.

CREATE TABLE message_documents (
    conversation TEXT NOT NULL,
    first        INTEGER NOT NULL,    -- the number of its first message
    highest_ms   INTEGER NOT NULL,    -- of that message and all before it
    settled      INTEGER NOT NULL,    -- 1: the messages before it are hidden
    PRIMARY KEY (conversation, first)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_documents_by_time ON message_documents (conversation, highest_ms, first);
CREATE INDEX message_documents_aging ON message_documents (highest_ms) WHERE settled = 0;

INSERT INTO message_documents
    SELECT conversation, seq, highest, 0 FROM (
        SELECT conversation, seq, max(sent_ms) OVER (PARTITION BY conversation ORDER BY seq) AS highest
        FROM messages
    ) WHERE seq % 100 = 1;

DROP INDEX messages_aged;
