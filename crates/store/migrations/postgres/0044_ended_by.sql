-- Who merged or closed a pull request on the built-in code host, and the merge commit. Versions before store neither.

ALTER TABLE pulls ADD COLUMN ended_by TEXT;     -- the name of the caller
ALTER TABLE pulls ADD COLUMN merge_commit TEXT; -- null: closed, or merged without a merge commit
