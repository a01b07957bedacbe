//! Tests of the plans that PostgreSQL chooses for frequent statements, with many rows.

use journeyman_core::code_host::HostName;
use journeyman_core::ids::UserId;
use journeyman_testkit::Postgres;
use uuid::Uuid;

use super::super::accept::LOCKED_JOBS;
use super::super::connect::SET_UP;
use super::super::overview::OVERVIEW;
use super::*;
use crate::PostgresStore;
use crate::sql::feed::{FEED, FEED_OF_PROJECTS};
use crate::sql::jobs::list::{
    COUNT_OF_PROJECT_AND_STATUS, COUNT_OF_STATUS, LIST, LIST_OF_ATTRIBUTE, LIST_OF_STATUS,
    LIST_OF_STATUS_WITH_ATTRIBUTES, LIST_WITH_PROPERTIES, SEARCH,
};
use crate::sql::jobs::related::{COUNT_STEPS, OPEN_PULLS_OF_PROJECTS, PLAN_BEFORE, PLANS, STEPS, SUMMARIES};
use crate::sql::keys::names_of;
use crate::sql::{inbox, pulls};

/// Inserts enough rows that the query planner prefers a suitable index.
const FILL: &str = "
    SET search_path TO journeyman;
    INSERT INTO jobs (id, project, status, title, created_at, due_at, rests_since, state)
        SELECT 'job_' || i, 'p' || i % 3, CASE i % 500 WHEN 0 THEN 'active' WHEN 1 THEN 'failed' ELSE 'completed' END,
               'Task ' || i, i, CASE i % 500 WHEN 0 THEN i END, CASE i % 500 WHEN 0 THEN NULL ELSE i END, '{}'
        FROM generate_series(1, 30000) AS i;
    INSERT INTO messages (id, job, prompt, origin, delivery, status, created_at, commits, seq)
        SELECT 'msg_' || i, 'job_' || i, 'x', 'api', 'queue', 'finished', i, '[]', 2
        FROM generate_series(1, 30000) AS i;
    INSERT INTO log (job, seq, type, at, data)
        SELECT 'job_' || i % 30000, i,
               CASE i % 20 WHEN 0 THEN 'agent.plan' WHEN 1 THEN 'agent.tool_call' ELSE 'agent.message' END, i, '{}'
        FROM generate_series(1, 90000) AS i;
    INSERT INTO runs (id, job, message, attempt, status, worker, started_at, usage, commits)
        SELECT 'run_' || i, 'job_' || i, 'x', 1, 'succeeded', 'w', i, '{}', '[]' FROM generate_series(1, 30000) AS i;
    INSERT INTO inbox (host, delivery, event, received_at, state, subject)
        SELECT 'h', i, 'issue_comment', i, 'done', 'pull/' || i || '/2026/Created' FROM generate_series(1, 30000) AS i;
    INSERT INTO job_attributes (project, attribute, created_at, job)
        SELECT 'p' || i % 3, CASE i % 9 WHEN 0 THEN 'label:bug' ELSE 'label:other' END, i, 'job_' || i
        FROM generate_series(1, 30000) AS i;
    INSERT INTO job_pulls (host, repository, number, job, project, url, head, state, created_at)
        SELECT 'h', 'p' || i % 300, i, 'job_' || i, 'p' || i % 300, 'https://h/' || i, 'b' || i,
               CASE i % 2 WHEN 0 THEN 'open' ELSE 'merged' END, i
        FROM generate_series(1, 30000) AS i;
    INSERT INTO feed (position, project, job, type, at, data)
        SELECT i, 'p' || i % 300, 'job_' || i, 'job.created', i, '{}' FROM generate_series(1, 30000) AS i;
    INSERT INTO comments (repository, number, place, author, body, at)
        SELECT 'p' || i % 3, i, 1, 'a', 'b', i FROM generate_series(1, 30000) AS i;
    ANALYZE jobs; ANALYZE messages; ANALYZE log; ANALYZE runs; ANALYZE inbox; ANALYZE job_attributes; ANALYZE feed;
    ANALYZE job_pulls; ANALYZE comments";

#[tokio::test]
async fn hot_queries_use_indexes_and_never_scan_a_table() {
    let server = Postgres::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    server.sql(database, FILL);
    // Autovacuum does this sooner or later; after it, an index-only scan need not read the table.
    server.sql(database, "VACUUM ANALYZE journeyman.jobs");
    let big = i64::MAX.to_string();
    let list = ["'p1'", "0", &big, "''", "''", "20", "''"];
    // Each query with its expected index, and whether the index must return the rows in order.
    let of_attribute = [&list[..5], &["20", "''", "''", "-1", "'{label:bug}'", "''", "NULL"]].concat();
    let of_status_with_attribute =
        [&list[..5], &["20", "'failed'", "''", "-1", "'{label:bug}'", "''", "NULL"]].concat();
    let with_any_attribute = [&list[..5], &["20", "''", "''", "-1", "'{}'", "''", "'{label:bug}'"]].concat();
    let reviews = pulls::reviews(String::new(), &[]).text.postgres;
    let about = inbox::about(HostName::local(), String::new()).text.postgres;
    let hot: [(&str, &str, &[&str], bool); 29] = [
        (DUE_JOB, "jobs_due", &[&["50000", "'w'"], &["50000"; 8][..]].concat(), false),
        (LOG, "log_pkey", &["'job_7'", "0", "100"], true),
        (PLAN_BEFORE.postgres, "log_plans", &["'job_20'", "90000"], true),
        (COUNT_STEPS.postgres, "log_pkey", &["'job_7'", "1", "100"], true),
        (ACCEPTED, "messages_of_job", &["'job_7'", "0", "100"], true),
        (LIST.postgres, "jobs_of_project", &list, true),
        (LIST_OF_STATUS.postgres, "jobs_of_status", &[&list[..6], &["'failed'"]].concat(), true),
        (SEARCH.postgres, "jobs_of_project", &[&list[..4], &["'zebra'", "20", "'completed'"]].concat(), true),
        (LIST_OF_ATTRIBUTE.postgres, "job_attributes_pkey", &of_attribute, false),
        (LIST_OF_STATUS_WITH_ATTRIBUTES.postgres, "jobs_of_status", &of_status_with_attribute, false),
        (LIST_WITH_PROPERTIES.postgres, "jobs_of_project", &with_any_attribute, false),
        (FEED.postgres, "feed_by_position", &["29000", "NULL", "20"], true),
        (FEED_OF_PROJECTS.postgres, "feed_of_project", &["0", "NULL", "20", "'{p1,p2}'"], false),
        (JOB, "jobs_pkey", &["'job_7'"], true),
        (OVERVIEW, "messages_of_job", &["'job_7'"], false),
        (OVERVIEW, "job_pulls_of_job", &["'job_7'"], false),
        (LOCKED_JOBS, "jobs_pkey", &["'{job_7,job_8}'"], false),
        (SUMMARIES.postgres, "messages_of_job", &["'{job_7,job_8}'"], false),
        (SUMMARIES.postgres, "spending_pkey", &["'{job_7,job_8}'"], false),
        (PLANS.postgres, "log_plans", &["'{job_7,job_8}'"], false),
        (STEPS.postgres, "log_pkey", &["'{job_7,job_8}'", "64"], false),
        (OPEN_PULLS_OF_PROJECTS.postgres, "job_pulls_listed", &[], false),
        (COUNT_OF_STATUS.postgres, "jobs_of_status", &["'completed'", "1000"], true),
        (COUNT_OF_PROJECT_AND_STATUS.postgres, "jobs_of_status", &["'completed'", "1000", "'p1'"], true),
        (reviews, "comments_pkey", &["'p1'", "'{7,8}'"], false),
        (names_of(UserId::from_uuid(Uuid::nil())).text.postgres, "keys_of_owner", &["'user_1'"], true),
        ("SELECT * FROM runs WHERE job = $1 ORDER BY number", "runs_of_job", &["'job_7'"], true),
        (about, "inbox_of_subject", &["'h'", "'pull/77'"], false),
        (
            "SELECT id FROM jobs WHERE trimmed = 0 AND rests_since <= $1 ORDER BY rests_since LIMIT 10",
            "jobs_at_rest",
            &["9"],
            true,
        ),
    ];
    for (query, index, values, in_order) in hot {
        // A prepared statement, as in the store: planned once for all values.
        let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let plan = server.sql(database, &format!("{SET_UP}; PREPARE q AS {query}; EXPLAIN EXECUTE q {values}"));
        assert!(!plan.contains("Seq Scan on"), "{query}: {plan}");
        assert!(
            plan.contains(&format!("using {index} on")) || plan.contains(&format!("on {index}")),
            "{query}: {plan}"
        );
        assert!(!in_order || !plan.contains("Sort"), "{query}: {plan}");
        // A comparison in another order than that of the index only filters the rows that the index finds.
        for filter in ["Filter: ((project = jobs.project)", "Filter: (project = projects.id)"] {
            assert!(!plan.contains(filter), "{query}: {plan}");
        }
        assert!(query != SEARCH.postgres || plan.contains("Index Only Scan using jobs_of_project"), "{query}: {plan}");
    }
}
