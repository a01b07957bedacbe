-- The size of the change of a job's branch, as JSON; NULL if it is not known. Earlier versions have it in the document of
-- the job, which other versions rewrite without it. It moves here when the document is written again.

ALTER TABLE jobs ADD COLUMN diff TEXT;
