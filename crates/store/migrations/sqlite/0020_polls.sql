-- The schedule of polls: when the repository of a project is read again, and from where.

CREATE TABLE polls (
    project  TEXT PRIMARY KEY,
    host     TEXT NOT NULL,
    cursor   TEXT,             -- in the form of the client of the host
    next_at  INTEGER NOT NULL,
    pulls    INTEGER NOT NULL, -- open at the last poll
    quiet    INTEGER NOT NULL, -- polls in a row that found nothing
    failures INTEGER NOT NULL, -- polls in a row that failed
    version  INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX polls_due ON polls (host, next_at);
CREATE INDEX job_pulls_in ON job_pulls (project, state);
