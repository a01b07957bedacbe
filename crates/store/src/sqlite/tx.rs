//! Statements and transactions of the shared families of tables ([`crate::sql`]) on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use journeyman_core::epoch::Epoch;
use journeyman_core::ports::StoreError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params_from_iter};

use super::Sqlite;
use super::error::{OpError, ReadError, unavailable};
use super::write::Session;
use crate::sql::{Database, DbError, Row, Statement, Step, Sum, Tx, Value};
use crate::wakeups::Wakeups;

#[async_trait]
impl Database for Sqlite {
    fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    fn epoch(&self) -> Epoch {
        Epoch::clone(&self.epoch)
    }

    async fn look_up(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        self.readers.find(|db| run(db, &query))
    }

    async fn query(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        self.readers.read(move |db| run(db, &query)).await
    }

    async fn query_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.readers.read(move |db| run_all(db, &queries)).await
    }

    async fn look_up_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.readers.find(|db| run_all(db, &queries))
    }

    async fn add_up<S: Sum>(&self, query: Statement, mut sum: S) -> Result<S, StoreError> {
        let read = move |db: &Connection| {
            let mut prepared = db.prepare_cached(query.text.sqlite)?;
            let mut found = prepared.query(params_from_iter(&query.values))?;
            while let Some(row) = found.next()? {
                sum.add(row)?;
            }
            Ok(sum)
        };
        self.readers.read(read).await
    }

    async fn claim(&self, due: Statement, claim: Statement) -> Result<Vec<Row>, StoreError> {
        if self.readers.find(|db| run(db, &due))?.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.write(move |db| Ok::<_, OpError<StoreError>>(run(db, &claim)?)).await
    }

    async fn run_all(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        let write = move |db: &mut Session<'_>| {
            let answers = statements.iter().map(|statement| run(db, statement)).collect::<Result<Vec<_>, ReadError>>();
            Ok::<_, OpError<StoreError>>(answers?)
        };
        self.writer.write(write).await
    }

    async fn transact<T, F>(&self, mut operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'t> FnMut(&'t mut (dyn Tx + 't)) -> Step<'t, T> + Send + 'static,
    {
        let write = move |session: &mut Session<'_>| {
            let mut tx = SqliteTx { session };
            // SQLite answers at once, so the future has nothing to wait for.
            let done = operation(&mut tx).now_or_never();
            let waited = || Err(DbError::Store(StoreError::Unavailable("a transaction waited".to_owned())));
            done.unwrap_or_else(waited).map_err(|error| match error {
                DbError::Sqlite(error) => OpError::Sql(error),
                other => OpError::Failed(StoreError::from(other)),
            })
        };
        self.writer.write(write).await
    }
}

/// A transaction of the writer.
struct SqliteTx<'a, 's> {
    session: &'a mut Session<'s>,
}

#[async_trait]
impl Tx for SqliteTx<'_, '_> {
    async fn query(&mut self, statement: Statement) -> Result<Vec<Row>, DbError> {
        Ok(run(self.session, &statement)?)
    }

    async fn execute(&mut self, statement: Statement) -> Result<(), DbError> {
        Ok(execute(self.session, &statement)?)
    }

    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        Ok(statements.iter().map(|statement| run(self.session, statement)).collect::<Result<_, ReadError>>()?)
    }

    fn changed_related(&mut self) {
        self.session.changed_related();
    }

    fn removed_jobs(&mut self) {
        self.session.removed_jobs();
    }
}

/// Runs a statement whose rows are not needed.
pub(super) fn execute(db: &Connection, statement: &Statement) -> Result<(), ReadError> {
    if statement.text.sqlite.is_empty() {
        return Ok(());
    }
    let mut prepared = db.prepare_cached(statement.text.sqlite)?;
    let mut rows = prepared.query(params_from_iter(&statement.values))?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Runs statements in order, whose rows are not needed.
pub(super) fn execute_all(db: &Connection, statements: &[Statement]) -> Result<(), ReadError> {
    statements.iter().try_for_each(|statement| execute(db, statement))
}

/// Runs a statement, and returns its rows.
pub(crate) fn run(db: &Connection, statement: &Statement) -> Result<Vec<Row>, ReadError> {
    if statement.text.sqlite.is_empty() {
        return Ok(Vec::new());
    }
    let mut prepared = db.prepare_cached(statement.text.sqlite)?;
    let columns: Arc<[String]> = prepared.column_names().map(ToOwned::to_owned).collect();
    let mut found = prepared.query(params_from_iter(&statement.values))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns.len()).map(|index| Ok(value(row.get_ref(index)?)));
        rows.push(Row::new(&columns, values.collect::<Result<_, ReadError>>()?));
    }
    Ok(rows)
}

/// Runs queries on one snapshot, and returns the rows of each.
fn run_all(db: &Connection, queries: &[Statement]) -> Result<Vec<Vec<Row>>, ReadError> {
    let _state = db.unchecked_transaction()?;
    queries.iter().map(|query| run(db, query)).collect()
}

fn value(found: ValueRef<'_>) -> Value {
    match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Number(number),
        // No column has this type; a query that calculates one must round it.
        ValueRef::Real(number) => Value::Text(number.to_string()),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl From<ReadError> for DbError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sql(error) => Self::Sqlite(error),
            ReadError::Corrupt(error) => Self::Store(error),
        }
    }
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Sqlite(error) => unavailable(&error),
            DbError::Postgres(error) => error.into(),
            DbError::Store(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::World;

    use super::*;
    use crate::sql::sql;
    use crate::{MasterKey, SqliteStore};

    #[tokio::test]
    async fn a_transaction_that_fails_stores_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let key = MasterKey::new([7; 32]);
        let store = SqliteStore::open(&folder.path().join("db"), key, World::new()).unwrap();
        let failed = store.database.transact(|tx| {
            Box::pin(async move {
                tx.execute(sql!("INSERT INTO meta (name, value) VALUES ('test', $1)", vec![1_u8])).await?;
                Err::<(), _>(DbError::Store(StoreError::Busy))
            })
        });
        assert_eq!(failed.await, Err(StoreError::Busy));
        let found = store.database.query(sql!("SELECT * FROM meta WHERE name = 'test'")).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}
