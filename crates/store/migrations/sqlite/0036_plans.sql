-- Lists of jobs show the progress of the newest plan of each running job, which may be far from the end of its log.

CREATE INDEX log_plans ON log (job, seq) WHERE type = 'agent.plan';
