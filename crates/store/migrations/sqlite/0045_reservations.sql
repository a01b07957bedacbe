-- The most that model calls in progress can cost, apart from what is spent, and the part of a cost that is an estimate.

CREATE TABLE reservations (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL,
    job        TEXT NOT NULL,
    day        INTEGER NOT NULL, -- of the budget, days since 1970 in UTC
    micros     INTEGER NOT NULL, -- the most that the call can cost
    estimate   INTEGER NOT NULL, -- what is counted as spent if the service that made the call stops
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX reservations_of_project ON reservations (project);

ALTER TABLE usage_days ADD COLUMN estimated_micros INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_models ADD COLUMN estimated_micros INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER usage_added;
DROP TRIGGER usage_changed;

CREATE TRIGGER usage_added AFTER INSERT ON usage_days BEGIN
    INSERT INTO usage_models (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros,
                              estimated_micros)
    VALUES (NEW.day, NEW.project, NEW.model, NEW.runs, NEW.unpriced, NEW.input_tokens, NEW.output_tokens,
            NEW.cached_tokens, NEW.cost_micros, NEW.estimated_micros)
    ON CONFLICT (day, project, model) DO UPDATE
    SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
        input_tokens = min(input_tokens + excluded.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + excluded.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + excluded.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + excluded.cost_micros, 9007199254740992),
        estimated_micros = min(estimated_micros + excluded.estimated_micros, 9007199254740992);
END;

CREATE TRIGGER usage_changed AFTER UPDATE ON usage_days BEGIN
    UPDATE usage_models
    SET runs = runs + NEW.runs - OLD.runs, unpriced = unpriced + NEW.unpriced - OLD.unpriced,
        input_tokens = min(input_tokens + NEW.input_tokens - OLD.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + NEW.output_tokens - OLD.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + NEW.cached_tokens - OLD.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + NEW.cost_micros - OLD.cost_micros, 9007199254740992),
        estimated_micros = min(estimated_micros + NEW.estimated_micros - OLD.estimated_micros, 9007199254740992)
    WHERE day = NEW.day AND project = NEW.project AND model = NEW.model;
END;
