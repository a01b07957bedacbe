//! The wire format of Slack workspaces, their events and their posts.

use std::collections::BTreeMap;

use journeyman_app::{DescribedSlack, SlackEdit};
use journeyman_core::inbox::InboxState;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{self, SlackInboxEvent, SlackPostContent, SlackSecret};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The way in which events of Slack arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SlackMode {
    /// Slack sends HTTP requests to `eventsUrl`.
    Events,
    /// The server opens a connection to Slack (Socket Mode), so it needs no public address.
    Socket,
}

impl From<SlackMode> for slack::SlackMode {
    fn from(mode: SlackMode) -> Self {
        match mode {
            SlackMode::Events => Self::Events,
            SlackMode::Socket => Self::Socket,
        }
    }
}

impl From<slack::SlackMode> for SlackMode {
    fn from(mode: slack::SlackMode) -> Self {
        match mode {
            slack::SlackMode::Events => Self::Events,
            slack::SlackMode::Socket => Self::Socket,
        }
    }
}

/// A connected Slack workspace, without its secrets.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackWorkspace {
    #[schema(example = "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    id: String,
    /// The name, for people.
    name: String,
    /// The ID of the workspace at Slack.
    team: String,
    /// The ID of the bot's user at Slack.
    bot_user: String,
    mode: SlackMode,
    /// The projects of channels, by the ID of the channel.
    channels: BTreeMap<String, String>,
    /// The users of people, by their ID at Slack.
    users: BTreeMap<String, String>,
    has_bot_token: bool,
    has_signing_secret: bool,
    has_app_token: bool,
    /// The request URL for the event subscriptions of the app.
    events_url: String,
    #[schema(format = DateTime)]
    created_at: String,
}

/// Shows a workspace; `url` is the request URL for its events.
#[must_use]
pub fn show(described: &DescribedSlack, url: String) -> SlackWorkspace {
    let DescribedSlack { workspace, secrets } = described;
    let settings = &workspace.settings;
    SlackWorkspace {
        id: workspace.id.to_string(),
        name: settings.name.clone(),
        team: settings.team.clone(),
        bot_user: settings.bot_user.clone(),
        mode: settings.mode.into(),
        channels: settings.channels.iter().map(|(id, project)| (id.clone(), project.to_string())).collect(),
        users: settings.users.iter().map(|(id, user)| (id.clone(), user.to_string())).collect(),
        has_bot_token: secrets.contains(&SlackSecret::BotToken),
        has_signing_secret: secrets.contains(&SlackSecret::SigningSecret),
        has_app_token: secrets.contains(&SlackSecret::AppToken),
        events_url: url,
        created_at: workspace.created_at.to_string(),
    }
}

/// The Slack workspaces.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackWorkspaceList {
    /// The workspaces, oldest first.
    pub workspaces: Vec<SlackWorkspace>,
}

/// A Slack workspace to connect, or the changes of one. What is not given stays.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeSlackWorkspace {
    /// The name, for people; by default, the name at Slack.
    #[schema(nullable = false, min_length = 1, max_length = 100)]
    name: Option<String>,
    /// The way in which events arrive; by default, `events`.
    #[schema(nullable = false)]
    mode: Option<SlackMode>,
    /// The projects of channels, by the ID of the channel; `null` disconnects a channel.
    #[serde(default)]
    channels: BTreeMap<String, Option<String>>,
    /// The IDs of the users of people, by their ID at Slack; `null` disconnects an account.
    #[serde(default)]
    users: BTreeMap<String, Option<String>>,
    /// The token of the bot, which begins with `xoxb-`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, write_only)]
    bot_token: Option<Option<String>>,
    /// The signing secret of the app, for `events`; `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, write_only)]
    signing_secret: Option<Option<String>>,
    /// The token of the app, which begins with `xapp-`, for `socket`; `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, write_only)]
    app_token: Option<Option<String>>,
}

/// Distinguishes null from a field that is not given.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl ChangeSlackWorkspace {
    /// Reads the changes.
    ///
    /// # Errors
    /// Returns the text of an error about the ID of a project or user.
    pub(crate) fn read(self) -> Result<SlackEdit, String> {
        fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
            field: &str,
            ids: BTreeMap<String, Option<String>>,
        ) -> Result<BTreeMap<String, Option<T>>, String> {
            let parse = |(key, id): (String, Option<String>)| {
                let id = id.map(|id| id.parse::<T>().map_err(|error| format!("{field}.{key}: {error}"))).transpose()?;
                Ok((key, id))
            };
            ids.into_iter().map(parse).collect()
        }
        let secrets = [
            (SlackSecret::BotToken, self.bot_token),
            (SlackSecret::SigningSecret, self.signing_secret),
            (SlackSecret::AppToken, self.app_token),
        ];
        let secrets = secrets.into_iter().filter_map(|(name, value)| Some((name, value?.map(SecretValue))));
        Ok(SlackEdit {
            name: self.name,
            mode: self.mode.map(Into::into),
            channels: parsed("channels", self.channels)?,
            users: parsed("users", self.users)?,
            secrets: secrets.collect(),
        })
    }
}

/// An event of Slack, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackEvent {
    /// The number, in the order of arrival.
    #[schema(example = "41")]
    pub(crate) id: String,
    #[schema(format = DateTime)]
    received_at: String,
    channel: String,
    /// The timestamp of the first message of the thread.
    thread: String,
    /// The timestamp of the message.
    ts: String,
    /// `received`, `done`, `ignored`, or `failed`.
    state: String,
    /// The outcome, such as `job_created` or `unknown_user`; `null` while it is received.
    #[schema(required)]
    outcome: Option<String>,
    /// The explanation, for people.
    #[schema(required)]
    detail: Option<String>,
    #[schema(required)]
    job_id: Option<String>,
    #[schema(required)]
    message_id: Option<String>,
}

impl From<SlackInboxEvent> for SlackEvent {
    fn from(event: SlackInboxEvent) -> Self {
        let name = |outcome| serde_json::to_value(outcome).ok()?.as_str().map(str::to_owned);
        Self {
            id: event.number.to_string(),
            received_at: event.received_at.to_string(),
            channel: event.thread.channel,
            thread: event.thread.thread,
            ts: event.ts,
            state: InboxState::name(event.state).to_owned(),
            outcome: event.outcome.and_then(name),
            detail: event.detail,
            job_id: event.job.map(|job| job.to_string()),
            message_id: event.message.map(|message| message.to_string()),
        }
    }
}

/// A code with which a user connects an account of Slack.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlackCode {
    /// The code, to send to the bot as `link CODE`.
    pub(crate) code: String,
    /// The time from which the code is refused.
    #[schema(format = DateTime)]
    pub(crate) expires_at: String,
}

/// A page of events of Slack.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackEventPage {
    /// The events, newest first.
    pub events: Vec<SlackEvent>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// A post to Slack.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackPost {
    /// The number, in the order of creation.
    #[schema(example = "17")]
    pub(crate) id: String,
    #[schema(format = DateTime)]
    created_at: String,
    channel: String,
    /// The timestamp of the first message of the thread.
    thread: String,
    /// `text`, `reaction`, or `status`.
    kind: String,
    /// `open`, `done`, or `failed`.
    state: String,
    /// The last error, with what to do.
    #[schema(required)]
    detail: Option<String>,
}

impl From<slack::SlackPost> for SlackPost {
    fn from(post: slack::SlackPost) -> Self {
        let kind = match &post.content {
            SlackPostContent::Text(_) => "text",
            SlackPostContent::Reaction { .. } => "reaction",
            SlackPostContent::Status { .. } => "status",
        };
        Self {
            id: post.number.to_string(),
            created_at: post.created_at.to_string(),
            channel: post.thread.channel,
            thread: post.thread.thread,
            kind: kind.to_owned(),
            state: post.state.name().to_owned(),
            detail: post.detail,
        }
    }
}

/// A page of posts to Slack.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlackPostPage {
    /// The posts, newest first.
    pub posts: Vec<SlackPost>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}
