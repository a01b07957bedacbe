-- A search in titles reads them out of the index by which a project's jobs are listed, and of the jobs themselves only
-- those that it finds. A title never changes, so that a job that is written again does not touch this index.

DROP INDEX jobs_of_project;
CREATE INDEX jobs_of_project ON jobs (project, created_at DESC, id DESC, title);
