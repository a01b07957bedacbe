-- Templates: prompts of projects that people choose when they create a job. A project has one template of a name, ignoring
-- case; name_key is the name in lower case.

CREATE TABLE templates (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name_key   TEXT NOT NULL,
    settings   TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX templates_of_project ON templates (project, name_key);
