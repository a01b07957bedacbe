//! The badge with the state of a pull request.

use journeyman_core::pull::{LocalPull, PullState};

/// A label and its class in the stylesheet.
pub(super) struct Badge {
    pub(super) label: &'static str,
    pub(super) class: &'static str,
}

impl Badge {
    /// Returns the badge of a pull request. An open draft has a badge that differs from other open pull requests.
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
