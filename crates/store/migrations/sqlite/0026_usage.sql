-- The API key that sent a message; NULL if none did, or if an older version accepted the message.

ALTER TABLE messages ADD COLUMN key TEXT;

-- The sums of the usage of runs, for reports. They stay when jobs and projects are deleted. Runs that end on an older
-- version are not counted.

CREATE TABLE usage_days (
    day            INTEGER NOT NULL, -- of the end of the run, in UTC, counted from 1970-01-01
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    author         TEXT NOT NULL, -- empty: not known
    key            TEXT NOT NULL, -- empty: not sent with a key
    runs           INTEGER NOT NULL,
    unpriced       INTEGER NOT NULL, -- runs and late calls whose cost is not known
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cached_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL,
    PRIMARY KEY (day, project, model, author, key)
) WITHOUT ROWID, STRICT;

INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens, cached_tokens,
                        cost_micros)
SELECT runs.finished_at / 86400000000, jobs.project, coalesce(jobs.state ->> '$.model', ''),
       coalesce(messages.author, ''), '', count(*),
       count(*) FILTER (WHERE runs.usage ->> '$.cost_micros' IS NULL
           AND (runs.usage ->> '$.input_tokens' > 0 OR runs.usage ->> '$.output_tokens' > 0)),
       -- A provider may have reported any number, so the sums have the limit of later ones.
       CAST(min(total(runs.usage ->> '$.input_tokens'), 9007199254740992) AS INTEGER),
       CAST(min(total(runs.usage ->> '$.output_tokens'), 9007199254740992) AS INTEGER),
       CAST(min(total(runs.usage ->> '$.cached_tokens'), 9007199254740992) AS INTEGER),
       CAST(min(total(runs.usage ->> '$.cost_micros'), 9007199254740992) AS INTEGER)
FROM runs JOIN jobs ON jobs.id = runs.job LEFT JOIN messages ON messages.id = runs.message
WHERE runs.finished_at IS NOT NULL
GROUP BY 1, 2, 3, 4;
