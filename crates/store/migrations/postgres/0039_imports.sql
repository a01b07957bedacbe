-- The last import into the repository of each project on the built-in code host.

CREATE TABLE imports (
    project TEXT COLLATE "C" PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    state   TEXT NOT NULL, -- JSON
    version BIGINT NOT NULL
)
