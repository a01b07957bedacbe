//! What a brain is given for one turn, and what it gives back.

use agent_client_protocol::v1::schema::{StopReason, Usage};
use tokio_util::sync::CancellationToken;

use crate::report::Reporter;
use crate::store::{SessionFile, SessionKey, SessionStore, StoreError};
use crate::workspace::Workspace;

/// The surroundings of a turn.
pub(crate) struct Turn<'a> {
    /// The session of the turn.
    pub(crate) key: &'a SessionKey,
    /// Where it works.
    pub(crate) workspace: &'a Workspace,
    /// Tells the client what happens.
    pub(crate) reporter: &'a Reporter,
    /// Where the session is kept.
    pub(crate) store: &'a SessionStore,
    /// Makes the agent ask the client for permission before it changes a file or runs a command.
    pub(crate) asks: bool,
    /// Set when the turn shall stop.
    pub(crate) cancel: &'a CancellationToken,
}

impl Turn<'_> {
    /// Stores what is known of the session now.
    pub(crate) async fn save(&self, file: &SessionFile) -> Result<(), TurnError> {
        self.store.save(self.key, file).await.map_err(TurnError::from)
    }
}

/// How a turn ended without an error.
#[derive(Debug)]
pub(crate) struct TurnEnd {
    /// Why it ended.
    pub(crate) stop: StopReason,
    /// The tokens that it took, if the provider told.
    pub(crate) usage: Option<Usage>,
}

/// Why a turn could not be ended properly. The texts are for the client and free of secrets.
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
