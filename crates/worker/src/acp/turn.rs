//! A turn: sends a prompt, and waits until the agent has answered it or the turn was cancelled.
//!
//! Invariant: however a turn ends, its phase ends with it.

use std::pin::{Pin, pin};

use agent_client_protocol as acp;
use agent_client_protocol::JsonRpcMessage;
use agent_client_protocol::v1::schema::{CancelNotification, ContentBlock, ImageContent, PromptRequest, TextContent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::error::AcpError;
use super::inbound::Phase;
use super::translate::{Stop, TurnEnd, turn_end};

/// An image of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The media type, such as `image/png`.
    pub media_type: &'static str,
    /// The content.
    pub content: Bytes,
}

/// The phase of a turn. Dropping this value ends the phase: after the answer, after an error, or when the caller drops
/// its future.
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

/// The end of a cancelled turn about which the agent reports nothing else.
const CANCELLED: TurnEnd = TurnEnd { stop: Stop::Cancelled, usage: None, refused: None };

impl Connection {
    /// Sends a text to the session, with images if the agent accepts them, and waits until the agent's turn has ended, without a time limit: the caller sets
    /// one. When this method returns, all updates of the turn are in the channel that was given to [`super::connect`].
    ///
    /// When `cancel` fires, the client cancels the turn once, and the agent has `limits.cancel_grace` to end it; if the
    /// agent then answers with an error, that counts as the end. If `cancel` fires before the turn begins, the prompt
    /// is not sent.
    ///
    /// # Errors
    ///
    /// Returns [`AcpError::Exited`] if the agent ends during the turn, [`AcpError::Timeout`] if it does not end a
    /// cancelled turn in time, [`AcpError::Protocol`] or [`AcpError::TooMuch`] if it violates the protocol or sends too
    /// much, and [`AcpError::Agent`] if it answers with an error.
    pub async fn prompt(
        &self,
        session: &str,
        (text, images): (&str, &[Image]),
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, AcpError> {
        if cancel.is_cancelled() {
            return Ok(CANCELLED);
        }
        let mut prompt = vec![ContentBlock::Text(TextContent::new(text))];
        let accepted = images.iter().filter(|_| self.can.image);
        prompt.extend(
            accepted
                .map(|image| ContentBlock::Image(ImageContent::new(BASE64.encode(&image.content), image.media_type))),
        );
        // The request is untyped so that this module parses the answer: the crate fails on a stop reason that it does
        // not know.
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
            // The connection has ended. The answer to the prompt gives the reason.
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
