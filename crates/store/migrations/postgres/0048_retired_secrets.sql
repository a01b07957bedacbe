-- Retired secrets: values of a project's secrets that were changed or removed. Jobs that are older may still print them, so
-- runs of these jobs redact them. A row is removed with the last of these jobs.

CREATE TABLE retired_secrets (
    project TEXT COLLATE "C" NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    key     TEXT COLLATE "C" NOT NULL, -- the name of the secret, a slash, and random digits
    value   BYTEA NOT NULL, -- encrypted
    at      BIGINT NOT NULL, -- when the value was changed or removed
    PRIMARY KEY (project, key)
);
