-- What users did about each other, in the logs of both.

CREATE TABLE relation_log (
    owner INTEGER NOT NULL,
    id    INTEGER NOT NULL,           -- made of the moment
    body  TEXT NOT NULL,              -- the record, which is read as a whole
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX relation_log_id ON relation_log (id);
