-- Whether users are let in. All but a suspension stays in the stub of a deleted user.

ALTER TABLE users ADD COLUMN access_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN account INTEGER NOT NULL DEFAULT 0;         -- deletions of the id
ALTER TABLE users ADD COLUMN tokens_from_ms INTEGER NOT NULL DEFAULT 0;  -- tokens up to here are refused
ALTER TABLE users ADD COLUMN suspension_reason TEXT;                     -- NULL: not suspended
ALTER TABLE users ADD COLUMN suspended_until_ms INTEGER;                 -- NULL: without an end
