//! Statements and transactions of the shared families of tables ([`crate::sql`]) on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::epoch::Epoch;
use journeyman_core::ports::StoreError;
use tokio_postgres::types::Type;
use tracing::Instrument as _;

use super::Postgres;
use super::batch::CONFLICTS;
use super::connect::PLAN_FOR_MANY;
use super::error::PgError;
use super::pipeline::{Query, call};
use super::session::Session;
use crate::spans::transaction;
use crate::sql::{Database, DbError, Row, Statement, Step, Sum, Tx, Value};
use crate::wakeups::Wakeups;

#[async_trait]
impl Database for Postgres {
    fn wakeups(&self) -> &Wakeups {
        &self.news.wakeups
    }

    fn epoch(&self) -> Epoch {
        self.epochs.current()
    }

    fn recheck(&self) -> Option<Duration> {
        Some(self.recheck)
    }

    async fn assign_positions(&self) -> Result<(), StoreError> {
        Ok(self.assign_all_positions().await?)
    }

    async fn look_up(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        Ok(rows(self.read(query.into()).await?)?)
    }

    async fn query(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        self.look_up(query).await
    }

    async fn query_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        let queries: Vec<Query> = queries.into_iter().map(Query::from).collect();
        Ok(self.read_all(&queries).await?.into_iter().map(rows).collect::<Result<_, PgError>>()?)
    }

    async fn look_up_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        self.query_all(queries).await
    }

    async fn add_up<S: Sum>(&self, query: Statement, mut sum: S) -> Result<S, StoreError> {
        for row in self.read_planned(query.into()).await? {
            sum.add(&row)?;
        }
        Ok(sum)
    }

    async fn claim(&self, _due: Statement, claim: Statement) -> Result<Vec<Row>, StoreError> {
        self.run(vec![claim]).await
    }

    async fn run_all(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError> {
        let answers = self.write(statements.into_iter().map(Query::from).collect()).await?;
        Ok(answers.into_iter().map(rows).collect::<Result<_, PgError>>()?)
    }

    async fn transact<T, F>(&self, mut operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'t> FnMut(&'t mut (dyn Tx + 't)) -> Step<'t, T> + Send + 'static,
    {
        // Each connection of the pool may have a stale plan.
        let (mut stale, mut conflicts) = (self.pool.status().max_size, 0);
        loop {
            match self.attempt(&mut operation).instrument(transaction("postgresql")).await {
                Err(DbError::Postgres(error)) if error.is_stale_plan() && stale > 0 => stale -= 1,
                // The server has undone the transaction.
                Err(DbError::Postgres(error)) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
                done => return Ok(done?),
            }
        }
    }
}

impl Postgres {
    /// Runs a transaction once. If it fails, its connection is closed, and the server undoes it.
    async fn attempt<T, F>(&self, operation: &mut F) -> Result<T, DbError>
    where
        F: for<'t> FnMut(&'t mut (dyn Tx + 't)) -> Step<'t, T> + Send,
        T: Send,
    {
        let session = Session::open(&self.pool).await?;
        let mut tx = PostgresTx { session, queued: vec![call!("BEGIN")], takes_long: false };
        let done = operation(&mut tx).await?;
        tx.queued.push(call!("COMMIT"));
        tx.send().await.map_err(PgError::of_commit)?;
        tx.session.release();
        Ok(done)
    }
}

/// A transaction. Its statements are sent with the next one whose rows are needed.
struct PostgresTx {
    session: Session,
    queued: Vec<Query>,
    takes_long: bool,
}

impl PostgresTx {
    /// Sends the statements, and returns the rows of each.
    async fn send(&mut self) -> Result<Vec<Vec<tokio_postgres::Row>>, PgError> {
        let calls = std::mem::take(&mut self.queued);
        if self.takes_long { self.session.run_long(&calls).await } else { self.session.run(&calls).await }
    }
}

#[async_trait]
impl Tx for PostgresTx {
    async fn query(&mut self, statement: Statement) -> Result<Vec<Row>, DbError> {
        self.queued.push(statement.into());
        let mut answers = self.send().await?;
        Ok(rows(answers.pop().unwrap_or_default())?)
    }

    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        let first = self.queued.len();
        self.queued.extend(statements.into_iter().map(Query::from));
        let answers = self.send().await?;
        Ok(answers.into_iter().skip(first).map(rows).collect::<Result<_, PgError>>()?)
    }

    async fn execute(&mut self, statement: Statement) -> Result<(), DbError> {
        self.queued.push(statement.into());
        Ok(())
    }

    fn take_long(&mut self) {
        self.takes_long = true;
        self.queued.push(call!("SET LOCAL statement_timeout = '10min'"));
        self.queued.extend(PLAN_FOR_MANY.map(|setting| call!(setting)));
    }
}

impl From<Statement> for Query {
    fn from(Statement { text, values }: Statement) -> Self {
        Self { sql: text.postgres, values: values.into_iter().map(|value| Box::new(value) as _).collect() }
    }
}

fn rows(found: Vec<tokio_postgres::Row>) -> Result<Vec<Row>, PgError> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row: &tokio_postgres::Row| {
        let values = (0..columns.len()).map(|index| value(row, index));
        Ok(Row::new(&columns, values.collect::<Result<_, PgError>>()?))
    };
    found.iter().map(row).collect()
}

fn value(row: &tokio_postgres::Row, index: usize) -> Result<Value, PgError> {
    let kind = row.columns().get(index).map(tokio_postgres::Column::type_);
    Ok(match kind {
        Some(&Type::INT8) => row.try_get::<_, Option<i64>>(index)?.into(),
        Some(&Type::INT4) => row.try_get::<_, Option<i32>>(index)?.map(i64::from).into(),
        Some(&Type::BOOL) => row.try_get::<_, Option<bool>>(index)?.into(),
        // A function that only takes a lock returns it.
        Some(&Type::VOID) => Value::Null,
        Some(&Type::BYTEA) => row.try_get::<_, Option<Vec<u8>>>(index)?.into(),
        // Other types are errors that name the column.
        _ => row.try_get::<_, Option<String>>(index)?.into(),
    })
}
