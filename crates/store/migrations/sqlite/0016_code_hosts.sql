-- Code hosts that are defined on pages and by the command line, and their encrypted secrets.

CREATE TABLE code_hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE, -- the host and the path of its URL
    settings   TEXT NOT NULL,        -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE code_host_secrets (
    code_host TEXT NOT NULL REFERENCES code_hosts (id) ON DELETE CASCADE,
    name      TEXT NOT NULL,
    value     BLOB NOT NULL, -- encrypted
    PRIMARY KEY (code_host, name)
) WITHOUT ROWID, STRICT;

-- Locks for work outside the database that only one process may do at a time.

CREATE TABLE locks (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- The index of the pull requests of jobs. The repository is its ID on the code host, because it can be renamed.

CREATE TABLE job_pulls (
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    job        TEXT NOT NULL,
    project    TEXT NOT NULL,
    url        TEXT NOT NULL,
    head       TEXT NOT NULL,
    head_sha   TEXT,
    state      TEXT NOT NULL, -- open, merged, closed
    created_at INTEGER NOT NULL,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

-- At most one open pull request for a branch.
CREATE UNIQUE INDEX job_pulls_open ON job_pulls (host, repository, head) WHERE state = 'open';
CREATE INDEX job_pulls_of_job ON job_pulls (job, created_at);

-- All pull requests of a branch on the built-in host.
CREATE INDEX pulls_of_branch ON pulls (repository, head);

-- Only the built-in host knows the state of earlier pull requests.
INSERT INTO job_pulls (host, repository, number, job, project, url, head, head_sha, state, created_at)
SELECT 'local:', pulls.repository, pulls.number, jobs.id, jobs.project, jobs.state ->> '$.pull.url', pulls.head,
       jobs.state ->> '$.branch.pushed', pulls.state, pulls.created_at
FROM jobs
JOIN pulls ON pulls.number = jobs.state ->> '$.pull.number'
          AND 'local:' || pulls.repository = jobs.state ->> '$.source.repository'
WHERE jobs.state ->> '$.pull.number' IS NOT NULL
ON CONFLICT DO NOTHING;

-- Where a message of a code host came from, as JSON.
ALTER TABLE messages ADD COLUMN source TEXT;
