-- What calls of models have cost, in millionths of a US dollar: of each job (subject: its id), of each day of a project
-- (subject: days since 1970 in UTC) and of each project (no subject).

CREATE TABLE spending (
    project TEXT NOT NULL,
    kind    TEXT NOT NULL, -- job, day, project
    subject TEXT NOT NULL,
    micros  BIGINT NOT NULL,
    PRIMARY KEY (project, kind, subject)
);
