//! Connections of Socket Mode. One process of the installation holds the connection of a workspace, under a lock.

use std::collections::HashSet;
use std::time::Duration;

use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::ports::{SlackEnvelope, SlackError, SlackSocket, StoreError};
use journeyman_core::retry::backoff;
use journeyman_core::slack::{SlackMode, SlackSecret, SlackSecrets, SlackWorkspace};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout_at};
use uuid::Uuid;

use super::token;
use crate::{Error, RefusalKind, UseCases};

/// The interval between polls for workspaces without a connection.
const PERIOD: Duration = Duration::from_secs(2);

/// The length of the lock. If the process dies, another one opens a connection after this time.
const LOCK: Duration = Duration::from_secs(15);

/// The time between two renewals of the lock.
const RENEWAL: Duration = Duration::from_secs(4);

/// The time without any message after which a connection is closed. Slack sends pings more often.
const SILENCE: Duration = Duration::from_secs(90);

/// The reason why a connection ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Another process has the lock, or the workspace no longer uses Socket Mode.
    Released,
    /// The workspace was changed, so its tokens may be different.
    Changed,
}

/// The reason why a connection failed.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Slack(#[from] SlackError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("Slack sent nothing for {} s", SILENCE.as_secs())]
    Silent,
    #[error("{0}")]
    Incomplete(String),
}

impl UseCases {
    /// Holds the connections of Socket Mode until the future is dropped. Any number of processes may do so.
    pub async fn hold_slack_sockets(&self) {
        let mut tasks: JoinSet<SlackWorkspaceId> = JoinSet::new();
        let mut held = HashSet::new();
        loop {
            while let Some(ended) = tasks.try_join_next() {
                match ended {
                    Ok(id) => {
                        held.remove(&id);
                    }
                    // A task that panicked did not return its workspace.
                    Err(_) => held.clear(),
                }
            }
            match self.stored_workspaces().await {
                Ok(all) => {
                    for workspace in all.into_iter().filter(|one| one.settings.mode == SlackMode::Socket) {
                        if held.insert(workspace.id) {
                            let cases = self.clone();
                            tasks.spawn(async move {
                                cases.hold_slack_socket(workspace.id).await;
                                workspace.id
                            });
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "the workspaces of Slack could not be read"),
            }
            sleep(PERIOD).await;
        }
    }

    /// Holds the connection of a workspace, if no other process does, until it is released.
    async fn hold_slack_socket(&self, id: SlackWorkspaceId) {
        let holder = self.parts().ids.uuid(self.parts().engine.now());
        let mut failures = 0;
        loop {
            let error = match self.serve_slack_socket(id, holder, &mut failures).await {
                Ok(End::Changed) => continue,
                Ok(End::Released) => return,
                Err(error) => error,
            };
            failures += 1;
            tracing::warn!(workspace = %id, failures, %error, "the connection with Slack failed");
            let wait = backoff(failures, self.permille()).min(LOCK);
            sleep(wait).await;
        }
    }

    /// Opens a connection under the lock, and stores the events that arrive before it acknowledges them.
    async fn serve_slack_socket(&self, id: SlackWorkspaceId, holder: Uuid, failures: &mut u32) -> Result<End, Broken> {
        let Some(workspace) = self.locked_slack(id, holder).await? else { return Ok(End::Released) };
        let secrets = self.parts().store.slack_secrets(id).await?;
        let mut socket = self.slack_socket(&secrets).await?;
        let mut renewal = interval(RENEWAL);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                _ = renewal.tick() => {
                    let Some(current) = self.locked_slack(id, holder).await? else { return Ok(End::Released) };
                    let is_changed = current.version != workspace.version;
                    if is_changed && self.parts().store.slack_secrets(id).await? != secrets {
                        return Ok(End::Changed);
                    }
                }
                // Renewals must not extend the time.
                envelope = timeout_at(heard + SILENCE, socket.next()) => {
                    let envelope = envelope.map_err(|_| Broken::Silent)??;
                    heard = Instant::now();
                    match envelope {
                        SlackEnvelope::Hello => *failures = 0,
                        SlackEnvelope::Delivery(envelope, delivery) => {
                            self.keep_slack(&workspace, delivery).await?;
                            socket.acknowledge(&envelope).await?;
                        }
                        // The next connection is opened first. Slack sends again what was not acknowledged on this one.
                        SlackEnvelope::Disconnect => socket = self.slack_socket(&secrets).await?,
                        SlackEnvelope::Other => {}
                    }
                }
            }
        }
    }

    /// Takes or renews the lock of a workspace, and returns the workspace if it uses Socket Mode. `None` if another process
    /// has the lock.
    async fn locked_slack(&self, id: SlackWorkspaceId, holder: Uuid) -> Result<Option<SlackWorkspace>, StoreError> {
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let workspace = self.stored_workspace(id).await?;
        let name = format!("slack_socket/{id}");
        let Some(workspace) = workspace.filter(|known| known.settings.mode == SlackMode::Socket) else {
            store.unlock(name, holder).await?;
            return Ok(None);
        };
        Ok(store.lock(name, holder, now, LOCK).await?.then_some(workspace))
    }

    async fn slack_socket(&self, secrets: &SlackSecrets) -> Result<Box<dyn SlackSocket>, Broken> {
        let token = token(secrets, SlackSecret::AppToken).map_err(|error| Broken::Incomplete(error.to_string()))?;
        Ok(self.parts().slack.open(token).await?)
    }

    /// Opens a connection to test the token of the app.
    pub(super) async fn app_socket(&self, secrets: &SlackSecrets) -> Result<Box<dyn SlackSocket>, Error> {
        let opened = self.slack_socket(secrets).await;
        opened.map_err(|error| Error::refused(RefusalKind::SlackFailed, format!("appToken: {error}")))
    }
}
