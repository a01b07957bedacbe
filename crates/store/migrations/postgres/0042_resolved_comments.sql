-- The resolution of a comment on a line of a pull request on the built-in code host.

ALTER TABLE comments ADD COLUMN resolved_by TEXT;    -- the name of the person; null: open
ALTER TABLE comments ADD COLUMN resolved_at BIGINT;
