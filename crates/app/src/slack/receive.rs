//! Stores events of Slack before they are acknowledged.

use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::ports::{HookRefusal, SignedRequest, SlackDelivery, StoreError};
use journeyman_core::slack::route::is_used;
use journeyman_core::slack::{MOST_BYTES, NewSlackEvent, SlackEvent, SlackSecret, SlackWorkspace};

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
        let workspace = store.slack_workspace(id).await.map_err(unavailable)?.ok_or(HookRefusal::NotFound)?;
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
        let event = match delivery {
            SlackDelivery::Challenge(text) => return Ok(SlackReceived::Challenge(text)),
            SlackDelivery::Other => return Ok(SlackReceived::NotUsed),
            SlackDelivery::Event(event) => *event,
        };
        if !is_of(workspace, &event) {
            return Ok(SlackReceived::NotUsed);
        }
        let new = NewSlackEvent { workspace: workspace.id, event, at: self.parts().engine.now() };
        let is_new = self.parts().store.receive_slack(new).await?;
        self.0.slack_wake.notify_one();
        Ok(if is_new { SlackReceived::Stored } else { SlackReceived::Known })
    }
}

fn is_of(workspace: &SlackWorkspace, event: &SlackEvent) -> bool {
    event.team == workspace.settings.team && is_used(event, &workspace.settings.bot_user)
}
