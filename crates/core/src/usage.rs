//! Reports on the usage of models: sums over runs, by day, project, model, author, and API key.
//!
//! The store adds up the usage of each run when the run ends, in the same transaction. The sums stay when jobs and projects
//! are deleted.

use crate::ids::{KeyId, ProjectId};
use crate::model::price::day;
use crate::run::Usage;
use crate::time::Timestamp;

/// A property by which a report groups runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageGroup {
    /// The day in UTC on which the run ended.
    Day,
    /// The project.
    Project,
    /// The model of the job.
    Model,
    /// The sender of the message.
    Author,
    /// The API key that sent the message.
    Key,
}

/// A selection of runs, and the groups of the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// The first day, as [`crate::model::price::day`] numbers it.
    pub first_day: i64,
    /// The last day.
    pub last_day: i64,
    /// Only runs of these projects; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// Only runs of jobs with this model.
    pub model: Option<String>,
    /// Only runs of messages of this author.
    pub author: Option<String>,
    /// Only runs of messages that were sent with this key.
    pub key: Option<KeyId>,
    /// The groups. Without any, the report has one line.
    pub groups: Vec<UsageGroup>,
    /// The maximum number of lines.
    pub limit: usize,
}

impl UsageQuery {
    /// Returns whether the report needs authors or keys, and not only days, projects and models.
    #[must_use]
    pub fn needs_senders(&self) -> bool {
        let of_senders = |group: &UsageGroup| matches!(group, UsageGroup::Author | UsageGroup::Key);
        self.author.is_some() || self.key.is_some() || self.groups.iter().any(of_senders)
    }
}

/// A line of a report. A property that the report does not group by is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageLine {
    /// The day, as [`crate::model::price::day`] numbers it.
    pub day: Option<i64>,
    /// The project.
    pub project: Option<ProjectId>,
    /// The model.
    pub model: Option<String>,
    /// The author; also `None` for messages without one.
    pub author: Option<String>,
    /// The key; also `None` for messages that were sent without one.
    pub key: Option<KeyId>,
    /// The sums.
    pub sum: UsageSum,
}

/// The sum of the usage of runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSum {
    /// The number of runs.
    pub runs: u64,
    /// The number of runs, and of model calls that ended after their run, whose cost is not known.
    pub unpriced: u64,
    /// The number of tokens that the models read.
    pub input_tokens: u64,
    /// The number of tokens that the models wrote.
    pub output_tokens: u64,
    /// The number of input tokens that came from the providers' caches.
    pub cached_tokens: u64,
    /// The known cost, in millionths of a US dollar.
    pub cost_micros: u64,
    /// The part of the known cost that is an estimate.
    pub estimated_micros: u64,
}

impl UsageSum {
    /// Returns the usage of a run that has ended.
    #[must_use]
    pub fn of_run(usage: &Usage) -> Self {
        Self { runs: 1, ..Self::of_late_calls(usage) }
    }

    /// Returns the usage of calls that ended after their run.
    #[must_use]
    pub fn of_late_calls(usage: &Usage) -> Self {
        let is_unpriced = usage.cost_micros.is_none() && *usage != Usage::default();
        Self {
            runs: 0,
            unpriced: u64::from(is_unpriced),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cost_micros: usage.cost_micros.unwrap_or(0),
            estimated_micros: usage.estimated_micros,
        }
    }

    /// Returns the sum of two sums.
    #[must_use]
    pub const fn plus(&self, more: &Self) -> Self {
        Self {
            runs: self.runs.saturating_add(more.runs),
            unpriced: self.unpriced.saturating_add(more.unpriced),
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(more.cached_tokens),
            cost_micros: self.cost_micros.saturating_add(more.cost_micros),
            estimated_micros: self.estimated_micros.saturating_add(more.estimated_micros),
        }
    }
}

/// The number of microseconds of a day.
const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// Parses a date in UTC, such as `2026-11-23`; `None` if it is not one.
#[must_use]
pub fn parse_day(text: &str) -> Option<i64> {
    let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let midnight: Timestamp = format!("{text}T00:00:00Z").parse().ok().filter(|_| is_date)?;
    Some(day(midnight))
}

/// Formats a day as a date.
#[must_use]
pub fn format_day(day: i64) -> String {
    let midnight = Timestamp::from_micros(day.saturating_mul(DAY_MICROS)).to_string();
    midnight.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_a_date() {
        for (text, expected) in [("1970-01-01", Some(0)), ("1970-02-01", Some(31)), ("1969-12-31", Some(-1))] {
            assert_eq!(parse_day(text), expected);
            assert_eq!(expected.map(format_day).as_deref(), Some(text));
        }
        for wrong in ["", "2026-13-01", "2026-02-30", "2026-1-1", "20261101", "2026-11-01T00:00:00Z", "+026-11-01"] {
            assert_eq!(parse_day(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_run_without_usage_is_not_unpriced() {
        assert_eq!(UsageSum::of_run(&Usage::default()), UsageSum { runs: 1, ..UsageSum::default() });
        let free = Usage { input_tokens: 5, cost_micros: Some(0), ..Usage::default() };
        assert_eq!(UsageSum::of_run(&free).unpriced, 0);
        let unknown = Usage { input_tokens: 5, ..Usage::default() };
        let sum = UsageSum::of_run(&unknown).plus(&UsageSum::of_late_calls(&unknown));
        assert_eq!((sum.runs, sum.unpriced, sum.input_tokens, sum.cost_micros), (1, 2, 10, 0));
    }
}
