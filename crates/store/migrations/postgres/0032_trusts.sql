-- Trusts: rules about which tokens of OpenID issuers are exchanged for keys. The creator of such a key is the trust.

CREATE TABLE trusts (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    settings     TEXT NOT NULL, -- JSON
    creator      TEXT NOT NULL,
    owner        TEXT,          -- the user whose rights the keys have
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    version      BIGINT NOT NULL
);

CREATE INDEX keys_by_creator ON keys (creator) WHERE revoked_at IS NULL;
