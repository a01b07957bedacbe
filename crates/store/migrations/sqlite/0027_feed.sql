-- The feed: the events that integrations receive. The position is the place in the order that readers see; it is assigned
-- when an event is read, because transactions that run at the same time may commit in another order than their numbers.

CREATE TABLE feed (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER,          -- null: not read yet
    project  TEXT NOT NULL,
    job      TEXT NOT NULL,
    type     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    data     TEXT NOT NULL  -- JSON
) STRICT;

CREATE UNIQUE INDEX feed_by_position ON feed (position) WHERE position IS NOT NULL;
CREATE INDEX feed_of_project ON feed (project, position) WHERE position IS NOT NULL;
CREATE INDEX feed_without_position ON feed (number) WHERE position IS NULL;
CREATE INDEX feed_at ON feed (at);

-- The last position that was assigned.

CREATE TABLE feed_position (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
