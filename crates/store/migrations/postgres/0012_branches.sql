-- The branch that a job works on, so that no other job of its project takes it.

ALTER TABLE jobs ADD COLUMN branch TEXT; -- null: a job of an older version, before its first turn
UPDATE jobs SET branch = COALESCE(state::jsonb #>> '{branch,name}', state::jsonb #>> '{options,branch}');
CREATE INDEX jobs_by_branch ON jobs (project, branch)
