-- The size of the change of a job's branch, as JSON; NULL if it is not known. Earlier versions have it in the document of
-- the job, which other versions rewrite without it. It moves here when the document is written again.

ALTER TABLE jobs ADD COLUMN diff TEXT;

-- The time at which the report of a worker was stored, by the clock of the database; NULL if an earlier version stored it.

ALTER TABLE workers ADD COLUMN stored_at BIGINT;
