//! How a pull request stands, in a word and a colour.

use journeyman_core::pull::{LocalPull, PullState};

/// A word and its class in the stylesheet.
pub(super) struct Badge {
    pub(super) label: &'static str,
    pub(super) class: &'static str,
}

impl Badge {
    /// The badge of a pull request; being a draft matters while it is open.
    pub(super) fn of(pull: &LocalPull) -> Self {
        let (label, class) = match pull.state {
            PullState::Open if pull.draft => ("Draft", "draft"),
            PullState::Open => ("Open", "open"),
            PullState::Merged => ("Merged", "merged"),
            PullState::Closed => ("Closed", "closed"),
        };
        Self { label, class }
    }
}
