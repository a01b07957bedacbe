-- The commits whose checks are watched: the newest that each job has pushed. A claim moves due_at to the end of the lease
-- and counts as a look.

CREATE TABLE check_watches (
    job      TEXT PRIMARY KEY,
    project  TEXT NOT NULL,
    sha      TEXT NOT NULL,
    since    INTEGER NOT NULL,
    due_at   INTEGER,             -- null: only a webhook causes a look
    looks    INTEGER NOT NULL DEFAULT 0,
    checks   TEXT NOT NULL        -- JSON
) STRICT;

CREATE INDEX check_watches_due ON check_watches (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX check_watches_of_sha ON check_watches (sha);
