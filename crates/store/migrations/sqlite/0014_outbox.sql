-- The outbox: effects of changes, which are written with the changes and carried out as tasks. A claim moves due_at to
-- the end of the lease and counts as an attempt.

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    -- The effect as JSON.
    effect TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tasks_due ON tasks (due_at, number);

-- Duties that one process of the installation carries out at a time. While a process does, due_at is the end of its
-- lease; the token increases with each begin.

CREATE TABLE duties (
    name TEXT PRIMARY KEY,
    due_at INTEGER NOT NULL,
    token INTEGER NOT NULL
);
