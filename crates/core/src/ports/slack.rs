//! The interface of Slack.

use std::time::Duration;

use async_trait::async_trait;

use crate::secret::SecretValue;
use crate::slack::SlackEvent;
use crate::time::Timestamp;

/// A request of Slack as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRequest {
    /// The value of the header `X-Slack-Request-Timestamp`.
    pub timestamp: String,
    /// The value of the header `X-Slack-Signature`.
    pub signature: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The content of a request or an envelope of Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackDelivery {
    /// Slack tests the URL, and expects this text as the answer.
    Challenge(String),
    /// An event that the service may use.
    Event(Box<SlackEvent>),
    /// An event of another kind, which is acknowledged and not used.
    Other,
}

/// A message of a connection of Socket Mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackEnvelope {
    /// The connection is ready.
    Hello,
    /// An event, which Slack sends again unless the envelope with this ID is acknowledged.
    Delivery(String, SlackDelivery),
    /// Slack closes the connection soon; another one should be opened.
    Disconnect,
    /// Nothing to do.
    Other,
}

/// The identity of a bot token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackIdentity {
    /// The ID of the workspace.
    pub team: String,
    /// The ID of the Enterprise organization, if the app is installed for the whole organization.
    pub enterprise: Option<String>,
    /// The name of the workspace.
    pub name: String,
    /// The ID of the bot's user.
    pub bot_user: String,
}

/// A message to post, or the new text of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlackMessage<'a> {
    /// The ID of the channel.
    pub channel: &'a str,
    /// The timestamp of the first message of the thread.
    pub thread: &'a str,
    /// The text, in the notation of Slack.
    pub text: &'a str,
    /// The marker in the metadata of the message.
    pub marker: &'a str,
}

/// An error from Slack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// Slack accepts no request for this time.
    #[error("Slack accepts no request for {} s", .0.as_secs())]
    RateLimited(Duration),
    /// Slack has refused the request; another attempt cannot succeed.
    #[error("{0}")]
    Refused(String),
    /// Slack has refused the request because of the token, the scopes of the app, or the members or settings of the
    /// channel. Another attempt can succeed after an administrator has repaired this.
    #[error("{0}")]
    Repairable(String),
    /// Slack cannot be reached, or failed. It is not known whether the request had an effect.
    #[error("Slack cannot be reached: {0}")]
    Unavailable(String),
}

/// A connection of Socket Mode.
#[async_trait]
pub trait SlackSocket: Send {
    /// Returns the next message. If the future is dropped, no message is lost.
    ///
    /// # Errors
    /// The connection has ended.
    async fn next(&mut self) -> Result<SlackEnvelope, SlackError>;

    /// Acknowledges an envelope, so that Slack does not send it again.
    ///
    /// # Errors
    /// The connection has ended.
    async fn acknowledge(&mut self, envelope: &str) -> Result<(), SlackError>;
}

/// Reads requests of Slack, and sends requests to it.
#[async_trait]
pub trait Slack: Send + Sync {
    /// Returns whether a request with these headers can be signed, before its body has arrived: its time is about now, and
    /// the signature has the form of one.
    fn may_be_signed(&self, timestamp: &str, signature: &str, now: Timestamp) -> bool;

    /// Returns whether a request is signed with the secret and was sent at about this time.
    fn is_signed(&self, secret: &SecretValue, request: &SignedRequest, now: Timestamp) -> bool;

    /// Reads the body of a request.
    ///
    /// # Errors
    /// The body does not have the form of a request of Slack.
    fn read(&self, body: &[u8]) -> Result<SlackDelivery, String>;

    /// Returns the identity of a bot token.
    ///
    /// # Errors
    /// Slack refuses the token, or cannot be reached.
    async fn identity(&self, token: &SecretValue) -> Result<SlackIdentity, SlackError>;

    /// Posts a message, and returns its timestamp.
    ///
    /// # Errors
    /// Slack refuses the message, or cannot be reached.
    async fn post(&self, token: &SecretValue, message: SlackMessage<'_>) -> Result<String, SlackError>;

    /// Replaces the text of the message with the timestamp `ts`.
    ///
    /// # Errors
    /// Slack refuses the text, or cannot be reached.
    async fn update(&self, token: &SecretValue, ts: &str, message: SlackMessage<'_>) -> Result<(), SlackError>;

    /// Finds the message with a marker among the messages of a thread after `since`, and returns its timestamp.
    ///
    /// # Errors
    /// Slack refuses the request, cannot be reached, or has more messages than are read, so that it is not known whether
    /// the message is there.
    async fn find(
        &self,
        token: &SecretValue,
        channel: &str,
        thread: &str,
        marker: &str,
        since: Timestamp,
    ) -> Result<Option<String>, SlackError>;

    /// Adds a reaction to a message, if it is not there.
    ///
    /// # Errors
    /// Slack refuses the reaction, or cannot be reached.
    async fn react(&self, token: &SecretValue, channel: &str, ts: &str, name: &str) -> Result<(), SlackError>;

    /// Opens a connection of Socket Mode.
    ///
    /// # Errors
    /// Slack refuses the token of the app, or cannot be reached.
    async fn open(&self, token: &SecretValue) -> Result<Box<dyn SlackSocket>, SlackError>;
}
