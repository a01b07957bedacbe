-- no transaction
-- Lists of jobs show the progress of the newest plan of each running job, which may be far from the end of its log.

DROP INDEX CONCURRENTLY IF EXISTS log_plans;
CREATE INDEX CONCURRENTLY log_plans ON log (job, seq) WHERE type = 'agent.plan';
