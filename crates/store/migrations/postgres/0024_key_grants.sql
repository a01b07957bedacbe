-- The scopes of a key as a JSON array; NULL if an older version created the key. The column scopes has the greatest
-- scopes that older versions know and that allow nothing more.

ALTER TABLE keys ADD COLUMN grants TEXT;
