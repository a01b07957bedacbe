//! The result of a turn.

use journeyman_core::job::turn::Ending;

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The agent's session.
    pub(crate) session: String,
    pub(crate) ending: Ending,
    /// The final text of the agent, without secrets.
    pub(crate) answer: Option<String>,
}

impl Turn {
    /// Returns whether an interrupting message stopped the turn.
    pub(crate) fn is_stopped(&self) -> bool {
        self.ending == Ending::Stopped
    }
}
