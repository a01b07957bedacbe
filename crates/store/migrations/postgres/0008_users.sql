-- People who use the dashboard, their sessions, links by which they set a password, and comments on pull requests of the
-- built-in code host.

CREATE TABLE users (
    id           TEXT COLLATE "C" PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL UNIQUE,
    role         TEXT NOT NULL, -- administrator, member, viewer
    password     TEXT,          -- PHC string
    issuer       TEXT,
    subject      TEXT,
    created_at   BIGINT NOT NULL,
    signed_in_at BIGINT,
    disabled_at  BIGINT,
    UNIQUE (issuer, subject)
);

CREATE TABLE sessions (
    hash       BYTEA PRIMARY KEY,
    owner      TEXT COLLATE "C" NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    address    TEXT,
    browser    TEXT
);

CREATE INDEX sessions_owner ON sessions (owner);

CREATE TABLE links (
    hash       BYTEA PRIMARY KEY,
    owner      TEXT COLLATE "C" REFERENCES users (id) ON DELETE CASCADE, -- null: the first administrator
    expires_at BIGINT NOT NULL
);

CREATE TABLE comments (
    repository TEXT COLLATE "C" NOT NULL,
    number     BIGINT NOT NULL,
    place      BIGINT NOT NULL,
    author     TEXT NOT NULL,
    body       TEXT NOT NULL,
    at         BIGINT NOT NULL,
    message    TEXT, -- the message to the job that it became
    PRIMARY KEY (repository, number, place)
);

ALTER TABLE keys ADD COLUMN creator TEXT;
ALTER TABLE keys ADD COLUMN owner TEXT; -- the user whose rights it has
ALTER TABLE audit ADD COLUMN address TEXT;
