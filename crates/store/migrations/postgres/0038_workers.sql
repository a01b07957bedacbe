-- The last report of each worker, which it writes every few seconds.

CREATE TABLE workers (
    id      TEXT COLLATE "C" PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    state   TEXT NOT NULL -- JSON
)
