//! Reports on the usage of models.

use std::collections::HashMap;

use async_trait::async_trait;
use journeyman_core::ports::{StoreError, UsageStore};
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery, UsageSum};

use super::{Cells, Database, SqlStore, Statement, Sum, Text, Value, text};
use crate::rows;

/// Returns the text of a report on a table; `$author` and `$key` are its columns, or the empty text.
///
/// PostgreSQL adds up the rows of each line. SQLite would sort all rows to group them, which takes longer than to read
/// them, so it returns the rows, and [`Report`] adds them up.
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

/// The number of columns by which rows are grouped. They are the first ones: the day, and texts.
const GROUPS: usize = 5;

/// The lines of a report by the values of their groups.
#[derive(Debug, Default)]
struct Report {
    lines: HashMap<Vec<u8>, UsageLine>,
    /// The group of the row that is added.
    group: Vec<u8>,
}

impl Sum for Report {
    fn add<R: Cells>(&mut self, row: &R) -> Result<(), R::Error> {
        // Different groups have different bytes.
        self.group.clear();
        self.group.extend(row.number_at(0)?.unwrap_or(i64::MIN).to_le_bytes());
        for index in 1..GROUPS {
            let text = row.text_at(index)?.unwrap_or_default();
            self.group.extend(text.len().to_le_bytes());
            self.group.extend(text.as_bytes());
        }
        if let Some(line) = self.lines.get_mut(&self.group) {
            line.sum = line.sum.plus(&sum(row)?);
        } else {
            self.lines.insert(self.group.clone(), rows::usage_line(row)?);
        }
        Ok(())
    }
}

/// Reads the columns that are added up.
fn sum<R: Cells>(row: &R) -> Result<UsageSum, R::Error> {
    let number = |index| Ok::<_, R::Error>(u64::try_from(row.number_at(GROUPS + index)?.unwrap_or(0)).unwrap_or(0));
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
        let report = self.add_up(Statement { text, values }, Report::default()).await?;
        let mut lines: Vec<UsageLine> = report.lines.into_values().collect();
        lines.sort_unstable_by(|a, b| properties(a).cmp(&properties(b)));
        lines.truncate(query.limit);
        Ok(lines)
    }
}

/// Returns the properties by which the lines of a report are sorted.
fn properties(line: &UsageLine) -> impl Ord + '_ {
    (line.day, &line.project, &line.model, &line.author, line.key)
}
