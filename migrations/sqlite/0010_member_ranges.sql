-- The numbers of the messages that a member may read, and of its stays in the group. 0: of a row from before there were messages.

ALTER TABLE members ADD COLUMN from_seq INTEGER NOT NULL DEFAULT 0;   -- the lowest that it may read; 0: from the first
ALTER TABLE members ADD COLUMN joined_seq INTEGER NOT NULL DEFAULT 0; -- the first of its last stay; 0 counts as 1
ALTER TABLE members ADD COLUMN left_seq INTEGER NOT NULL DEFAULT 0;   -- the last of its last stay; 0 with live = 0: it may read nothing
ALTER TABLE members ADD COLUMN first_seq INTEGER NOT NULL DEFAULT 0;  -- the first of its first stay; 0 counts as 1
ALTER TABLE members ADD COLUMN earlier BLOB;                          -- of the stays before: first and last by turns, eight bytes each
