//! Statements that are sent together: the server gets all of them in one go, and we wait once for all answers.

use futures::future::join_all;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::PgError;

/// A value for a statement.
pub(super) type Value = Box<dyn ToSql + Send + Sync>;

/// A statement with its values.
pub(super) struct Call {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Value>,
}

/// A [`Call`].
macro_rules! call {
    ($sql:expr $(, $value:expr)* $(,)?) => {
        $crate::postgres::pipeline::Call { sql: $sql, values: vec![$(Box::new($value)),*] }
    };
}
pub(super) use call;

/// Runs the statements in order; the rows of each. The first that fails stands for all: inside a transaction those
/// after it did nothing.
pub(super) async fn run(client: &deadpool_postgres::Client, calls: &[Call]) -> Result<Vec<Vec<Row>>, PgError> {
    let mut prepared = Vec::with_capacity(calls.len());
    for call in calls {
        // Known to the connection after its first use.
        prepared.push(client.prepare_cached(call.sql).await?);
    }
    let values: Vec<Vec<&(dyn ToSql + Sync)>> =
        calls.iter().map(|call| call.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()).collect();
    // Each is sent when it is first polled, and `join_all` polls so few in their order.
    let sent = prepared.iter().zip(&values).map(|(statement, values)| client.query(statement, values));
    let answers = join_all(sent).await;
    answers.into_iter().map(|answer| answer.map_err(PgError::from)).collect()
}
