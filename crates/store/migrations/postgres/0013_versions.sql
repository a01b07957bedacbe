-- The version of each project, key and user, which every change increases: the ETag of the HTTP interface.

ALTER TABLE projects ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE keys ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE users ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
