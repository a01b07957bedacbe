-- Claims are fair among projects, know the limit of each, and prefer the worker that has the workspace.

ALTER TABLE jobs ADD COLUMN worker TEXT COLLATE "C";  -- who has the lease; null: nobody
ALTER TABLE jobs ADD COLUMN prefers TEXT COLLATE "C"; -- the worker that it waits for a little; null: none
ALTER TABLE projects ADD COLUMN concurrent_runs BIGINT; -- null: no limit

DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (project, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_of_status ON jobs (project, status, created_at DESC, id DESC);
