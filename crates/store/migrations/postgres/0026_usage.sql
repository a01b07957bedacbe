-- The API key that sent a message; NULL if none did, or if an older version accepted the message.

ALTER TABLE messages ADD COLUMN key TEXT;

-- The sums of the usage of runs, for reports. They stay when jobs and projects are deleted. Runs that end on an older
-- version are not counted.

CREATE TABLE usage_days (
    day            BIGINT  NOT NULL, -- of the end of the run, in UTC, counted from 1970-01-01
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    author         TEXT NOT NULL, -- empty: not known
    key            TEXT NOT NULL, -- empty: not sent with a key
    runs           BIGINT  NOT NULL,
    unpriced       BIGINT  NOT NULL, -- runs and late calls whose cost is not known
    input_tokens   BIGINT  NOT NULL,
    output_tokens  BIGINT  NOT NULL,
    cached_tokens  BIGINT  NOT NULL,
    cost_micros    BIGINT  NOT NULL,
    PRIMARY KEY (day, project, model, author, key)
);

INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens, cached_tokens,
                        cost_micros)
SELECT runs.finished_at / 86400000000, jobs.project, coalesce(jobs.state::json ->> 'model', ''),
       coalesce(messages.author, ''), '', count(*),
       count(*) FILTER (WHERE runs.usage::json ->> 'cost_micros' IS NULL
           AND ((runs.usage::json ->> 'input_tokens')::numeric > 0
                OR (runs.usage::json ->> 'output_tokens')::numeric > 0)),
       -- A provider may have reported any number, so the sums have the limit of later ones.
       LEAST(coalesce(sum((runs.usage::json ->> 'input_tokens')::numeric), 0), 9007199254740992),
       LEAST(coalesce(sum((runs.usage::json ->> 'output_tokens')::numeric), 0), 9007199254740992),
       LEAST(coalesce(sum((runs.usage::json ->> 'cached_tokens')::numeric), 0), 9007199254740992),
       LEAST(coalesce(sum((runs.usage::json ->> 'cost_micros')::numeric), 0), 9007199254740992)
FROM runs JOIN jobs ON jobs.id = runs.job LEFT JOIN messages ON messages.id = runs.message
WHERE runs.finished_at IS NOT NULL
GROUP BY 1, 2, 3, 4;
