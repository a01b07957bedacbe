-- The title of each pull request in the index, whether it is a draft, and the time at which its end was recorded. They
-- are unknown for rows of older versions: their title and time stay NULL.

ALTER TABLE job_pulls ADD COLUMN title TEXT;
ALTER TABLE job_pulls ADD COLUMN draft BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job_pulls ADD COLUMN ended_at BIGINT;

CREATE INDEX job_pulls_listed ON job_pulls (project, state, created_at, number);
