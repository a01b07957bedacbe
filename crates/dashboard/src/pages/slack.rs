//! `/system/slack`: the Slack workspaces, with their channels and people. For administrators.

mod form;
mod workspace;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{
    SlackInboxEvent, SlackMode, SlackPost, SlackPostState, SlackSecret, SlackSecretChanges, SlackWorkspace,
};

use crate::failure::{Failure, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/system/slack", get(list).post(form::create))
        .route("/system/slack/new", get(form::new))
        .route("/system/slack/{workspace}", get(workspace::show))
        .route("/system/slack/{workspace}/edit", post(workspace::save))
        .route("/system/slack/{workspace}/channels", post(workspace::channel))
        .route("/system/slack/{workspace}/people", post(workspace::person))
        .route("/system/slack/{workspace}/check", post(workspace::check))
        .route("/system/slack/{workspace}/remove", post(workspace::remove))
}

/// The number of events and posts that a page looks at.
const LOOK: usize = 20;

#[derive(Template)]
#[template(path = "slack.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    rows: Vec<Row>,
}

/// A workspace, for templates.
struct Row {
    id: String,
    name: String,
    team: String,
    mode: &'static str,
    channels: usize,
    people: usize,
    /// The time of the newest event.
    last: Option<Moment>,
    /// The error of the newest post, if Slack has refused it.
    error: Option<PostError>,
}

impl Row {
    fn new(frame: &Frame, workspace: &SlackWorkspace, events: &[SlackInboxEvent], posts: &[SlackPost]) -> Self {
        let settings = &workspace.settings;
        Self {
            id: workspace.id.to_string(),
            name: visible::line(&settings.name).into_owned(),
            team: settings.team.clone(),
            mode: mode_name(settings.mode),
            channels: settings.channels.len(),
            people: settings.users.len(),
            last: events.first().map(|event| frame.moment(event.received_at)),
            error: posts.first().and_then(|post| PostError::of(frame, post)),
        }
    }
}

/// A post that Slack has refused, for templates.
struct PostError {
    /// The color and the text of the badge.
    badge: (&'static str, &'static str),
    at: Moment,
    channel: String,
    text: String,
}

impl PostError {
    fn of(frame: &Frame, post: &SlackPost) -> Option<Self> {
        let text = words::sentence(&visible::line(post.error()?));
        let is_final = post.state == SlackPostState::Failed;
        let badge = if is_final { ("danger", "failed") } else { ("warning", "sent again") };
        Some(Self { badge, at: frame.moment(post.created_at), channel: post.thread.channel.clone(), text })
    }
}

/// Returns the name of a mode for people.
const fn mode_name(mode: SlackMode) -> &'static str {
    match mode {
        SlackMode::Events => "HTTP",
        SlackMode::Socket => "Socket Mode",
    }
}

async fn list(frame: Frame) -> Response {
    let page = async {
        frame.needs_administrator()?;
        let mut rows = Vec::new();
        for described in frame.cases().slack_workspaces(&frame.caller()).await? {
            let id = described.workspace.id;
            let events = frame.cases().slack_events(&frame.caller(), id, None, 1).await?;
            let posts = frame.cases().slack_posts(&frame.caller(), id, None, 1).await?;
            rows.push(Row::new(&frame, &described.workspace, &events, &posts));
        }
        rendered(&ListPage { frame: &frame, rows })
    };
    frame.answer(page.await)
}

/// Reads the mode of a form or a link. Without one, it is Socket Mode, which needs no public address.
fn mode(fields: &Fields) -> Result<SlackMode, Failure> {
    match fields.given("mode").as_deref() {
        None | Some("socket") => Ok(SlackMode::Socket),
        Some("events") => Ok(SlackMode::Events),
        Some(_) => Err(Failure::NotFound("mode")),
    }
}

/// Reads the secrets that are given in a form. A field that is empty changes nothing.
fn secrets(fields: &Fields) -> SlackSecretChanges {
    let names = [
        (SlackSecret::BotToken, "bot-token"),
        (SlackSecret::SigningSecret, "signing-secret"),
        (SlackSecret::AppToken, "app-token"),
    ];
    let given = names.into_iter().filter_map(|(secret, name)| Some((secret, fields.given(name)?)));
    given.map(|(secret, value)| (secret, Some(SecretValue(value)))).collect()
}

/// Returns an error with the names that the fields have in the form.
fn in_form(text: &str) -> String {
    let names = [("botToken:", "Bot token:"), ("signingSecret:", "Signing secret:"), ("appToken:", "App token:")];
    names.into_iter().fold(text.to_owned(), |text, (field, name)| text.replace(field, name))
}
