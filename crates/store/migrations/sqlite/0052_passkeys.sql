-- The passkeys of a user, as JSON: for each the credential, the public key, the signature counter, the name and times;
-- and the hashes of challenges that were used and have not expired. NULL: none.

ALTER TABLE users ADD COLUMN passkeys TEXT;
