-- The second factor of a user, as JSON: the encrypted secret of the app, the last step that was used, the hashes of the
-- recovery codes, and wrong codes. NULL: none.

ALTER TABLE users ADD COLUMN second_factor TEXT;
