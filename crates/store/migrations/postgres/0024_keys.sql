-- The scopes of a key as a JSON array; NULL if an older version created the key. The column scopes has the greatest
-- scopes that older versions know and that allow nothing more.

ALTER TABLE keys ADD COLUMN grants TEXT;

-- The secret before the last rotation, and the end of its use. Older versions refuse it.

ALTER TABLE keys ADD COLUMN old_hash BYTEA;
ALTER TABLE keys ADD COLUMN old_until BIGINT;

CREATE UNIQUE INDEX keys_by_old_hash ON keys (old_hash) WHERE old_hash IS NOT NULL;
