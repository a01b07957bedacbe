-- The effort of the model of a job, such as high; NULL if none was chosen. It is not in the document of the job, because
-- older versions would drop it.

ALTER TABLE jobs ADD COLUMN effort TEXT;
