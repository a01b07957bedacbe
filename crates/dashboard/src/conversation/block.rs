//! The blocks of a conversation.

use journeyman_core::ids::MessageId;
use journeyman_core::time::Timestamp;

use super::line::Line;
use super::tool::Tool;

/// A block of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    /// The sequence number of its first event.
    pub(crate) seq: u64,
    /// The time of its first event.
    pub(crate) at: Timestamp,
    pub(crate) kind: Kind,
}

impl Block {
    /// Returns the ID of the block's element on the page.
    pub(crate) fn id(&self) -> String {
        match &self.kind {
            Kind::Turn(message) => format!("m-{message}"),
            _ => format!("e{}", self.seq),
        }
    }
}

/// The content of a block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// A message that was delivered to the agent.
    Turn(MessageId),
    /// Text of the agent.
    Said(String),
    /// A thought of the agent, with the time of its last part.
    Thought(String, Timestamp),
    /// A tool call.
    Tool(Tool),
    /// An event that is shown in one line.
    Line(Line),
}
