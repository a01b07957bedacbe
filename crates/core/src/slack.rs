//! Slack: workspaces whose channels are connected with projects, and the messages that arrive and are posted there.
//!
//! An event of Slack is stored before it is acknowledged. A process then claims it, in the order of its thread, and
//! decides what it asks for ([`route`]). A message that mentions the bot creates a job; replies in the thread of a job
//! are its next messages. Everything that the service writes to Slack is a stored post ([`SlackPost`]), which is carried
//! out until Slack has accepted it.

pub mod check;
pub mod manifest;
mod post;
pub mod route;
pub mod status;
pub mod text;
mod thread;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, MessageId, ProjectId, SlackWorkspaceId, UserId};
use crate::inbox::InboxState;
use crate::secret::SecretValue;
use crate::time::Timestamp;
use crate::user::TokenHash;

pub use self::thread::{SlackThread, SlackThreadId};
pub use post::{NewSlackPost, SlackPost, SlackPostContent, SlackPostState, SlackPosted};

/// The largest body of a request from Slack, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// The largest difference between the time of a signed request and the time of its arrival.
pub const SIGNATURE_WINDOW: Duration = Duration::from_mins(5);

/// The time for which a claimed event or post is hidden from other processes, also if its process has died.
pub const SLACK_LEASE: Duration = Duration::from_secs(60);

/// The time limit for an event or a post. It is shorter than the lease.
pub const SLACK_LIMIT: Duration = Duration::from_secs(50);

/// The number of failed attempts after which an event or a post fails. They take about a day.
pub const MAX_ATTEMPTS: u32 = 300;

/// The time for which events and posts are kept.
pub const SLACK_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// The time after an attempt at a post before its channel gets the next one. Slack accepts about one message per second in
/// a channel.
pub const CHANNEL_PAUSE: Duration = Duration::from_secs(1);

/// The minimum interval between status checks of a message.
pub const STATUS_PERIOD: Duration = Duration::from_secs(2);

/// The longest time for which Slack can make the service wait with `Retry-After`.
pub const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The lifetime of a code with which a person connects a Slack account.
pub const CODE_LIFETIME: Duration = Duration::from_mins(10);

/// The way in which events arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackMode {
    /// Slack sends HTTP requests to the service.
    Events,
    /// The service opens a connection to Slack (Socket Mode).
    Socket,
}

/// The settings of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlackSettings {
    /// The name, for people.
    pub name: String,
    /// The ID of the workspace at Slack, such as `T012AB3CD`.
    pub team: String,
    /// The ID of the bot's user at Slack.
    pub bot_user: String,
    /// The ID of the Enterprise organization, if the app is installed for the whole organization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<String>,
    /// The way in which events arrive.
    pub mode: SlackMode,
    /// The projects of channels, by the ID of the channel.
    #[serde(default)]
    pub channels: BTreeMap<String, ProjectId>,
    /// The users of people, by their ID at Slack.
    #[serde(default)]
    pub users: BTreeMap<String, UserId>,
}

/// A connected workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackWorkspace {
    /// The ID.
    pub id: SlackWorkspaceId,
    /// The settings.
    pub settings: SlackSettings,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The number of the current version, starting at 1.
    pub version: u64,
}

/// A secret of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlackSecret {
    /// The token of the bot (`xoxb-`).
    BotToken,
    /// The secret with which Slack signs requests.
    SigningSecret,
    /// The token of the app (`xapp-`), which opens connections of Socket Mode.
    AppToken,
}

impl SlackSecret {
    /// All secrets.
    pub const ALL: [Self; 3] = [Self::BotToken, Self::SigningSecret, Self::AppToken];

    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BotToken => "bot_token",
            Self::SigningSecret => "signing_secret",
            Self::AppToken => "app_token",
        }
    }

    /// Returns the name in the HTTP interface.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::BotToken => "botToken",
            Self::SigningSecret => "signingSecret",
            Self::AppToken => "appToken",
        }
    }
}

/// The secrets of a workspace.
pub type SlackSecrets = BTreeMap<SlackSecret, SecretValue>;

/// Changes of the secrets of a workspace: a new value, or `None` to remove it.
pub type SlackSecretChanges = BTreeMap<SlackSecret, Option<SecretValue>>;

impl SlackSettings {
    /// Returns whether an event is for this installation of the app. In a channel that is shared with another workspace,
    /// and in the other workspaces of an organization, the event may have occurred in a workspace that is not this one.
    #[must_use]
    pub fn has(&self, event: &SlackEvent) -> bool {
        let is_it = |one: &SlackInstallation| match &one.enterprise {
            Some(enterprise) if one.is_org_wide => {
                self.enterprise.as_ref() == Some(enterprise) || self.team == *enterprise
            }
            _ => one.team.as_ref() == Some(&self.team),
        };
        event.team == self.team || event.installations.iter().any(is_it)
    }
}

/// An installation of the app that gets an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackInstallation {
    /// The ID of the workspace; `None` for some events of an installation for a whole organization.
    pub team: Option<String>,
    /// The ID of the Enterprise organization.
    pub enterprise: Option<String>,
    /// `true` if the app is installed for the whole organization.
    pub is_org_wide: bool,
}

/// The kind of the author of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackAuthor {
    /// A person of the workspace, or of its organization.
    #[default]
    Member,
    /// A person of another workspace, in a channel that is shared with it.
    OtherWorkspace,
    /// A bot or a workflow.
    Bot,
    /// A person, in an event for an installation of the app that is not connected with the service.
    OtherInstallation,
    /// A kind that a newer version has stored and this version does not know.
    #[serde(other)]
    Unknown,
}

impl SlackAuthor {
    fn is_member(&self) -> bool {
        *self == Self::Member
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A message of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlackText {
    /// The ID of the author at Slack.
    pub user: String,
    /// The text, as Slack sends it.
    pub text: String,
    /// `true` if the event says that the message mentions the bot.
    pub is_mention: bool,
    /// `true` if the message was sent to the bot directly.
    pub is_direct: bool,
    /// The hash of the code for connecting an account that the message had; [`route::hide_code`] has removed the code from
    /// the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<TokenHash>,
    /// The kind of the author.
    #[serde(default, skip_serializing_if = "SlackAuthor::is_member")]
    pub author: SlackAuthor,
    /// The number of files of the message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files: u32,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackContent {
    /// A person has sent a message.
    Sent(SlackText),
    /// A person has edited a message. The text is the new one.
    Edited(SlackText),
    /// A person has deleted a message.
    Deleted,
}

/// An event of Slack that the service may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackEvent {
    /// The ID of the event, which repetitions have too.
    pub event_id: String,
    /// The ID of the workspace at Slack in which the event occurred.
    pub team: String,
    /// The installations of the app that get the event, as far as the event names them.
    pub installations: Vec<SlackInstallation>,
    /// The ID of the workspace of the author, if the event names it.
    pub author_team: Option<String>,
    /// The ID of the channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
    /// The timestamp of the message.
    pub ts: String,
    /// The content.
    pub content: SlackContent,
}

/// An event to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSlackEvent {
    /// The workspace.
    pub workspace: SlackWorkspaceId,
    /// The event.
    pub event: SlackEvent,
    /// The time of the arrival.
    pub at: Timestamp,
}

/// The outcome of an event, as a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackOutcome {
    /// A job was created.
    JobCreated,
    /// The message was sent to the job of the thread.
    Message,
    /// The job of the thread was canceled.
    Cancelled,
    /// A queued message was withdrawn, because it was deleted in Slack.
    MessageWithdrawn,
    /// A question was answered: for help, or for the status.
    Answered,
    /// The account was connected with a user.
    Linked,
    /// The code is wrong or has expired, or was sent in a channel.
    CodeRefused,
    /// The account is not connected with a user.
    UnknownUser,
    /// The channel is not connected with a project.
    UnknownChannel,
    /// The user may not do this.
    NotPermitted,
    /// The request is not valid, or the job does not accept it.
    Refused,
    /// The limit of messages is used up.
    RateLimited,
    /// The message does not address the service.
    NotAddressed,
    /// The message was handled before.
    Duplicate,
    /// The message was edited or deleted after the job had received it.
    TooLate,
    /// Slack or the store failed in all attempts.
    GivenUp,
    /// An outcome that a newer version has stored and this version does not know.
    #[serde(other)]
    Unknown,
}

/// An event in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackInboxEvent {
    /// The number, in the order of arrival.
    pub number: u64,
    /// The thread.
    pub thread: SlackThreadId,
    /// The ID of the event at Slack.
    pub event_id: String,
    /// The timestamp of the message.
    pub ts: String,
    /// The content.
    pub content: SlackContent,
    /// The time of the arrival.
    pub received_at: Timestamp,
    /// The state. An event is never waiting.
    pub state: InboxState,
    /// The outcome; `None` while it is received.
    pub outcome: Option<SlackOutcome>,
    /// The explanation of the outcome, for people.
    pub detail: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// The message that the event became.
    pub message: Option<MessageId>,
    /// The number of attempts: the fencing token of a claim.
    pub attempts: u32,
}

/// The next step for a claimed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackNext {
    /// The event is final.
    Ends(InboxState, SlackOutcome, Option<String>),
    /// The event is claimed again at this time.
    Retries(Timestamp),
}

/// The decision about a claimed event, which is stored in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackDecision {
    /// The next step.
    pub next: SlackNext,
    /// The job and the message, if there are any.
    pub job: Option<(JobId, Option<MessageId>)>,
    /// The thread that becomes that of a job. A thread that has a job keeps it.
    pub thread: Option<SlackThread>,
    /// The posts. Those whose purpose is known in their thread are left out.
    pub posts: Vec<NewSlackPost>,
    /// The time of the decision.
    pub at: Timestamp,
}
