-- How open pull requests compare with the branches that they are merged into, on all code hosts, and when each project is
-- compared again. A claim moves due_at and held_until to the end of the lease.

CREATE TABLE base_comparisons (
    host        TEXT NOT NULL,
    repository  TEXT NOT NULL,
    number      INTEGER NOT NULL,
    project     TEXT NOT NULL,
    base        TEXT,             -- the branch to merge into; null: not compared
    result      TEXT NOT NULL,    -- JSON
    compared_at INTEGER NOT NULL,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX base_comparisons_in ON base_comparisons (project);

CREATE TABLE comparison_schedule (
    project    TEXT PRIMARY KEY,
    due_at     INTEGER NOT NULL, -- 0: at once
    held_until INTEGER NOT NULL, -- the end of the lease, or of the pause after a comparison
    claims     INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX comparison_schedule_due ON comparison_schedule (due_at);
