//! A claimed run, and its progress.

use std::sync::{Mutex, PoisonError};

use journeyman_core::engine::Claimed;
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;

use crate::claim::lease::{Reporter, Signals};

/// A claimed run with everything that its steps need to know about it.
pub(crate) struct Assignment {
    pub(crate) claimed: Claimed,
    pub(crate) project: Project,
    pub(crate) reporter: Reporter,
    pub(crate) signals: Signals,
    /// The time at which the run began.
    pub(crate) started_at: Timestamp,
    /// The progress of the run.
    stage: Mutex<Stage>,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent has not been prompted yet.
    Preparing,
    /// The agent has been prompted.
    Prompting,
    /// The agent has ended its turn, and this machine keeps its work until it is recorded.
    Answered,
    /// The turn is over and recorded.
    Publishing,
}

impl Assignment {
    pub(crate) fn new(claimed: Claimed, project: Project, reporter: Reporter, signals: Signals) -> Self {
        let started_at = reporter.now();
        Self { claimed, project, reporter, signals, started_at, stage: Mutex::new(Stage::Preparing) }
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reach(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}
