-- Comments on lines, reviews, and the comments of the service on pull requests of the built-in code host.

ALTER TABLE comments ADD COLUMN author_id TEXT;    -- null: an older version
ALTER TABLE comments ADD COLUMN path TEXT;         -- null: not on a line
ALTER TABLE comments ADD COLUMN side TEXT;
ALTER TABLE comments ADD COLUMN line INTEGER;
ALTER TABLE comments ADD COLUMN hunk TEXT;
ALTER TABLE comments ADD COLUMN review INTEGER;    -- the place of the review; its text has its own place
ALTER TABLE comments ADD COLUMN draft INTEGER NOT NULL DEFAULT 0;
ALTER TABLE comments ADD COLUMN marker TEXT;       -- of a comment of the service, so that it is written once

CREATE UNIQUE INDEX comments_by_marker ON comments (repository, number, marker) WHERE marker IS NOT NULL;
