//! The input of a brain for one turn, and its result.

use agent_client_protocol::v1::schema::{StopReason, Usage};
use tokio_util::sync::CancellationToken;

use crate::report::Reporter;
use crate::store::{SessionFile, SessionKey, SessionStore, StoreError};
use crate::workspace::Workspace;

/// The context of a turn.
pub(crate) struct Turn<'a> {
    /// The session of the turn.
    pub(crate) key: &'a SessionKey,
    /// The directory that the session works in.
    pub(crate) workspace: &'a Workspace,
    /// Sends updates to the client.
    pub(crate) reporter: &'a Reporter,
    /// The store that holds the session.
    pub(crate) store: &'a SessionStore,
    /// Makes the agent ask the client for permission before it changes a file or runs a command.
    pub(crate) asks: bool,
    /// Cancelled when the turn must stop.
    pub(crate) cancel: &'a CancellationToken,
}

impl Turn<'_> {
    /// Saves the current state of the session.
    pub(crate) async fn save(&self, file: &SessionFile) -> Result<(), TurnError> {
        self.store.save(self.key, file).await.map_err(TurnError::from)
    }
}

/// The result of a turn that ended without an error.
#[derive(Debug)]
pub(crate) struct TurnEnd {
    /// The reason for the end of the turn.
    pub(crate) stop: StopReason,
    /// The tokens that the turn used, if the provider reported them.
    pub(crate) usage: Option<Usage>,
}

/// An error that ended a turn. The texts are for the client and contain no secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    /// The model failed, or the script asked for a failure.
    #[error("{0}")]
    Failed(String),
    /// The model has no key.
    #[error("{0}")]
    KeyMissing(String),
    /// The session could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}
