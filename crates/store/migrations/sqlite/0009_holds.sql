-- Projects on hold, jobs that wait for something outside them or avoid a worker, and commits that are published with those
-- of a later message.

CREATE TABLE project_holds (
    project       TEXT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    next_probe_at INTEGER NOT NULL,
    hold          TEXT NOT NULL -- JSON
) WITHOUT ROWID, STRICT;

ALTER TABLE jobs ADD COLUMN avoids TEXT;  -- the worker that gets it only when no other takes it; null: none
ALTER TABLE jobs ADD COLUMN waiting TEXT; -- the code of what it waits for; null: nothing
CREATE INDEX jobs_waiting ON jobs (waiting) WHERE waiting IS NOT NULL;

ALTER TABLE messages ADD COLUMN published_with TEXT; -- the later message whose push carried its commits
