-- The last report of each worker, which it writes every few seconds.

CREATE TABLE workers (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    state   TEXT NOT NULL -- JSON
) WITHOUT ROWID, STRICT;
