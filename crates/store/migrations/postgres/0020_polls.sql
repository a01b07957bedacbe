-- The schedule of polls: when the repository of a project is read again, and from where.

CREATE TABLE polls (
    project  TEXT PRIMARY KEY,
    host     TEXT NOT NULL,
    cursor   TEXT,             -- in the form of the client of the host
    next_at  BIGINT NOT NULL,
    pulls    BIGINT NOT NULL, -- open at the last poll
    quiet    BIGINT NOT NULL, -- polls in a row that found nothing
    failures BIGINT NOT NULL, -- polls in a row that failed
    version  BIGINT NOT NULL
);

CREATE INDEX polls_due ON polls (host, next_at);
CREATE INDEX job_pulls_in ON job_pulls (project, state);
