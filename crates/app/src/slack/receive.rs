//! Stores events of Slack before they are acknowledged.

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::slack::{SlackCode, revoke_code};
use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::ports::{AdminError, HookRefusal, SignedRequest, SlackDelivery, StoreError};
use journeyman_core::slack::route::{hide_code, is_used};
use journeyman_core::slack::{
    MOST_BYTES, NewSlackEvent, SlackAuthor, SlackContent, SlackEvent, SlackSecret, SlackSettings, SlackWorkspace,
};
use journeyman_core::user::TokenHash;

use crate::UseCases;

/// The result of [`UseCases::receive_slack`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackReceived {
    /// Slack tests the URL, and expects this text.
    Challenge(String),
    /// The event was stored.
    Stored,
    /// The event was stored before.
    Known,
    /// The service does not use the event.
    NotUsed,
}

impl UseCases {
    /// Checks a request of Slack before its body has arrived: the workspace, its time, and the form of its signature.
    ///
    /// # Errors
    /// The request would be refused, whatever its body is.
    pub async fn check_slack_head(
        &self,
        id: SlackWorkspaceId,
        timestamp: &str,
        signature: &str,
    ) -> Result<(), HookRefusal> {
        let unavailable = |error: StoreError| HookRefusal::Unavailable(error.to_string());
        let (store, slack) = (&self.parts().store, &self.parts().slack);
        self.stored_workspace(id).await.map_err(unavailable)?.ok_or(HookRefusal::NotFound)?;
        let secrets = store.slack_secrets(id).await.map_err(unavailable)?;
        if !secrets.contains_key(&SlackSecret::SigningSecret) {
            return Err(HookRefusal::NoSecret);
        }
        let may_be = slack.may_be_signed(timestamp, signature, self.parts().engine.now());
        if may_be { Ok(()) } else { Err(HookRefusal::Signature) }
    }

    /// Stores an event that Slack sends in an HTTP request. It is carried out later, also if this process ends now.
    ///
    /// # Errors
    /// The workspace does not exist, the signature is wrong or too old, the body cannot be read, or the store failed.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "receive_slack", %id))]
    pub async fn receive_slack(
        &self,
        id: SlackWorkspaceId,
        request: &SignedRequest,
    ) -> Result<SlackReceived, HookRefusal> {
        debug_assert!(request.body.len() <= MOST_BYTES, "the interface limits the size");
        let unavailable = |error: StoreError| HookRefusal::Unavailable(error.to_string());
        let (store, slack) = (&self.parts().store, &self.parts().slack);
        let workspace = self.stored_workspace(id).await.map_err(unavailable)?.ok_or(HookRefusal::NotFound)?;
        let secrets = store.slack_secrets(id).await.map_err(unavailable)?;
        let secret = secrets.get(&SlackSecret::SigningSecret).ok_or(HookRefusal::NoSecret)?;
        if !slack.is_signed(secret, request, self.parts().engine.now()) {
            return Err(HookRefusal::Signature);
        }
        let delivery = slack.read(&request.body).map_err(HookRefusal::Unreadable)?;
        self.keep_slack(&workspace, delivery).await.map_err(unavailable)
    }

    /// Stores the event of a delivery, if the service uses it.
    pub(super) async fn keep_slack(
        &self,
        workspace: &SlackWorkspace,
        delivery: SlackDelivery,
    ) -> Result<SlackReceived, StoreError> {
        let mut event = match delivery {
            SlackDelivery::Challenge(text) => return Ok(SlackReceived::Challenge(text)),
            SlackDelivery::Other => return Ok(SlackReceived::NotUsed),
            SlackDelivery::Event(event) => *event,
        };
        let connected = self.slack_installation(workspace, &event).await?;
        let is_connected = connected.is_some();
        let workspace = connected.as_ref().unwrap_or(workspace);
        let SlackSettings { team, bot_user, enterprise, .. } = &workspace.settings;
        if let SlackContent::Sent(message) = &mut event.content {
            // The workspaces of an organization have the same people.
            let is_other = enterprise.is_none() && event.author_team.as_ref().is_some_and(|other| other != team);
            if !is_connected {
                tracing::warn!(team = event.team, "an event of Slack is for a workspace that is not connected");
                message.author = SlackAuthor::OtherInstallation;
            } else if is_other && message.author == SlackAuthor::Member {
                message.author = SlackAuthor::OtherWorkspace;
            }
        }
        if !is_connected && !is_mention(&event.content) {
            return Ok(SlackReceived::NotUsed);
        }
        if let SlackContent::Sent(message) | SlackContent::Edited(message) = &mut event.content {
            hide_code(message, bot_user);
            // The event may wait for others of its thread, but the code must not stay valid meanwhile.
            if let Some(code) = message.code.filter(|_| !message.is_direct) {
                self.revoke_slack_code(workspace.id, code).await?;
            }
        }
        if !is_used(&event, bot_user) {
            return Ok(SlackReceived::NotUsed);
        }
        let new = NewSlackEvent { workspace: workspace.id, event, at: self.parts().engine.now() };
        let is_new = self.parts().store.receive_slack(new).await?;
        self.0.slack_wake.notify_one();
        Ok(if is_new { SlackReceived::Stored } else { SlackReceived::Known })
    }

    /// Returns the connected workspace that an event is for. An app that is installed in several workspaces has one URL and
    /// one kind of connection for all of them, so the event may be for another workspace with the same secret of the app
    /// as the one to which it was sent.
    async fn slack_installation(
        &self,
        workspace: &SlackWorkspace,
        event: &SlackEvent,
    ) -> Result<Option<SlackWorkspace>, StoreError> {
        if workspace.settings.has(event) {
            return Ok(Some(workspace.clone()));
        }
        let store = &self.parts().store;
        let own = store.slack_secrets(workspace.id).await?;
        for other in self.stored_workspaces().await? {
            if other.id != workspace.id && other.settings.has(event) {
                let secrets = store.slack_secrets(other.id).await?;
                // Without the same secret, it is another app, which may not write for this one.
                let is_same = |name| own.get(&name).is_some_and(|secret| secrets.get(&name) == Some(secret));
                if is_same(SlackSecret::SigningSecret) || is_same(SlackSecret::AppToken) {
                    return Ok(Some(other));
                }
            }
        }
        Ok(None)
    }

    /// Revokes a code that was sent in a channel, if it is valid.
    async fn revoke_slack_code(&self, workspace: SlackWorkspaceId, code: TokenHash) -> Result<(), StoreError> {
        let now = self.parts().engine.now();
        let Some(owner) = self.parts().store.slack_code(code, now).await? else { return Ok(()) };
        let audit = AuditEntry {
            at: now,
            actor: "service".to_owned(),
            action: "slack_code.revoked".to_owned(),
            subject: owner.to_string(),
            address: None,
        };
        let decide = move |state: &_| Ok(revoke_code(state, code, audit.clone()));
        match self.administer(SlackCode(workspace, code), None, decide).await {
            // The decision refuses nothing.
            Ok(_) | Err(AdminError::Refused(_)) => Ok(()),
            Err(AdminError::Store(error)) => Err(error),
        }
    }
}

fn is_mention(content: &SlackContent) -> bool {
    matches!(content, SlackContent::Sent(message) if message.is_mention)
}
