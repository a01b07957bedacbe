//! Pipelines: statements that are sent together, so that the client waits only once for all results.

use futures::future::join_all;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::PgError;

/// A parameter of a statement.
pub(super) type Value = Box<dyn ToSql + Send + Sync>;

/// A statement with its parameters.
pub(super) struct Query {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value>,
}

/// Creates a [`Query`].
macro_rules! call {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::postgres::pipeline::Query { sql: $sql, values: vec![$(Box::new($value)),*] }
    };
}
pub(super) use call;

/// Runs the statements in order, and returns the rows of each. Returns the first error; inside a transaction, the
/// statements after it have no effect.
pub(super) async fn run(client: &deadpool_postgres::Client, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
    let mut prepared = Vec::with_capacity(calls.len());
    for call in calls {
        // Needs a round trip only when the connection uses the statement for the first time.
        prepared.push(client.prepare_cached(call.sql).await?);
    }
    let values: Vec<Vec<&(dyn ToSql + Sync)>> =
        calls.iter().map(|call| call.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()).collect();
    // A statement is sent when it is first polled, and `join_all` polls such a small number in order.
    let sent = prepared.iter().zip(&values).map(|(statement, values)| client.query(statement, values));
    let answers = join_all(sent).await;
    answers.into_iter().map(|answer| answer.map_err(PgError::from)).collect()
}
