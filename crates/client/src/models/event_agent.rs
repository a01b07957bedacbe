//! Data of the events of agents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::LeftOut;

/// The agent sent a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentMessage {
    /// The text.
    pub text: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent sent a thought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentThought {
    /// The text.
    pub text: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent's complete plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentPlan {
    /// The steps of the plan, as the agent sent them.
    pub entries: Option<Vec<Value>>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// A tool call, or an update of one, with the fields that the agent sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentToolCall {
    /// The ID of the tool call.
    pub tool_call_id: Option<String>,
    /// The title.
    pub title: Option<Value>,
    /// The kind of the tool.
    pub kind: Option<Value>,
    /// The status.
    pub status: Option<Value>,
    /// The input of the tool.
    pub raw_input: Option<Value>,
    /// The output of the tool.
    pub raw_output: Option<Value>,
    /// The content that the tool produced.
    pub content: Option<Value>,
    /// The files that the tool uses.
    pub locations: Option<Value>,
    /// True if an earlier event started the call.
    pub update: Option<bool>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The usage of the context window, as reported by the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentUsage {
    /// The number of tokens in the context.
    pub used: Option<Value>,
    /// The size of the context in tokens.
    pub size: Option<Value>,
    /// The cost, as the agent sent it.
    pub cost: Option<Value>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent's session was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentSession {
    /// The ID of the agent.
    pub agent: Option<String>,
    /// The way in which the session was opened: `new`, `resumed` or `loaded`.
    pub opened: Option<String>,
    /// `true` if the agent can resume sessions.
    pub resumes: Option<bool>,
    /// `true` if the agent can load sessions.
    pub loads: Option<bool>,
    /// The duration in milliseconds.
    pub millis: Option<u64>,
    /// The wanted values of `model`, `effort` and `mode` that the agent does not offer or has refused.
    pub not_set: Option<BTreeMap<String, String>>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent's turn was cut short, and the agent is asked to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentContinued {
    /// The cause.
    pub cause: Option<String>,
    /// The number of the continuation.
    pub continuation: Option<u64>,
    /// The maximum number of continuations.
    pub most: Option<u64>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The turn changed files that its commits do not have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangesLeftOut {
    /// The paths, at most 100.
    #[serde(default)]
    pub paths: Vec<LeftOut>,
    /// The number of further paths.
    pub more: Option<u64>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The working tree of the turn lacks something that the repository or an earlier turn has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckoutIncomplete {
    /// What is missing, at most 100 entries.
    #[serde(default)]
    pub entries: Vec<Missing>,
    /// The number of further entries.
    pub more: Option<u64>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

open_enum! {
    /// The kind of thing that a working tree lacks.
    MissingKind {
        /// The content of a file in Git LFS, or a file or folder that was left out of an earlier commit.
        File = "file",
        /// A submodule.
        Submodule = "submodule",
        /// The newest commit of the branch that the work is merged into.
        Base = "base",
        /// The work of a turn that the agent had ended in an earlier attempt.
        Turn = "turn",
        /// The agent's home of earlier turns.
        Home = "home",
    }
}

/// Something that a working tree lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Missing {
    /// The path in the repository, or the branch as the agent's git names it.
    pub path: String,
    /// The kind.
    pub kind: MissingKind,
    /// The stable name of the reason.
    pub reason: String,
    /// The reason and the remedy, for people.
    pub detail: String,
}

/// The agent's home was not stored after the turn, so a rebuilt workspace will not have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HomeNotStored {
    /// The stable name of the reason.
    pub reason: Option<String>,
    /// The reason and the remedy, for people.
    pub detail: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// A line of the agent's output was not a message of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentLineDropped {
    /// The cause.
    pub reason: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent called a model through the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentModelCall {
    /// The model.
    pub model: Option<String>,
    /// The number of input tokens.
    pub input_tokens: Option<u64>,
    /// The number of cached input tokens.
    pub cached_tokens: Option<u64>,
    /// The number of output tokens.
    pub output_tokens: Option<u64>,
    /// The cost in millionths of a US dollar; `None` if it is not known.
    pub cost_micros: Option<u64>,
    /// True if the tokens are an estimate, because the call was interrupted.
    pub estimated: Option<bool>,
    /// The time in milliseconds that the call waited until a budget had enough left.
    pub waited_millis: Option<u64>,
    /// The duration in milliseconds.
    pub millis: Option<u64>,
    /// The failure; `None` if the call succeeded.
    pub failure: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// A model call, or a part of it, was denied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelDenied {
    /// The cause.
    pub reason: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// The agent asked for permission, and the project's policy answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PermissionAnswered {
    /// The title of the tool call.
    pub title: Option<String>,
    /// The option that was chosen.
    pub chosen: Option<String>,
    /// The kind of the option that was chosen.
    pub kind: Option<String>,
    /// `true` if the permission was granted.
    pub granted: Option<bool>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// A program reached a destination outside the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EgressAllowed {
    /// The host and the port.
    pub destination: Option<String>,
    /// The cause.
    pub reason: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}

/// A program was denied access to a destination outside the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EgressDenied {
    /// The host and the port.
    pub destination: Option<String>,
    /// The cause.
    pub reason: Option<String>,
    /// True if data was truncated.
    pub cut: Option<bool>,
}
