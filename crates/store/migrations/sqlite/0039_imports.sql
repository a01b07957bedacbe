-- The last import into the repository of each project on the built-in code host.

CREATE TABLE imports (
    project TEXT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    state   TEXT NOT NULL, -- JSON
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
