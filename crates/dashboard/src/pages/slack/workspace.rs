//! The page of a Slack workspace: its channels and people, its settings, what arrived, and what could not be posted.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::SlackEdit;
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId};
use journeyman_core::slack::manifest::manifest;
use journeyman_core::slack::{SlackInboxEvent, SlackMode, SlackOutcome, SlackSecret, SlackSettings};

use super::{LOOK, PostError, Row, in_form, mode, secrets};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::findings::{self, Line};
use crate::toast::{self, SmallForm};
use crate::{Shared, visible, words};

#[derive(Template)]
#[template(path = "slack_workspace.html")]
struct WorkspacePage<'a> {
    frame: &'a Frame,
    row: Row,
    is_socket: bool,
    version: u64,
    events_url: String,
    manifest: String,
    has_signing_secret: bool,
    has_app_token: bool,
    channels: Vec<(String, String)>,
    projects: Vec<ProjectId>,
    /// The IDs at Slack and the names of the users.
    people: Vec<(String, String)>,
    /// The users that a person can be connected with.
    users: Vec<(String, String)>,
    events: Vec<Event>,
    /// The newest posts that Slack has refused.
    refused: Vec<PostError>,
    findings: Vec<Line>,
    /// The input of the form that was refused.
    typed: Option<&'a Fields>,
    error: Option<String>,
}

impl WorkspacePage<'_> {
    /// Returns the refused input of a field, or otherwise `stored`.
    fn value(&self, name: &str, stored: &str) -> String {
        self.typed.and_then(|typed| typed.given(name)).unwrap_or_else(|| stored.to_owned())
    }

    /// Returns whether the refused input of a field is this option.
    fn is_chosen(&self, name: &str, option: &str) -> bool {
        self.value(name, "") == option
    }

    /// Returns whether Socket Mode is selected: in the refused input, or otherwise in the settings.
    fn is_socket_chosen(&self) -> bool {
        self.value("mode", if self.is_socket { "socket" } else { "events" }) == "socket"
    }
}

/// An event, for templates.
struct Event {
    at: Moment,
    channel: String,
    badge: (&'static str, &'static str),
    detail: String,
    job: Option<String>,
}

/// Returns the badge of an event: its color, and what became of it.
const fn badge(outcome: Option<SlackOutcome>) -> (&'static str, &'static str) {
    match outcome {
        None => ("queued", "received"),
        Some(SlackOutcome::JobCreated) => ("ok", "job created"),
        Some(SlackOutcome::Message) => ("ok", "message sent"),
        Some(SlackOutcome::Cancelled) => ("ok", "job canceled"),
        Some(SlackOutcome::MessageWithdrawn) => ("ok", "message withdrawn"),
        Some(SlackOutcome::Answered) => ("ok", "answered"),
        Some(SlackOutcome::Linked) => ("ok", "account connected"),
        Some(SlackOutcome::CodeRefused) => ("warning", "code refused"),
        Some(SlackOutcome::UnknownUser) => ("warning", "unknown person"),
        Some(SlackOutcome::UnknownChannel) => ("warning", "channel without a project"),
        Some(SlackOutcome::NotPermitted) => ("warning", "not permitted"),
        Some(SlackOutcome::Refused) => ("warning", "refused"),
        Some(SlackOutcome::RateLimited) => ("warning", "too many messages"),
        Some(SlackOutcome::NotAddressed) => ("archived", "not for the bot"),
        Some(SlackOutcome::Duplicate) => ("archived", "known already"),
        Some(SlackOutcome::TooLate) => ("archived", "too late"),
        Some(SlackOutcome::GivenUp) => ("danger", "failed"),
        Some(SlackOutcome::Unknown) => ("archived", "other"),
    }
}

async fn event(shared: &Shared, frame: &Frame, event: &SlackInboxEvent) -> Result<Event, Failure> {
    let job = match event.job {
        Some(job) => shared.services.store.job(job).await?,
        None => None,
    };
    Ok(Event {
        at: frame.moment(event.received_at),
        channel: event.thread.channel.clone(),
        badge: badge(event.outcome),
        detail: event.detail.as_deref().map(|text| words::sentence(&visible::line(text))).unwrap_or_default(),
        job: job.map(|job| format!("/projects/{}/jobs/{}", job.project, job.id)),
    })
}

/// The heading of the findings of a test.
const TESTED: &str = "Test";

fn parsed(id: &str) -> Result<SlackWorkspaceId, Failure> {
    id.parse().map_err(|_| Failure::NotFound("Slack workspace"))
}

async fn page<'a>(shared: &Shared, frame: &'a Frame, id: SlackWorkspaceId) -> Result<WorkspacePage<'a>, Failure> {
    let (cases, caller, store) = (frame.cases(), frame.caller(), &shared.services.store);
    let described = cases.slack_workspace(&caller, id).await?;
    let found = cases.slack_events(&caller, id, None, LOOK).await?;
    let posts = cases.slack_posts(&caller, id, None, LOOK).await?;
    let settings = &described.workspace.settings;
    let users: Vec<(UserId, String)> =
        store.users().await?.into_iter().map(|user| (user.id, visible::line(&user.name).into_owned())).collect();
    let name_of = |id: &UserId| {
        let user = users.iter().find(|(known, _)| known == id);
        user.map_or_else(|| id.to_string(), |(_, name)| name.clone())
    };
    let mut events = Vec::new();
    for one in &found {
        events.push(event(shared, frame, one).await?);
    }
    let events_url = cases.slack_url(id);
    Ok(WorkspacePage {
        frame,
        row: Row::new(frame, &described.workspace, &found, &posts),
        is_socket: settings.mode == SlackMode::Socket,
        version: described.workspace.version,
        manifest: manifest(settings.mode, Some(&events_url)),
        events_url,
        has_signing_secret: described.secrets.contains(&SlackSecret::SigningSecret),
        has_app_token: described.secrets.contains(&SlackSecret::AppToken),
        channels: settings.channels.iter().map(|(channel, project)| (channel.clone(), project.to_string())).collect(),
        projects: store.projects().await?.into_iter().map(|project| project.id).collect(),
        people: settings.users.iter().map(|(account, user)| (account.clone(), name_of(user))).collect(),
        users: users.iter().map(|(id, name)| (id.to_string(), name.clone())).collect(),
        events,
        refused: posts.iter().filter_map(|post| PostError::of(frame, post)).collect(),
        findings: Vec::new(),
        typed: None,
        error: None,
    })
}

pub(super) async fn show(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let shown = async {
        frame.needs_administrator()?;
        rendered(&page(&shared, &frame, parsed(&id)?).await?)
    };
    frame.answer(shown.await)
}

pub(super) async fn check(State(shared): State<Shared>, frame: Frame, Path(id): Path<String>) -> Response {
    let checked = async {
        frame.needs_administrator()?;
        let id = parsed(&id)?;
        let findings = frame.cases().check_slack_workspace(&frame.caller(), id).await?;
        let findings: Vec<Line> = findings.iter().map(|finding| Line::new(&frame, finding)).collect();
        if frame.can_stream {
            return findings::in_place(TESTED, &findings);
        }
        rendered(&WorkspacePage { findings, ..page(&shared, &frame, id).await? })
    };
    frame.answer(checked.await)
}

/// Returns the settings before a channel or a person is disconnected; `None` if the form connects one.
async fn before(frame: &Frame, id: &str, fields: &Fields) -> Result<Option<SlackSettings>, Failure> {
    frame.needs_administrator()?;
    if !fields.is_set("remove") {
        return Ok(None);
    }
    Ok(Some(frame.cases().slack_workspace(&frame.caller(), parsed(id)?).await?.workspace.settings))
}

/// Stores a change, or shows the page again with the error. `undo` is the form that undoes the change.
async fn change(
    shared: &Shared,
    frame: &Frame,
    (id, fields): (&str, &Fields),
    edit: Result<SlackEdit, Failure>,
    undo: Option<SmallForm>,
) -> Page {
    frame.needs_administrator()?;
    let id = parsed(id)?;
    let text = match edit {
        Ok(edit) => {
            match frame.cases().change_slack_workspace(&frame.caller(), id, fields.precondition(), edit).await {
                Ok(_) => {
                    let path = format!("/system/slack/{id}");
                    return Ok(match undo {
                        Some(undo) => toast::undoable(frame, &path, "removed", &undo),
                        None => toast::confirmed(&path, "saved"),
                    });
                }
                Err(error) => in_form(&refusal(error)?),
            }
        }
        Err(Failure::Form(text)) => words::sentence(&text),
        Err(failure) => return Err(failure),
    };
    let page = page(shared, frame, id).await?;
    // The form that disconnects a channel or a person has the field of the one that connects it.
    let typed = Some(fields).filter(|fields| !fields.is_set("remove"));
    refused(&WorkspacePage { version: fields.version(page.version), typed, error: Some(text), ..page })
}

/// Reads what a channel or a person is connected with; `None` disconnects it.
fn target<T: std::str::FromStr>(fields: &Fields, name: &'static str) -> Result<Option<T>, Failure> {
    if fields.is_set("remove") {
        return Ok(None);
    }
    let chosen = fields.given(name).and_then(|id| id.parse().ok());
    chosen.map(Some).ok_or_else(|| Failure::Form(format!("choose a {name}")))
}

pub(super) async fn channel(
    State(shared): State<Shared>,
    frame: Frame,
    Path(id): Path<String>,
    fields: Fields,
) -> Response {
    let channel = fields.given("channel").unwrap_or_default();
    let edit = target::<ProjectId>(&fields, "project")
        .map(|project| SlackEdit { channels: [(channel.clone(), project)].into(), ..SlackEdit::default() });
    let page = async {
        let settings = before(&frame, &id, &fields).await?;
        let project = settings.and_then(|settings| settings.channels.get(&channel).cloned());
        let form = SmallForm::new(format!("/system/slack/{id}/channels")).with("channel", channel);
        let undo = project.map(|project| form.with("project", project.to_string()));
        change(&shared, &frame, (&id, &fields), edit, undo).await
    };
    frame.answer(page.await)
}

pub(super) async fn person(
    State(shared): State<Shared>,
    frame: Frame,
    Path(id): Path<String>,
    fields: Fields,
) -> Response {
    let account = fields.given("account").unwrap_or_default();
    let edit = target::<UserId>(&fields, "user")
        .map(|user| SlackEdit { users: [(account.clone(), user)].into(), ..SlackEdit::default() });
    let page = async {
        let settings = before(&frame, &id, &fields).await?;
        let user = settings.and_then(|settings| settings.users.get(&account).copied());
        let form = SmallForm::new(format!("/system/slack/{id}/people")).with("account", account);
        let undo = user.map(|user| form.with("user", user.to_string()));
        change(&shared, &frame, (&id, &fields), edit, undo).await
    };
    frame.answer(page.await)
}

pub(super) async fn save(
    State(shared): State<Shared>,
    frame: Frame,
    Path(id): Path<String>,
    fields: Fields,
) -> Response {
    let edit = mode(&fields).map(|mode| SlackEdit {
        name: fields.given("name"),
        mode: Some(mode),
        secrets: secrets(&fields),
        ..SlackEdit::default()
    });
    frame.answer(change(&shared, &frame, (&id, &fields), edit, None).await)
}

pub(super) async fn remove(frame: Frame, Path(id): Path<String>, fields: Fields) -> Response {
    let removed = async {
        frame.needs_administrator()?;
        frame.cases().remove_slack_workspace(&frame.caller(), parsed(&id)?, fields.precondition()).await?;
        Ok(Redirect::to("/system/slack?done=removed").into_response()) as Page
    };
    frame.answer(removed.await)
}
