//! Reports on the usage of models.

use std::collections::HashMap;

use async_trait::async_trait;
use journeyman_core::ports::{StoreError, UsageStore};
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery};

use super::{Database, Row, SqlStore, Statement, Text, Value, text};
use crate::rows;

/// Returns the text of a report on a table; `$author` and `$key` are its columns, or the empty text.
///
/// PostgreSQL adds up the rows of each line. SQLite would sort all rows to group them, which takes longer than to read
/// them, so it returns the rows, and [`add`] adds them up.
macro_rules! report {
    ($table:literal, $author:literal, $key:literal) => {
        Text {
            postgres: text!(report!(
                $table, $author, $key, "sum(", ")::bigint", "GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT $12"
            ))
            .postgres,
            // SQLite needs a use of each parameter.
            sqlite: text!(report!($table, $author, $key, "", "", "AND $12 > 0")).sqlite,
        }
    };
    ($table:literal, $author:literal, $key:literal, $sum:literal, $end_of_sum:literal, $end:literal) => {
        concat!(
            "SELECT CASE WHEN $7 THEN day END AS of_day, CASE WHEN $8 THEN project ELSE '' END COLLATE \"C\" AS of_project,
                    CASE WHEN $9 THEN model ELSE '' END COLLATE \"C\" AS of_model,
                    CASE WHEN $10 THEN ", $author, " ELSE '' END COLLATE \"C\" AS of_author,
                    CASE WHEN $11 THEN ", $key, " ELSE '' END COLLATE \"C\" AS of_key,
                    ", $sum, "runs", $end_of_sum, " AS runs, ", $sum, "unpriced", $end_of_sum, " AS unpriced,
                    ", $sum, "input_tokens", $end_of_sum, " AS input_tokens,
                    ", $sum, "output_tokens", $end_of_sum, " AS output_tokens,
                    ", $sum, "cached_tokens", $end_of_sum, " AS cached_tokens,
                    ", $sum, "cost_micros", $end_of_sum, " AS cost_micros,
                    ", $sum, "estimated_micros", $end_of_sum, " AS estimated_micros
             FROM ", $table, "
             WHERE day BETWEEN $1 AND $2 AND ($3::text[] IS NULL OR project = ANY (($3)))
               AND ($4::text IS NULL OR model = $4) AND ($5::text IS NULL OR ", $author, " = $5)
               AND ($6::text IS NULL OR ", $key, " = $6) ",
            $end
        )
    };
}

const REPORT: Text = report!("usage_days", "author", "key");

/// A report that needs no senders.
const REPORT_ON_MODELS: Text = report!("usage_models", "''", "''");

/// The number of columns by which rows are grouped. They are the first ones.
const GROUPS: usize = 5;

/// The lines of a report by the values of their groups.
type Lines = HashMap<Vec<Value>, UsageLine>;

#[async_trait]
impl<B: Database> UsageStore for SqlStore<B> {
    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageLine>, StoreError> {
        let by = |group| query.groups.contains(&group);
        let text = if query.needs_senders() { REPORT } else { REPORT_ON_MODELS };
        let projects = query.projects.as_ref().map(|projects| projects.iter().map(ToString::to_string).collect());
        let values = vec![
            query.first_day.into(),
            query.last_day.into(),
            Value::from(projects as Option<Vec<String>>),
            query.model.clone().into(),
            query.author.clone().into(),
            query.key.map(|key| key.to_string()).into(),
            by(UsageGroup::Day).into(),
            by(UsageGroup::Project).into(),
            by(UsageGroup::Model).into(),
            by(UsageGroup::Author).into(),
            by(UsageGroup::Key).into(),
            query.limit.into(),
        ];
        let lines = self.add_up(Statement { text, values }, Lines::new(), add).await?;
        let mut lines: Vec<UsageLine> = lines.into_values().collect();
        lines.sort_unstable_by(|a, b| properties(a).cmp(&properties(b)));
        lines.truncate(query.limit);
        Ok(lines)
    }
}

/// Adds a row to its line.
fn add(lines: &mut Lines, row: &Row) -> Result<(), StoreError> {
    let group = row.values().get(..GROUPS).unwrap_or_default();
    if let Some(line) = lines.get_mut(group) {
        line.sum = line.sum.plus(&rows::usage_sum(row)?);
    } else {
        lines.insert(group.to_vec(), rows::usage_line(row)?);
    }
    Ok(())
}

/// Returns the properties by which the lines of a report are sorted.
fn properties(line: &UsageLine) -> impl Ord + '_ {
    (line.day, &line.project, &line.model, &line.author, line.key)
}
