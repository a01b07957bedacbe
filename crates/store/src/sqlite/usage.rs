//! The sums of the usage of models.

use std::collections::HashMap;

use async_trait::async_trait;
use journeyman_core::ids::RunId;
use journeyman_core::job::Job;
use journeyman_core::ports::{StoreError, UsageStore};
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery, UsageSum};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::error::ReadError;
use crate::lists::LARGEST_SUM;
use crate::rows::{self, to_json};

/// Adds the usage of a run, which has ended, to the sum of its day, project, model, author and key.
pub(super) fn add(db: &Connection, job: &Job, run: RunId, sum: &UsageSum) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens,
                                 cached_tokens, cost_micros, estimated_micros)
         SELECT runs.finished_at / 86400000000, ?2, ?3, coalesce(messages.author, ''), coalesce(messages.key, ''), ?4,
                ?5, ?6, ?7, ?8, ?9, ?11
         FROM runs LEFT JOIN messages ON messages.id = runs.message
         WHERE runs.id = ?1 AND runs.finished_at IS NOT NULL
         ON CONFLICT DO UPDATE
         SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
             input_tokens = min(input_tokens + excluded.input_tokens, ?10),
             output_tokens = min(output_tokens + excluded.output_tokens, ?10),
             cached_tokens = min(cached_tokens + excluded.cached_tokens, ?10),
             cost_micros = min(cost_micros + excluded.cost_micros, ?10),
             estimated_micros = min(estimated_micros + excluded.estimated_micros, ?10)",
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
        number(sum.estimated_micros),
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
        self.readers.read(move |db| report(db, &query, projects.as_deref())).await
    }
}

/// Reads the rows of a report, and adds up those of each line. SQLite itself would sort all rows to group them, which takes
/// longer than to read them.
fn report(db: &Connection, query: &UsageQuery, projects: Option<&str>) -> Result<Vec<UsageLine>, ReadError> {
    let by = |group| query.groups.contains(&group);
    let mut found = db.prepare_cached(if query.needs_senders() { ROWS } else { ROWS_OF_MODELS })?;
    let mut found = found.query(params![
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
    ])?;
    let mut lines: HashMap<Vec<u8>, UsageLine> = HashMap::new();
    let mut group = Vec::new();
    while let Some(row) = found.next()? {
        read_group(row, &mut group)?;
        if let Some(line) = lines.get_mut(&group) {
            line.sum = line.sum.plus(&read_sum(row)?);
        } else {
            lines.insert(group.clone(), rows::usage_line(row)?);
        }
    }
    let mut lines: Vec<UsageLine> = lines.into_values().collect();
    lines.sort_unstable_by(|a, b| properties(a).cmp(&properties(b)));
    lines.truncate(query.limit);
    Ok(lines)
}

/// The number of columns by which rows are grouped. They are the first ones.
const GROUPS: usize = 5;

/// Writes the columns by which a row is grouped to `group`, so that different groups have different bytes.
fn read_group(row: &Row<'_>, group: &mut Vec<u8>) -> rusqlite::Result<()> {
    group.clear();
    for column in 0..GROUPS {
        match row.get_ref(column)? {
            ValueRef::Integer(day) => group.extend(day.to_le_bytes()),
            ValueRef::Text(text) => {
                group.extend(text.len().to_le_bytes());
                group.extend(text);
            }
            // The column of the day, if the report does not group by it.
            _ => {}
        }
    }
    Ok(())
}

fn read_sum(row: &Row<'_>) -> rusqlite::Result<UsageSum> {
    let number = |column| row.get::<_, i64>(GROUPS + column).map(|number| u64::try_from(number).unwrap_or(0));
    Ok(UsageSum {
        runs: number(0)?,
        unpriced: number(1)?,
        input_tokens: number(2)?,
        output_tokens: number(3)?,
        cached_tokens: number(4)?,
        cost_micros: number(5)?,
        estimated_micros: number(6)?,
    })
}

/// Returns the properties by which the lines of a report are sorted.
fn properties(line: &UsageLine) -> impl Ord + '_ {
    (line.day, &line.project, &line.model, &line.author, line.key)
}

/// Returns the statement that reads the rows of a table for a report; `$author` and `$key` are its columns, or the empty
/// text.
macro_rules! rows_of {
    ($table:literal, $author:literal, $key:literal) => {
        concat!(
            "SELECT iif(?7, day, NULL) AS of_day, iif(?8, project, '') AS of_project, iif(?9, model, '') AS of_model,
                    iif(?10, ",
            $author,
            ", '') AS of_author, iif(?11, ",
            $key,
            ", '') AS of_key, runs, unpriced,
                    input_tokens, output_tokens, cached_tokens, cost_micros, estimated_micros
             FROM ",
            $table,
            "
             WHERE day BETWEEN ?1 AND ?2 AND (?3 IS NULL OR project IN (SELECT value FROM json_each(?3)))
               AND (?4 IS NULL OR model = ?4) AND (?5 IS NULL OR ",
            $author,
            " = ?5) AND (?6 IS NULL OR ",
            $key,
            " = ?6)"
        )
    };
}

const ROWS: &str = rows_of!("usage_days", "author", "key");

/// The rows of a report that needs no senders.
const ROWS_OF_MODELS: &str = rows_of!("usage_models", "''", "''");
