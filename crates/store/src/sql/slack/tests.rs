//! Tests of the plans that the databases choose for frequent statements.

use journeyman_testkit::Postgres;
use rusqlite::Connection;
use uuid::Uuid;

use super::*;
use crate::PostgresStore;
use crate::postgres::SET_UP;
use crate::sqlite::migrate;

fn thread_id() -> SlackThreadId {
    let workspace = SlackWorkspaceId::from_uuid(Uuid::nil());
    SlackThreadId { workspace, channel: String::new(), thread: String::new() }
}

#[test]
fn sqlite_uses_indexes_and_never_scans_a_table() {
    let mut db = Connection::open_in_memory().unwrap();
    migrate(&mut db, std::path::Path::new(":memory:")).unwrap();
    let (now, lease, id) = (Timestamp::from_micros(0), Duration::ZERO, thread_id());
    for (statement, indexes) in [
        (claims::any_event(now), &["slack_events_due"][..]),
        (claims::events(now, lease, 1), &["slack_events_due", "slack_events_open"]),
        (claims::any_post(now), &["slack_posts_due"]),
        (claims::posts(now, lease, 1), &["slack_posts_due", "slack_posts_busy"]),
        (events(id.workspace, None, 1), &["slack_events_listed"]),
        (events_of_thread(&id, None, 1), &["slack_events_of_thread"]),
        (posts(id.workspace, None, 1), &["slack_posts_listed"]),
        (thread(&id), &["PRIMARY KEY"]),
    ] {
        let query = statement.text.sqlite;
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let values = vec![rusqlite::types::Value::Null; plan.parameter_count()];
        let lines = plan.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>("detail")).unwrap();
        let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>().unwrap();
        // Scans of the query's own intermediate results are allowed.
        let scans = lines.iter().filter(|line| line.starts_with("SCAN") && !line.contains("subquery"));
        assert_eq!(scans.count(), 0, "{query}: {lines:#?}");
        for index in indexes {
            assert!(lines.iter().any(|line| line.contains(index)), "{query}: {index}: {lines:#?}");
        }
    }
}

/// Inserts enough rows that the query planner prefers a suitable index.
const FILL: &str = "
    SET search_path TO journeyman;
    INSERT INTO slack_events (workspace, event_id, channel, thread, ts, content, received_at, state, due_at)
        SELECT 'w' || i % 3, 'Ev' || i, 'C' || i % 20, 't' || i / 5, i::text, '{}', i, 'done',
               CASE i % 500 WHEN 0 THEN i END
        FROM generate_series(1, 30000) AS i;
    INSERT INTO slack_posts (workspace, channel, thread, purpose, content, state, created_at, due_at, busy_until)
        SELECT 'w' || i % 3, 'C' || i % 20, 't' || i / 5, 'p' || i, '{}', 'done', i,
               CASE i % 500 WHEN 0 THEN i END, i
        FROM generate_series(1, 30000) AS i;
    INSERT INTO slack_threads (workspace, channel, thread, project, job)
        SELECT 'w' || i % 3, 'C' || i % 20, 't' || i, 'p', 'j' FROM generate_series(1, 30000) AS i;
    ANALYZE slack_events; ANALYZE slack_posts; ANALYZE slack_threads";

#[tokio::test]
async fn postgresql_uses_indexes_and_never_scans_a_table() {
    let server = Postgres::shared();
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    server.sql(database, FILL);
    let (now, lease, id) = (Timestamp::from_micros(0), Duration::ZERO, thread_id());
    let (due, claim) = ("20000, 9000000000000000", "20000, 9000000000000000, 30000, 16");
    for (statement, values, indexes) in [
        (claims::any_event(now), due, &["slack_events_due"][..]),
        (claims::events(now, lease, 1), claim, &["slack_events_due"]),
        (claims::any_post(now), due, &["slack_posts_due"]),
        (claims::posts(now, lease, 1), claim, &["slack_posts_due", "slack_posts_busy"]),
        (events_of_thread(&id, None, 1), "'w1', 'C1', 't7', 100000, 100", &["slack_events_of_thread"]),
        (thread(&id), "'w1', 'C1', 't7'", &["slack_threads_pkey"]),
    ] {
        let query = statement.text.postgres;
        let plan = server.sql(database, &format!("{SET_UP}; PREPARE q AS {query}; EXPLAIN EXECUTE q ({values})"));
        assert!(!plan.contains("Seq Scan on"), "{query}: {plan}");
        for index in indexes {
            assert!(plan.contains(&format!("using {index} on")), "{query}: {plan}");
        }
    }
}
