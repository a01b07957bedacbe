-- A search in titles reads them out of the index by which a project's jobs are listed, and of the jobs themselves only
-- those that it finds.

-- At once what the last statement needs but for readers, who go on: nobody then holds a lock that it waits for while they
-- wait for one of ours.
LOCK TABLE jobs IN EXCLUSIVE MODE;
CREATE INDEX jobs_of_project_with_title ON jobs (project, created_at DESC, id DESC, title);
DROP INDEX jobs_of_project;
ALTER INDEX jobs_of_project_with_title RENAME TO jobs_of_project;

-- Room of rows that were deleted or written again is free for others after a vacuum. By default one comes when a fifth of
-- a table is such rows, and for rows that are only added when another fifth was: with large tables that is late, and until
-- the pages are known to be visible to all a search reads jobs where the index would do.
ALTER TABLE jobs SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE messages SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE log SET (autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE audit SET (autovacuum_vacuum_scale_factor = 0.05);
