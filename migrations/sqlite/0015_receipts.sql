-- Which users may see who has read a message of a group.

ALTER TABLE groups ADD COLUMN receipts INTEGER NOT NULL DEFAULT 0;   -- 0: as the node is configured
