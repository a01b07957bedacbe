//! A message: one input to a job. The prompt that creates a job is its first message.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, MessageId, RunId, Sha};
use crate::time::Timestamp;

/// The longest prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 100_000;

/// The longest answer that is kept, in characters; the rest is cut.
pub const MAX_ANSWER_CHARS: usize = 100_000;

/// The most messages that may wait on one job.
pub const MAX_QUEUED: usize = 100;

/// Where a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The HTTP interface.
    Api,
    /// A person at the dashboard.
    Dashboard,
    /// A comment on a pull request.
    PullRequest,
}

/// What a message does to a job that is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// Waits its turn.
    #[default]
    Queue,
    /// Stops the running turn and goes first.
    Interrupt,
    /// Is refused.
    Reject,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// Accepted and stored, waiting.
    Queued,
    /// A run has taken it.
    Delivered,
    /// Its run succeeded.
    Finished,
    /// Its last run failed.
    Failed,
    /// Stopped by cancel, archive or an interrupting message while a run had it.
    Cancelled,
    /// Taken back before any run had it.
    Withdrawn,
}

impl MessageStatus {
    /// Whether nothing more will happen to the message.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Delivered => false,
            Self::Finished | Self::Failed | Self::Cancelled | Self::Withdrawn => true,
        }
    }
}

/// A message and its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Which message.
    pub id: MessageId,
    /// The job it belongs to.
    pub job: JobId,
    /// What the agent is told.
    pub prompt: String,
    /// Where it came from.
    pub origin: Origin,
    /// Who sent it: the name of a key, or a person.
    pub author: Option<String>,
    /// How it treats a busy job.
    pub delivery: DeliveryMode,
    /// How far it has come.
    pub status: MessageStatus,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When a run first took it.
    pub delivered_at: Option<Timestamp>,
    /// When its status became final.
    pub finished_at: Option<Timestamp>,
    /// The last run that took it.
    pub run: Option<RunId>,
    /// The commits that it led to, oldest first.
    pub commits: Vec<Sha>,
    /// The pull request that carries them.
    pub pr_link: Option<String>,
    /// The later message whose push included the commits, if publishing this message was given up.
    pub published_with: Option<MessageId>,
    /// The final text of the agent's turn, at most [`MAX_ANSWER_CHARS`] characters; `None` if it said nothing.
    pub answer: Option<String>,
}

/// What somebody wants to say to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, made by the caller.
    pub id: MessageId,
    /// What the agent is told: 1 to [`MAX_PROMPT_CHARS`] characters, without NUL.
    pub prompt: String,
    /// Where it came from.
    pub origin: Origin,
    /// Who sent it.
    pub author: Option<String>,
    /// How it treats a busy job.
    pub delivery: DeliveryMode,
}

/// Why a text is no prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrompt {
    /// Nothing in it.
    #[error("prompt must have at least 1 character")]
    Empty,
    /// Over [`MAX_PROMPT_CHARS`].
    #[error("prompt has {0} characters; the most is {MAX_PROMPT_CHARS}")]
    TooLong(usize),
    /// PostgreSQL stores no NUL in text, and no agent means one.
    #[error("prompt must not contain the NUL character")]
    Nul,
}

/// Checks a prompt.
///
/// # Errors
/// Says what is wrong with it.
pub fn check_prompt(prompt: &str) -> Result<(), InvalidPrompt> {
    if prompt.is_empty() {
        return Err(InvalidPrompt::Empty);
    }
    if prompt.contains('\0') {
        return Err(InvalidPrompt::Nul);
    }
    // Counting is linear; bytes bound characters from above, so most prompts are not counted.
    if prompt.len() > MAX_PROMPT_CHARS {
        let chars = prompt.chars().count();
        if chars > MAX_PROMPT_CHARS {
            return Err(InvalidPrompt::TooLong(chars));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_measured_in_characters() {
        assert_eq!(check_prompt("x"), Ok(()));
        assert_eq!(check_prompt(" "), Ok(()));
        assert_eq!(check_prompt(""), Err(InvalidPrompt::Empty));
        assert_eq!(check_prompt("a\0b"), Err(InvalidPrompt::Nul));
        assert_eq!(check_prompt(&"ä".repeat(MAX_PROMPT_CHARS)), Ok(()));
        assert_eq!(check_prompt(&"ä".repeat(MAX_PROMPT_CHARS + 1)), Err(InvalidPrompt::TooLong(MAX_PROMPT_CHARS + 1)));
    }
}
