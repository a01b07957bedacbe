-- Webhooks: endpoints of projects that receive the events of the feed, and their deliveries.

CREATE TABLE webhooks (
    id               TEXT PRIMARY KEY,
    project          TEXT NOT NULL,
    settings         TEXT NOT NULL,   -- JSON
    disabled         TEXT,            -- on_request, gone, failing; null: enabled
    failing_since    INTEGER,
    created_at       INTEGER NOT NULL,
    old_secret_until INTEGER,
    cursor           INTEGER NOT NULL,    -- the position in the feed up to which there are deliveries
    version          INTEGER NOT NULL
) STRICT;

CREATE INDEX webhooks_of_project ON webhooks (project, created_at, id);
CREATE INDEX webhooks_by_cursor ON webhooks (cursor) WHERE disabled IS NULL;

CREATE TABLE webhook_secrets (
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    name    TEXT NOT NULL, -- current, old
    value   BLOB NOT NULL, -- encrypted
    PRIMARY KEY (webhook, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE deliveries (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook      TEXT NOT NULL,
    position     INTEGER NOT NULL, -- of the event
    type         TEXT NOT NULL,
    job          TEXT NOT NULL,
    state        TEXT NOT NULL,    -- pending, delivered, failed
    attempts     INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    due_at       INTEGER,          -- null: no attempt follows
    leased_until INTEGER,          -- while a process attempts it
    attempted_at INTEGER,
    duration     INTEGER,          -- of the last attempt, in microseconds
    status       INTEGER,          -- of the last answer
    detail       TEXT              -- the beginning of the last answer, or why there was none
) STRICT;

CREATE UNIQUE INDEX deliveries_of_event ON deliveries (webhook, position);
CREATE INDEX deliveries_due ON deliveries (webhook, due_at) WHERE state = 'pending';
CREATE INDEX deliveries_of_job ON deliveries (webhook, job, position) WHERE state = 'pending';
CREATE INDEX deliveries_listed ON deliveries (webhook, number);
CREATE INDEX deliveries_at ON deliveries (created_at);
