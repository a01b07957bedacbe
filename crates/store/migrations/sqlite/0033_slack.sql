-- Slack: connected workspaces with their sealed secrets, the codes with which people connect their accounts, the inbox of
-- events, the threads of jobs, and the posts of the service. The origin of a message has a column for the origins that
-- older versions do not know.

ALTER TABLE messages ADD COLUMN via TEXT; -- the origin, if older versions do not know it

CREATE TABLE slack_workspaces (
    id         TEXT PRIMARY KEY,
    team       TEXT NOT NULL UNIQUE, -- the ID at Slack
    settings   TEXT NOT NULL,        -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT;

CREATE TABLE slack_secrets (
    workspace TEXT NOT NULL REFERENCES slack_workspaces (id) ON DELETE CASCADE,
    name      TEXT NOT NULL,  -- bot_token, signing_secret, app_token
    value     BLOB NOT NULL, -- encrypted
    PRIMARY KEY (workspace, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE slack_codes (
    hash       BLOB PRIMARY KEY,
    owner      TEXT NOT NULL UNIQUE, -- a user has one code
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE slack_events (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    channel     TEXT NOT NULL,
    thread      TEXT NOT NULL,
    ts          TEXT NOT NULL, -- of the message; texts of the same length, which sort like the times
    content     TEXT NOT NULL, -- JSON
    received_at INTEGER NOT NULL,
    state       TEXT NOT NULL, -- received, done, ignored, failed
    outcome     TEXT,
    detail      TEXT,
    job         TEXT,
    message     TEXT,
    due_at      INTEGER,          -- null: final
    attempts    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX slack_events_once ON slack_events (workspace, event_id);
CREATE INDEX slack_events_due ON slack_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX slack_events_open ON slack_events (workspace, channel, thread, ts) WHERE due_at IS NOT NULL;
CREATE INDEX slack_events_of_thread ON slack_events (workspace, channel, thread, number);
CREATE INDEX slack_events_listed ON slack_events (workspace, number);
CREATE INDEX slack_events_at ON slack_events (received_at);

CREATE TABLE slack_threads (
    workspace TEXT NOT NULL,
    channel   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    project   TEXT NOT NULL,
    job       TEXT NOT NULL,
    PRIMARY KEY (workspace, channel, thread)
) WITHOUT ROWID, STRICT;

CREATE TABLE slack_posts (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  TEXT NOT NULL,
    channel    TEXT NOT NULL,
    thread     TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    content    TEXT NOT NULL, -- JSON
    ts         TEXT,          -- the time stamp that Slack has given it
    shown      TEXT,          -- the text that Slack shows
    state      TEXT NOT NULL, -- open, done, failed
    detail     TEXT,
    created_at INTEGER NOT NULL,
    due_at     INTEGER,          -- null: final
    busy_until INTEGER,          -- until then, the channel gets no other post
    claims     INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX slack_posts_once ON slack_posts (workspace, channel, thread, purpose);
CREATE INDEX slack_posts_due ON slack_posts (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX slack_posts_busy ON slack_posts (workspace, channel, busy_until) WHERE busy_until IS NOT NULL;
CREATE INDEX slack_posts_listed ON slack_posts (workspace, number);
CREATE INDEX slack_posts_at ON slack_posts (created_at);
