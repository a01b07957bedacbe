-- When the user of a session last proved who they are. NULL: not known, so that the user is asked again.

ALTER TABLE sessions ADD COLUMN proven_at INTEGER;
