-- The address of a group's picture.

ALTER TABLE groups ADD COLUMN icon TEXT NOT NULL DEFAULT '';
