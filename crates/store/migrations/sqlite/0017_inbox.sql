-- Events of code hosts, which are stored before they are answered. Only `received` and `waiting` events are due.

CREATE TABLE inbox (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    host        TEXT NOT NULL,
    code_host   TEXT,             -- null: the built-in one
    project     TEXT,
    delivery    TEXT NOT NULL,
    event       TEXT NOT NULL,    -- the name at the host
    received_at INTEGER NOT NULL,
    state       TEXT NOT NULL,
    outcome     TEXT,
    detail      TEXT,
    body        BLOB,             -- as it arrived; null once it was read
    content     TEXT,             -- JSON; null until it was read
    subject     TEXT,             -- the comment or review in its version
    job         TEXT,
    message     TEXT,
    due_at      INTEGER,          -- null: final
    attempts    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (host, delivery)
) STRICT;

CREATE INDEX inbox_due ON inbox (due_at, number) WHERE due_at IS NOT NULL;
CREATE INDEX inbox_of_project ON inbox (project, number);
CREATE INDEX inbox_of_job ON inbox (job, number) WHERE job IS NOT NULL;
CREATE INDEX inbox_of_subject ON inbox (host, subject) WHERE subject IS NOT NULL;
CREATE INDEX inbox_of_message ON inbox (message) WHERE message IS NOT NULL;
CREATE INDEX inbox_at ON inbox (received_at);

-- The job of each issue that became one.

CREATE TABLE job_issues (
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    job        TEXT NOT NULL,
    project    TEXT NOT NULL,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX job_issues_of_job ON job_issues (job);
