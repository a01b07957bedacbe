-- What rests can be removed after a time, and is found without looking at what does not.

ALTER TABLE jobs ADD COLUMN rests_since BIGINT; -- null while it is active
ALTER TABLE jobs ADD COLUMN trimmed BIGINT NOT NULL DEFAULT 0; -- 1: its transcript was removed

UPDATE jobs SET rests_since = created_at WHERE due_at IS NULL;

CREATE INDEX jobs_at_rest ON jobs (trimmed, rests_since) WHERE rests_since IS NOT NULL;
CREATE INDEX audit_at ON audit (at);
