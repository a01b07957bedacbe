-- The attributes by which lists select jobs: labels, metadata, agents and authors (journeyman_core::job::label). They
-- never change. Jobs that an older version creates have none.

CREATE TABLE job_attributes (
    project    TEXT NOT NULL,
    attribute  TEXT NOT NULL,
    created_at INTEGER NOT NULL, -- of the job
    job        TEXT NOT NULL,
    PRIMARY KEY (project, attribute, created_at, job)
) WITHOUT ROWID, STRICT;

CREATE INDEX job_attributes_of_job ON job_attributes (job);

INSERT INTO job_attributes (project, attribute, created_at, job)
SELECT project, 'agent:' || (state ->> '$.agent'), created_at, id FROM jobs WHERE state ->> '$.agent' IS NOT NULL;

INSERT INTO job_attributes (project, attribute, created_at, job)
SELECT jobs.project, 'author:' || messages.author, jobs.created_at, jobs.id
FROM jobs JOIN messages ON messages.job = jobs.id AND messages.seq = 2 WHERE messages.author IS NOT NULL;

CREATE INDEX job_pulls_by_number ON job_pulls (project, number);
CREATE INDEX keys_by_time ON keys (created_at DESC, id DESC);

-- Jobs and projects that were deleted, so that a repeated deletion gets the first answer.

CREATE TABLE deleted (
    subject TEXT PRIMARY KEY, -- such as job/ID or project/ID
    at      INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX deleted_at ON deleted (at);
