-- Times are microseconds since 1970. Ids are text. `jobs.state` is the job as one JSON document; the columns beside it
-- are what is searched. Tables that grow by appending have a number that keeps the order of acceptance.

CREATE TABLE projects (
    id         TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    ref        TEXT,
    agent      TEXT NOT NULL,
    model      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    settings   TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE project_secrets (
    project TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name    TEXT NOT NULL,
    value   BLOB NOT NULL, -- sealed
    PRIMARY KEY (project, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE jobs (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL,
    status     TEXT NOT NULL,
    title      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER, -- when a worker should look at it; null: never
    state      TEXT NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX jobs_due ON jobs (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_of_project ON jobs (project, created_at DESC, id DESC);

CREATE TABLE messages (
    number       INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    job          TEXT NOT NULL,
    prompt       TEXT NOT NULL,
    origin       TEXT NOT NULL,
    author       TEXT,
    delivery     TEXT NOT NULL,
    status       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    finished_at  INTEGER,
    run          TEXT,
    commits      TEXT NOT NULL, -- JSON array
    pr_link      TEXT
) STRICT;

CREATE INDEX messages_of_job ON messages (job, number);

CREATE TABLE runs (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job           TEXT NOT NULL,
    message       TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    status        TEXT NOT NULL,
    reason        TEXT, -- JSON {code, text}
    worker        TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    usage         TEXT NOT NULL, -- JSON
    commits       TEXT NOT NULL  -- JSON array
) STRICT;

CREATE INDEX runs_of_job ON runs (job, number);

CREATE TABLE log (
    job  TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    type TEXT NOT NULL,
    at   INTEGER NOT NULL,
    run  TEXT,
    data TEXT NOT NULL, -- JSON object
    PRIMARY KEY (job, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE idempotency_keys (
    project     TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    at          INTEGER NOT NULL,
    record      TEXT NOT NULL, -- JSON
    PRIMARY KEY (project, key)
) WITHOUT ROWID, STRICT;

CREATE INDEX idempotency_keys_at ON idempotency_keys (at);

CREATE TABLE rate_windows (
    project    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    used       INTEGER NOT NULL,
    PRIMARY KEY (project, kind)
) WITHOUT ROWID, STRICT;

CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- JSON array
    projects     TEXT,          -- JSON array; null: all
    expires_at   INTEGER,
    allowed_ips  TEXT,          -- JSON array; null: all
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
) WITHOUT ROWID, STRICT;

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;

CREATE TABLE pulls (
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL,
    draft      INTEGER NOT NULL,
    head       TEXT NOT NULL,
    base       TEXT NOT NULL,
    labels     TEXT NOT NULL, -- JSON array
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    ended_base TEXT,
    ended_head TEXT,
    PRIMARY KEY (repository, number)
) WITHOUT ROWID, STRICT;

-- At most one open pull request for a branch: the database holds it, whoever asks.
CREATE UNIQUE INDEX pulls_open ON pulls (repository, head) WHERE state = 'open';
