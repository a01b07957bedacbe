-- Templates: prompts of projects that people choose when they create a job. A project has one template of a name, ignoring
-- case; name_key is the name in lower case.

CREATE TABLE templates (
    id         TEXT COLLATE "C" PRIMARY KEY,
    project    TEXT COLLATE "C" NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name_key   TEXT COLLATE "C" NOT NULL,
    settings   TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL
);

CREATE UNIQUE INDEX templates_of_project ON templates (project, name_key);
