-- Why the repository of a project cannot be read, and since when; NULL if the last poll succeeded.

ALTER TABLE polls ADD COLUMN problem TEXT;
ALTER TABLE polls ADD COLUMN failing_since BIGINT;
