//! One turn: a prompt, until the agent has answered it or was cancelled.
//!
//! Invariant: whatever happens to a turn, its phase ends with it.

use std::pin::{Pin, pin};

use agent_client_protocol as acp;
use agent_client_protocol::JsonRpcMessage;
use agent_client_protocol::v1::schema::{CancelNotification, ContentBlock, PromptRequest, TextContent};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::error::AcpError;
use super::inbound::Phase;
use super::translate::{Stop, TurnEnd, turn_end};

/// The phase of a turn, left when this is dropped: with the answer, an error, or the future of the caller.
struct Turn<'a>(&'a watch::Sender<Phase>);

impl<'a> Turn<'a> {
    fn begin(phase: &'a watch::Sender<Phase>) -> Self {
        phase.send_replace(Phase::Turn);
        Self(phase)
    }

    fn cancel(&self) {
        self.0.send_replace(Phase::Cancelling);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.send_replace(Phase::Idle);
    }
}

/// A turn that was cancelled, and of which the agent tells nothing else.
const CANCELLED: TurnEnd = TurnEnd { stop: Stop::Cancelled, usage: None, refused: None };

impl Connection {
    /// Sends `text` to the session and waits until the agent's turn has ended, as long as it takes: the caller has the
    /// limit. When this returns, all updates of the turn are in the channel given to [`super::connect`].
    ///
    /// When `cancel` fires, the agent is told so once and has `limits.cancel_grace` to end the turn; an error that it
    /// answers with then is taken for the end. A turn cancelled before it began is not sent at all.
    ///
    /// # Errors
    ///
    /// [`AcpError::Exited`] if the agent ends in mid-turn, [`AcpError::Timeout`] if it does not end a cancelled turn,
    /// [`AcpError::Protocol`], [`AcpError::Agent`] if it answers with an error.
    pub async fn prompt(&self, session: &str, text: &str, cancel: &CancellationToken) -> Result<TurnEnd, AcpError> {
        if cancel.is_cancelled() {
            return Ok(CANCELLED);
        }
        let prompt = vec![ContentBlock::Text(TextContent::new(text))];
        // Untyped, so that the answer is read by us: the crate fails on a stop reason that it does not know.
        let request = PromptRequest::new(session.to_owned(), prompt)
            .to_untyped_message()
            .map_err(|error| AcpError::unwritable(&error))?;
        let turn = Turn::begin(&self.phase);
        self.allowance.renew(self.limits.total_bytes);
        self.refusals.clear();
        let mut answer = pin!(self.link.send_request(request).block_task());
        let answered = tokio::select! {
            biased;
            answered = &mut answer => Some(answered),
            () = cancel.cancelled() => None,
        };
        match answered {
            Some(Ok(answered)) => {
                let end = turn_end(&answered);
                Ok(TurnEnd { refused: self.refusals.ended(&end.stop), ..end })
            }
            Some(Err(error)) => Err(self.failure(&error)),
            None => {
                turn.cancel();
                self.cancelled(session, answer).await
            }
        }
    }

    async fn cancelled(
        &self,
        session: &str,
        answer: Pin<&mut impl Future<Output = Result<Value, acp::Error>>>,
    ) -> Result<TurnEnd, AcpError> {
        let cancel = CancelNotification::new(session.to_owned());
        if let Err(error) = self.link.send_notification(cancel) {
            // The connection has ended; the answer says how.
            tracing::debug!(%error, "the cancellation could not be sent");
        }
        let limit = self.limits.cancel_grace;
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answered)) => Ok(turn_end(&answered)),
            Ok(Err(error)) => match self.failure(&error) {
                AcpError::Agent { code, message } => {
                    tracing::debug!(code, error = %message, "the agent ended a cancelled turn with an error");
                    Ok(CANCELLED)
                }
                error => Err(error),
            },
            Err(_) => Err(AcpError::timeout("session/cancel", limit)),
        }
    }
}
