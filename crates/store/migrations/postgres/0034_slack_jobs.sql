-- The threads and events of a job, which are deleted with it.

CREATE INDEX slack_threads_of_job ON slack_threads (job COLLATE "C");
CREATE INDEX slack_events_of_job ON slack_events (job COLLATE "C") WHERE job IS NOT NULL;
