-- People who use the dashboard, their sessions, links by which they set a password, and comments on pull requests of the
-- built-in code host.

CREATE TABLE users (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    role         TEXT NOT NULL, -- administrator, member, viewer
    password     TEXT,          -- PHC string
    issuer       TEXT,
    subject      TEXT,
    created_at   INTEGER NOT NULL,
    signed_in_at INTEGER,
    disabled_at  INTEGER,
    UNIQUE (issuer, subject)
) WITHOUT ROWID, STRICT;

CREATE TABLE sessions (
    hash       BLOB PRIMARY KEY,
    owner      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    address    TEXT,
    browser    TEXT
) WITHOUT ROWID, STRICT;

CREATE INDEX sessions_owner ON sessions (owner);

CREATE TABLE links (
    hash       BLOB PRIMARY KEY,
    owner      TEXT REFERENCES users (id) ON DELETE CASCADE, -- null: the first administrator
    expires_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE comments (
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    author     TEXT NOT NULL,
    body       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    message    TEXT, -- the message to the job that it became
    PRIMARY KEY (repository, number, place)
) WITHOUT ROWID, STRICT;

ALTER TABLE keys ADD COLUMN creator TEXT;
ALTER TABLE keys ADD COLUMN owner TEXT; -- the user whose rights it has
ALTER TABLE audit ADD COLUMN address TEXT;
