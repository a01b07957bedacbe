-- Retired secrets: values of a project's secrets that were changed or removed. Jobs that are older may still print them, so
-- runs of these jobs redact them. A row is removed with the last of these jobs.

CREATE TABLE retired_secrets (
    project TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    key     TEXT NOT NULL, -- the name of the secret, a slash, and random digits
    value   BLOB NOT NULL, -- encrypted
    at      INTEGER NOT NULL, -- when the value was changed or removed
    PRIMARY KEY (project, key)
) WITHOUT ROWID, STRICT;
