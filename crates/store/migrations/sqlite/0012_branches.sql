-- The branch that a job works on, so that no other job of its project takes it.

ALTER TABLE jobs ADD COLUMN branch TEXT; -- null: a job of an older version, before its first turn
UPDATE jobs SET branch = COALESCE(json_extract(state, '$.branch.name'), json_extract(state, '$.options.branch'));
CREATE INDEX jobs_by_branch ON jobs (project, branch);
