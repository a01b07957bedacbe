-- A table without rowids keeps at most 1 KB of a row in its page and the rest elsewhere; a job has more, and is rewritten
-- with every message. As a table with rowids it stays in its page.

CREATE TABLE jobs_by_row (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    project    TEXT NOT NULL,
    status     TEXT NOT NULL,
    title      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER, -- when a worker should look at it; null: never
    worker     TEXT,    -- who has the lease; null: nobody
    prefers    TEXT,    -- the worker that it waits for a little; null: none
    state      TEXT NOT NULL
) STRICT;

INSERT INTO jobs_by_row (id, project, status, title, created_at, due_at, worker, prefers, state)
SELECT id, project, status, title, created_at, due_at, worker, prefers, state FROM jobs ORDER BY id;

DROP TABLE jobs;
ALTER TABLE jobs_by_row RENAME TO jobs;

CREATE INDEX jobs_due ON jobs (project, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_of_project ON jobs (project, created_at DESC, id DESC);
CREATE INDEX jobs_of_status ON jobs (project, status, created_at DESC, id DESC);
