-- The conclusion of a review of a pull request on the built-in code host. Older versions store none, which is a comment.

ALTER TABLE comments ADD COLUMN verdict TEXT; -- comment, approve, request_changes
