//! The overview of a job: the job with its newest message and the data that is not in its document, read by one statement.

use journeyman_core::ids::JobId;
use journeyman_core::ports::{JobOverview, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::Postgres;
use super::error::PgError;
use super::pipeline::call;
use crate::rows::Columns;
use crate::{lists, rows};

/// Selects a job with its attributes, the usages of its runs, the hold of its project, its newest message, and its pull
/// requests, oldest first: one row for each pull request, or one row without. It takes 0.125 ms, and a statement for each
/// of the six tables takes 0.07 to 0.1 ms (pgbench with PostgreSQL 15, one client, 26 November 2026). [`ColumnsAfter`]
/// tells columns with the same name apart.
pub(super) const OVERVIEW: &str = "
    SELECT jobs.id, jobs.state, jobs.diff, jobs.effort,
        ARRAY (SELECT attribute FROM job_attributes WHERE job = $1) AS attributes,
        ARRAY (SELECT usage FROM runs WHERE job = $1) AS usages,
        (SELECT hold FROM project_holds WHERE project = jobs.project) AS hold,
        newest.id IS NOT NULL AS has_message, newest.*,
        pulls.number IS NOT NULL AS has_pull, pulls.*
    FROM jobs
    LEFT JOIN LATERAL (SELECT * FROM messages WHERE job = $1 ORDER BY seq DESC LIMIT 1) AS newest ON true
    LEFT JOIN job_pulls AS pulls ON pulls.job = $1
    WHERE jobs.id = $1
    ORDER BY pulls.created_at, pulls.number";

impl Postgres {
    /// Reads the overview of a job; `None` if there is no such job.
    pub(super) async fn read_overview(&self, id: JobId) -> Result<Option<JobOverview>, StoreError> {
        let found = self.read(call!(OVERVIEW, id.to_string())).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let texts = |column| row.try_get::<_, Vec<String>>(column).map_err(PgError::from);
        let usages = texts("usages")?;
        let has_pulls = row.try_get::<_, bool>("has_pull").map_err(PgError::from)?;
        let pulls =
            found.iter().filter(|_| has_pulls).map(|row| rows::indexed_pull(&ColumnsAfter::new(row, "has_pull")));
        let extras = lists::extras(
            texts("attributes")?.into_iter().map(|attribute| (id, attribute)).collect(),
            usages.iter().map(|usage| Ok((id, rows::usage_text(usage, id)?))).collect::<Result<_, StoreError>>()?,
            pulls.collect::<Result<_, PgError>>()?,
            rows::hold_or_null(row)?.map(|hold| (id, hold)).into_iter().collect(),
        );
        let has_message = row.try_get::<_, bool>("has_message").map_err(PgError::from)?;
        let newest_message = has_message.then(|| rows::message(&ColumnsAfter::new(row, "has_message"))).transpose()?;
        let extras = extras.into_values().next().unwrap_or_default();
        Ok(Some(JobOverview { job: rows::job(row)?, newest_message, extras }))
    }
}

/// The columns of a row after one of them, for a row of joined tables whose columns have the same names.
struct ColumnsAfter<'a> {
    row: &'a Row,
    first: usize,
}

impl<'a> ColumnsAfter<'a> {
    /// Returns the columns after the column `marker`.
    fn new(row: &'a Row, marker: &str) -> Self {
        let index = row.columns().iter().position(|column| column.name() == marker);
        // Without the column, there are none after it, and each read is an error.
        Self { row, first: index.map_or(row.len(), |index| index + 1) }
    }

    fn get<T: FromSql<'a>>(&self, column: &str) -> Result<T, PgError> {
        let mut columns = self.row.columns().iter().enumerate().skip(self.first);
        let index = columns.find(|(_, one)| one.name() == column).map(|(index, _)| index);
        // An index past the last column makes `try_get` return an error.
        Ok(self.row.try_get(index.unwrap_or(self.row.len()))?)
    }
}

impl Columns for ColumnsAfter<'_> {
    type Error = PgError;

    fn text(&self, column: &str) -> Result<Option<String>, PgError> {
        self.get(column)
    }

    fn number(&self, column: &str) -> Result<Option<i64>, PgError> {
        self.get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, PgError> {
        self.get(column)
    }
}
