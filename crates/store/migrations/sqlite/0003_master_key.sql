-- What holds for the whole installation. `master_key` is a known text sealed with the key of the secrets, so that a
-- process with another key is told so when it starts.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID, STRICT;
