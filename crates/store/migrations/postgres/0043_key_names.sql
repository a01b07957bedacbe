-- no transaction
-- The home page selects jobs by the names of the keys of the viewer. Keys of trusts exist for minutes, and are not among
-- them.

DROP INDEX CONCURRENTLY IF EXISTS keys_of_owner;
CREATE INDEX CONCURRENTLY keys_of_owner ON keys (owner, name) WHERE substr(coalesce(creator, ''), 1, 6) <> 'trust_';
