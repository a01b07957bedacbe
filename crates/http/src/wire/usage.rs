//! The wire format of reports on usage.

use std::collections::HashMap;

use journeyman_core::usage::{self, UsageGroup, format_day};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A property by which a report groups runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    /// The day in UTC on which the run ended.
    Day,
    /// The project.
    Project,
    /// The model of the job.
    Model,
    /// The author of the message.
    Author,
    /// The API key that sent the message.
    Key,
}

impl From<Group> for UsageGroup {
    fn from(group: Group) -> Self {
        match group {
            Group::Day => Self::Day,
            Group::Project => Self::Project,
            Group::Model => Self::Model,
            Group::Author => Self::Author,
            Group::Key => Self::Key,
        }
    }
}

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// A JSON object.
    Json,
    /// A table (RFC 4180). The first line has the names of the columns.
    Csv,
}

/// A report on the usage of models.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageReport {
    /// The first day of the report, in UTC.
    #[schema(format = Date)]
    pub(crate) from: String,
    /// The last day of the report.
    #[schema(format = Date)]
    pub(crate) to: String,
    /// The sum of all lines.
    pub(crate) total: UsageSum,
    /// The lines, sorted by day, project, model, author, and key.
    pub(crate) lines: Vec<UsageLine>,
}

/// The sum of the usage of runs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageSum {
    /// The number of runs.
    runs: u64,
    /// The number of tokens that the models read.
    input_tokens: u64,
    /// The number of tokens that the models wrote.
    output_tokens: u64,
    /// The number of input tokens that came from the providers' caches.
    cached_tokens: u64,
    /// The known cost, in millionths of a US dollar.
    cost_micros: u64,
    /// The part of the known cost that is an estimate, because calls were interrupted before the provider reported
    /// their tokens.
    estimated_micros: u64,
    /// The number of runs, and of model calls that ended after their run, whose cost is not known. If it is not 0, the
    /// cost is more than `costMicros`.
    unpriced: u64,
}

impl From<usage::UsageSum> for UsageSum {
    fn from(sum: usage::UsageSum) -> Self {
        let usage::UsageSum {
            runs,
            unpriced,
            input_tokens,
            output_tokens,
            cached_tokens,
            cost_micros,
            estimated_micros,
        } = sum;
        Self { runs, input_tokens, output_tokens, cached_tokens, cost_micros, estimated_micros, unpriced }
    }
}

/// A line of a report. A property that the report does not group by is `null`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageLine {
    /// The day in UTC on which the runs ended.
    #[schema(required, format = Date)]
    day: Option<String>,
    /// The ID of the project, which may have been deleted.
    #[schema(required)]
    project: Option<String>,
    /// The model of the jobs.
    #[schema(required)]
    model: Option<String>,
    /// The author of the messages: the name of a key, or a person; also `null` for messages without one.
    #[schema(required)]
    author: Option<String>,
    /// The ID of the API key that sent the messages; also `null` for messages that were sent without one.
    #[schema(required)]
    key: Option<String>,
    /// The name of that key; `null` if it is not known.
    #[schema(required)]
    key_name: Option<String>,
    #[serde(flatten)]
    sum: UsageSum,
}

impl UsageLine {
    /// Returns the line; `names` are the names of users and keys by their IDs.
    pub(crate) fn of(line: usage::UsageLine, names: &HashMap<String, String>) -> Self {
        let key = line.key.map(|key| key.to_string());
        Self {
            day: line.day.map(format_day),
            project: line.project.map(|project| project.to_string()),
            model: line.model,
            author: line.author,
            key_name: key.as_ref().and_then(|key| names.get(key)).cloned(),
            key,
            sum: line.sum.into(),
        }
    }
}
