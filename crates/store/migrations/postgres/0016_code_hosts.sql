-- Code hosts that are defined on pages and by the command line, and their encrypted secrets.

CREATE TABLE code_hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE, -- the host and the path of its URL
    settings   TEXT NOT NULL,        -- JSON
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL
);

CREATE TABLE code_host_secrets (
    code_host TEXT NOT NULL REFERENCES code_hosts (id) ON DELETE CASCADE,
    name      TEXT NOT NULL,
    value     BYTEA NOT NULL, -- encrypted
    PRIMARY KEY (code_host, name)
);

-- Locks for work outside the database that only one process may do at a time.

CREATE TABLE locks (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  BIGINT NOT NULL
);

-- The index of the pull requests of jobs. The repository is its ID on the code host, because it can be renamed.

CREATE TABLE job_pulls (
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     BIGINT NOT NULL,
    job        TEXT NOT NULL,
    project    TEXT NOT NULL,
    url        TEXT NOT NULL,
    head       TEXT NOT NULL,
    head_sha   TEXT,
    state      TEXT NOT NULL, -- open, merged, closed
    created_at BIGINT NOT NULL,
    PRIMARY KEY (host, repository, number)
);

-- At most one open pull request for a branch.
CREATE UNIQUE INDEX job_pulls_open ON job_pulls (host, repository, head) WHERE state = 'open';
CREATE INDEX job_pulls_of_job ON job_pulls (job, created_at);

-- All pull requests of a branch on the built-in host.
CREATE INDEX pulls_of_branch ON pulls (repository, head);

-- Only the built-in host knows the state of earlier pull requests.
INSERT INTO job_pulls (host, repository, number, job, project, url, head, head_sha, state, created_at)
SELECT 'local:', pulls.repository, pulls.number, jobs.id, jobs.project, jobs.state::jsonb #>> '{pull,url}', pulls.head,
       jobs.state::jsonb #>> '{branch,pushed}', pulls.state, pulls.created_at
FROM jobs
JOIN pulls ON pulls.number = (jobs.state::jsonb #>> '{pull,number}')::bigint
          AND 'local:' || pulls.repository = jobs.state::jsonb #>> '{source,repository}'
WHERE jobs.state::jsonb #>> '{pull,number}' IS NOT NULL
ON CONFLICT DO NOTHING;

-- Where a message of a code host came from, as JSON.
ALTER TABLE messages ADD COLUMN source TEXT;
