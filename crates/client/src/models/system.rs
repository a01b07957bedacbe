//! Agents, models, the system, usage and the audit log.

use serde::{Deserialize, Serialize};

/// An agent that the installation knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Agent {
    /// The ID, which projects and jobs name as `agent`.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The dialects in which the agent calls models; an empty list means any.
    pub dialects: Vec<String>,
    /// The kinds of tool calls that a project can refuse to the agent.
    pub asks: Vec<String>,
    /// `true` if a new process of the agent resumes its sessions. Otherwise, each message of a job begins a session
    /// that includes the earlier messages.
    pub resumes: bool,
}

/// A provider of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Provider {
    /// The ID: the part of a model's name before the slash.
    pub id: String,
    /// The wire format of its server: `anthropic`, `openai`, `openai-responses`, `gemini`, `ollama` or `compatible`.
    pub dialect: String,
    /// `true` if calls can be made without a secret of the project: the server has a key, or none is needed.
    pub ready: bool,
    /// The name of the project's secret with a key, which takes precedence; `None` if the provider needs no key.
    pub key_variable: Option<String>,
    /// The size of the models' context window in tokens; `None` if it is not configured.
    pub context_tokens: Option<u64>,
    /// The prices of its models. Calls of a model without a price have no known cost.
    pub prices: Vec<ModelPrice>,
    /// The date of the table of prices in use; `None` if the table has none.
    #[serde(default)]
    pub prices_date: Option<String>,
}

/// The prices of a million tokens of a model, in millionths of a US dollar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPrice {
    /// The name of the model, or a prefix of it and `*`.
    pub model: String,
    /// The price of input tokens, which the model reads.
    pub input_micros: u64,
    /// The price of output tokens, which the model writes.
    pub output_micros: u64,
    /// The price of input tokens that are read from the provider's cache.
    pub cached_micros: u64,
    /// The price of input tokens that are also written to the provider's cache.
    pub cache_written_micros: u64,
    /// The price of input tokens that are also written to a cache that lasts for an hour or longer.
    #[serde(default)]
    pub cache_written_long_micros: u64,
}

/// Information about the installation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct System {
    /// The version of the service.
    pub version: String,
    /// The sandbox of the machine that handles the request; `None` if the machine carries out no jobs.
    pub sandbox: Option<Containment>,
}

/// The sandbox of a machine, and its guarantees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Containment {
    /// The name of the sandbox's back end.
    pub kind: String,
    /// `true` if all required guarantees hold. Otherwise, the machine runs only the test model.
    pub enough: bool,
    /// The guarantees of the sandbox.
    pub guarantees: Vec<Guarantee>,
}

/// A guarantee of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Guarantee {
    /// The name, such as `network`.
    pub name: String,
    /// `true` if a test has shown that the guarantee holds.
    pub holds: bool,
    /// `true` if the configuration does not require the guarantee.
    pub given_up: bool,
    /// A note on how the sandbox provides the guarantee, or the remedy if it does not.
    pub note: String,
}

/// A report on the usage of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageReport {
    /// The first day of the report, in UTC.
    pub from: String,
    /// The last day of the report.
    pub to: String,
    /// The sum of all lines.
    pub total: UsageSum,
    /// The lines, sorted by day, project, model, author, and key.
    pub lines: Vec<UsageLine>,
}

/// A line of a report. A property that the report does not group by is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageLine {
    /// The sums of the line.
    #[serde(flatten)]
    pub sum: UsageSum,
    /// The day in UTC on which the runs ended.
    pub day: Option<String>,
    /// The ID of the project, which may have been deleted.
    pub project: Option<String>,
    /// The model of the jobs.
    pub model: Option<String>,
    /// The author of the messages: the name of a key, or a person; also `None` for messages without one.
    pub author: Option<String>,
    /// The ID of the API key that sent the messages; also `None` for messages that were sent without one.
    pub key: Option<String>,
    /// The name of that key; `None` if it is not known.
    pub key_name: Option<String>,
}

/// The sum of the usage of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageSum {
    /// The number of runs.
    pub runs: u64,
    /// The number of tokens that the models read.
    pub input_tokens: u64,
    /// The number of tokens that the models wrote.
    pub output_tokens: u64,
    /// The number of input tokens that came from the providers' caches.
    pub cached_tokens: u64,
    /// The known cost, in millionths of a US dollar.
    pub cost_micros: u64,
    /// The part of the known cost that is an estimate.
    #[serde(default)]
    pub estimated_micros: u64,
    /// The number of runs, and of model calls that ended after their run, whose cost is not known. If it is not 0,
    /// the cost is more than `costMicros`.
    pub unpriced: u64,
}

/// An entry of the audit log. Its fields are the columns of the export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditEntry {
    /// The ID, which is larger than those of earlier entries.
    pub id: String,
    /// The time of the action.
    pub at: String,
    /// The ID of the key or user who acted, or `cli` for the command line; for a failed sign-in, the name that was
    /// entered.
    pub actor: String,
    /// The name of that key or user; `None` if it is not known.
    pub actor_name: Option<String>,
    /// The action, such as `key.created`. New actions may be added.
    pub action: String,
    /// The object of the action, such as the ID of a key.
    pub subject: String,
    /// The IP address of the client; `None` if the request did not come over the network.
    pub address: Option<String>,
}
