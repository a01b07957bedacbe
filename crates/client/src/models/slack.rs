//! Slack workspaces, their events, and the posts to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::values::{Change, Secret};

/// A connected Slack workspace, without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlackWorkspace {
    /// The ID.
    pub id: String,
    /// The name, for people.
    pub name: String,
    /// The ID of the workspace at Slack.
    pub team: String,
    /// The ID of the bot's user at Slack.
    pub bot_user: String,
    /// The way in which events arrive.
    pub mode: SlackMode,
    /// The projects of channels, by the ID of the channel.
    pub channels: BTreeMap<String, String>,
    /// The users of people, by their ID at Slack.
    pub users: BTreeMap<String, String>,
    /// `true` if the token of the bot is set.
    pub has_bot_token: bool,
    /// `true` if the signing secret is set.
    pub has_signing_secret: bool,
    /// `true` if the token of the app is set.
    pub has_app_token: bool,
    /// The request URL for the event subscriptions of the app.
    pub events_url: String,
    /// The time of creation.
    pub created_at: String,
}

open_enum! {
    /// The way in which events of Slack arrive.
    SlackMode {
        /// Slack sends requests to the server.
        Events = "events",
        /// The server opens a connection to Slack (Socket Mode).
        Socket = "socket",
    }
}

/// A Slack workspace to connect, or the changes of one. Fields that are not given stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeSlackWorkspace {
    /// The name, for people; by default, the name at Slack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The way in which events arrive; by default, `events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SlackMode>,
    /// The projects of channels, by the ID of the channel; `None` disconnects a channel.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, Option<String>>,
    /// The IDs of the users of people, by their ID at Slack; `None` disconnects an account.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<String, Option<String>>,
    /// The token of the bot, which begins with `xoxb-`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub bot_token: Change<Secret>,
    /// The signing secret of the app, for `events`; `Change::Reset` removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub signing_secret: Change<Secret>,
    /// The token of the app, which begins with `xapp-`, for `socket`; `Change::Reset` removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub app_token: Change<Secret>,
}

impl ChangeSlackWorkspace {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`.
    #[must_use]
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.name = Some(value.into());
        self
    }

    /// Sets `mode`.
    #[must_use]
    pub fn mode(mut self, value: SlackMode) -> Self {
        self.mode = Some(value);
        self
    }

    /// Sets `channels`.
    #[must_use]
    pub fn channels(mut self, value: BTreeMap<String, Option<String>>) -> Self {
        self.channels = value;
        self
    }

    /// Sets `users`.
    #[must_use]
    pub fn users(mut self, value: BTreeMap<String, Option<String>>) -> Self {
        self.users = value;
        self
    }

    /// Sets `bot_token`.
    #[must_use]
    pub fn bot_token(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.bot_token = value.into();
        self
    }

    /// Sets `signing_secret`.
    #[must_use]
    pub fn signing_secret(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.signing_secret = value.into();
        self
    }

    /// Sets `app_token`.
    #[must_use]
    pub fn app_token(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.app_token = value.into();
        self
    }
}

/// An event of Slack, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlackEvent {
    /// The number, in the order of arrival.
    pub id: String,
    /// The time of the arrival.
    pub received_at: String,
    /// The ID of the channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
    /// The timestamp of the message.
    pub ts: String,
    /// The state: `received`, `done`, `ignored`, or `failed`.
    pub state: String,
    /// The result, such as `job_created` or `unknown_user`; `None` while it is received.
    pub outcome: Option<String>,
    /// The explanation, for people.
    pub detail: Option<String>,
    /// The ID of the job.
    pub job_id: Option<String>,
    /// The ID of the message.
    pub message_id: Option<String>,
}

/// A post to Slack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlackPost {
    /// The number, in the order of creation.
    pub id: String,
    /// The time of creation.
    pub created_at: String,
    /// The ID of the channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
    /// The kind: `text`, `reaction`, or `status`.
    pub kind: String,
    /// The state: `open`, `done`, or `failed`.
    pub state: String,
    /// The last error, with what to do.
    pub detail: Option<String>,
}

/// A code with which a user connects an account of Slack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlackCode {
    /// The code, to send to the bot as `link CODE`.
    pub code: Secret,
    /// The time from which the code is refused.
    pub expires_at: String,
}
