-- The sums of usage without authors and keys: a tenth of the rows of usage_days or less, for the reports that need no more.
-- Triggers keep them, so that machines with an older version, which know only usage_days, keep them too.

-- Runs that end now are added before the sums are read, or by the trigger.
LOCK TABLE usage_days IN SHARE ROW EXCLUSIVE MODE;

CREATE TABLE usage_models (
    day            BIGINT NOT NULL,
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    runs           BIGINT NOT NULL,
    unpriced       BIGINT NOT NULL,
    input_tokens   BIGINT NOT NULL,
    output_tokens  BIGINT NOT NULL,
    cached_tokens  BIGINT NOT NULL,
    cost_micros    BIGINT NOT NULL,
    PRIMARY KEY (day, project, model)
);

INSERT INTO usage_models (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros)
SELECT day, project, model, sum(runs), sum(unpriced), LEAST(sum(input_tokens), 9007199254740992),
       LEAST(sum(output_tokens), 9007199254740992), LEAST(sum(cached_tokens), 9007199254740992),
       LEAST(sum(cost_micros), 9007199254740992)
FROM usage_days GROUP BY 1, 2, 3;

CREATE FUNCTION add_usage() RETURNS trigger LANGUAGE plpgsql SET search_path = journeyman AS $body$
DECLARE
    before usage_days;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        before := OLD;
    ELSE
        before := (NEW.day, NEW.project, NEW.model, NEW.author, NEW.key, 0, 0, 0, 0, 0, 0);
    END IF;
    INSERT INTO usage_models AS sums (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros)
    VALUES (NEW.day, NEW.project, NEW.model, NEW.runs - before.runs, NEW.unpriced - before.unpriced,
            NEW.input_tokens - before.input_tokens, NEW.output_tokens - before.output_tokens,
            NEW.cached_tokens - before.cached_tokens, NEW.cost_micros - before.cost_micros)
    ON CONFLICT (day, project, model) DO UPDATE
    SET runs = sums.runs + excluded.runs, unpriced = sums.unpriced + excluded.unpriced,
        input_tokens = LEAST(sums.input_tokens + excluded.input_tokens, 9007199254740992),
        output_tokens = LEAST(sums.output_tokens + excluded.output_tokens, 9007199254740992),
        cached_tokens = LEAST(sums.cached_tokens + excluded.cached_tokens, 9007199254740992),
        cost_micros = LEAST(sums.cost_micros + excluded.cost_micros, 9007199254740992);
    RETURN NULL;
END $body$;

CREATE TRIGGER usage_added AFTER INSERT OR UPDATE ON usage_days FOR EACH ROW EXECUTE FUNCTION add_usage();
