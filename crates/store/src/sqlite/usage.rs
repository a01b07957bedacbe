//! The sums of the usage of models.

use async_trait::async_trait;
use journeyman_core::ids::RunId;
use journeyman_core::job::Job;
use journeyman_core::ports::{StoreError, UsageStore};
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery, UsageSum};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::rows::collect;
use crate::lists::LARGEST_SUM;
use crate::rows::{self, to_json};

/// Adds the usage of a run, which has ended, to the sum of its day, project, model, author and key.
pub(super) fn add(db: &Connection, job: &Job, run: RunId, sum: &UsageSum) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens,
                                 cached_tokens, cost_micros)
         SELECT runs.finished_at / 86400000000, ?2, ?3, coalesce(messages.author, ''), coalesce(messages.key, ''), ?4,
                ?5, ?6, ?7, ?8, ?9
         FROM runs LEFT JOIN messages ON messages.id = runs.message
         WHERE runs.id = ?1 AND runs.finished_at IS NOT NULL
         ON CONFLICT DO UPDATE
         SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
             input_tokens = min(input_tokens + excluded.input_tokens, ?10),
             output_tokens = min(output_tokens + excluded.output_tokens, ?10),
             cached_tokens = min(cached_tokens + excluded.cached_tokens, ?10),
             cost_micros = min(cost_micros + excluded.cost_micros, ?10)",
    )?
    .execute(params![
        run.to_string(),
        job.project.as_str(),
        job.model,
        number(sum.runs),
        number(sum.unpriced),
        number(sum.input_tokens),
        number(sum.output_tokens),
        number(sum.cached_tokens),
        number(sum.cost_micros),
        LARGEST_SUM,
    ])?;
    Ok(())
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(LARGEST_SUM)
}

#[async_trait]
impl UsageStore for SqliteStore {
    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageLine>, StoreError> {
        let projects = query.projects.as_ref().map(to_json).transpose()?;
        self.readers
            .read(move |db| {
                let by = |group| query.groups.contains(&group);
                let mut report = db.prepare_cached(if query.needs_senders() { REPORT } else { REPORT_ON_MODELS })?;
                let values = params![
                    query.first_day,
                    query.last_day,
                    projects,
                    query.model,
                    query.author,
                    query.key.map(|key| key.to_string()),
                    by(UsageGroup::Day),
                    by(UsageGroup::Project),
                    by(UsageGroup::Model),
                    by(UsageGroup::Author),
                    by(UsageGroup::Key),
                    i64::try_from(query.limit).unwrap_or(i64::MAX),
                ];
                collect(&mut report.query(values)?, |row| rows::usage_line(row))
            })
            .await
    }
}

/// Returns the statement of a report on a table; `$author` and `$key` are its columns, or the empty text.
macro_rules! report {
    ($table:literal, $author:literal, $key:literal) => {
        concat!(
            "SELECT iif(?7, day, NULL) AS of_day, iif(?8, project, '') AS of_project, iif(?9, model, '') AS of_model,
                    iif(?10, ", $author, ", '') AS of_author, iif(?11, ", $key, ", '') AS of_key, sum(runs) AS runs,
                    sum(unpriced) AS unpriced, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
                    sum(cached_tokens) AS cached_tokens, sum(cost_micros) AS cost_micros
             FROM ", $table, "
             WHERE day BETWEEN ?1 AND ?2 AND (?3 IS NULL OR project IN (SELECT value FROM json_each(?3)))
               AND (?4 IS NULL OR model = ?4) AND (?5 IS NULL OR ", $author, " = ?5) AND (?6 IS NULL OR ", $key, " = ?6)
             GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT ?12"
        )
    };
}

const REPORT: &str = report!("usage_days", "author", "key");

/// A report that needs no senders.
const REPORT_ON_MODELS: &str = report!("usage_models", "''", "''");
