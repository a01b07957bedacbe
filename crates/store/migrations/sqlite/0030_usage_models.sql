-- The sums of usage without authors and keys: a tenth of the rows of usage_days or less, for the reports that need no more.
-- Triggers keep them, so that machines with an older version, which know only usage_days, keep them too.

CREATE TABLE usage_models (
    day            INTEGER NOT NULL,
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    runs           INTEGER NOT NULL,
    unpriced       INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cached_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL,
    PRIMARY KEY (day, project, model)
) WITHOUT ROWID, STRICT;

INSERT INTO usage_models (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros)
SELECT day, project, model, sum(runs), sum(unpriced), CAST(min(total(input_tokens), 9007199254740992) AS INTEGER),
       CAST(min(total(output_tokens), 9007199254740992) AS INTEGER), CAST(min(total(cached_tokens), 9007199254740992) AS INTEGER),
       CAST(min(total(cost_micros), 9007199254740992) AS INTEGER)
FROM usage_days GROUP BY 1, 2, 3;

CREATE TRIGGER usage_added AFTER INSERT ON usage_days BEGIN
    INSERT INTO usage_models (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros)
    VALUES (NEW.day, NEW.project, NEW.model, NEW.runs, NEW.unpriced, NEW.input_tokens, NEW.output_tokens,
            NEW.cached_tokens, NEW.cost_micros)
    ON CONFLICT (day, project, model) DO UPDATE
    SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
        input_tokens = min(input_tokens + excluded.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + excluded.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + excluded.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + excluded.cost_micros, 9007199254740992);
END;

CREATE TRIGGER usage_changed AFTER UPDATE ON usage_days BEGIN
    UPDATE usage_models
    SET runs = runs + NEW.runs - OLD.runs, unpriced = unpriced + NEW.unpriced - OLD.unpriced,
        input_tokens = min(input_tokens + NEW.input_tokens - OLD.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + NEW.output_tokens - OLD.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + NEW.cached_tokens - OLD.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + NEW.cost_micros - OLD.cost_micros, 9007199254740992)
    WHERE day = NEW.day AND project = NEW.project AND model = NEW.model;
END;
