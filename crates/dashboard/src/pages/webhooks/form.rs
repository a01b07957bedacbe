//! The form of a webhook, to add and to edit one, and the page with its secret.

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Answered, CreatedWebhook};
use journeyman_core::feed::FeedKind;
use journeyman_core::version::Precondition;
use journeyman_core::webhook::{WebhookFormat, WebhookSettings};

use super::{InWebhook, format_name};
use crate::failure::{Failure, Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::pages::secret::NewSecret;
use crate::visible;

#[derive(Template)]
#[template(path = "webhook_form.html")]
struct FormPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    /// The ID and the version of the stored webhook; `None` in the form of a new one.
    current: Option<(String, u64)>,
    settings: WebhookSettings,
    error: Option<String>,
}

impl FormPage<'_> {
    fn formats(&self) -> [(&'static str, &'static str, bool); 4] {
        WebhookFormat::ALL.map(|format| (format.name(), format_name(format), format == self.settings.format))
    }

    /// The name, the description, and `true` if the type is selected.
    fn kinds(&self) -> Vec<(&'static str, &'static str, bool)> {
        let is_selected = |kind: &FeedKind| self.settings.selects(kind.name());
        FeedKind::ALL.iter().map(|kind| (kind.name(), kind.meaning(), is_selected(kind))).collect()
    }
}

/// Reads the settings from a form. All types of events are stored as no selection, so that new types are delivered too.
fn settings(fields: &Fields) -> Result<WebhookSettings, Failure> {
    let name = fields.text("format");
    let format = WebhookFormat::ALL.into_iter().find(|format| format.name() == name);
    let format = format.ok_or_else(|| Failure::Form(format!("there is no format {name:?}")))?;
    let kinds = fields.all("event");
    let kinds = if kinds.len() == FeedKind::ALL.len() { Vec::new() } else { kinds };
    let url = fields.given("url").unwrap_or_default();
    Ok(WebhookSettings { url, kinds, format, description: fields.given("description").unwrap_or_default() })
}

/// Fails if no type of event is selected, which would otherwise select all.
fn needs_events(fields: &Fields) -> Result<(), &'static str> {
    if fields.all("event").is_empty() { Err("Select at least one type of event.") } else { Ok(()) }
}

pub(super) async fn new(at: InProject) -> Response {
    let page = async {
        at.needs_administrator()?;
        let settings = WebhookSettings {
            url: String::new(),
            kinds: Vec::new(),
            format: WebhookFormat::Standard,
            description: String::new(),
        };
        rendered(&FormPage { at: &at, frame: &at, current: None, settings, error: None })
    };
    at.answer(page.await)
}

pub(super) async fn create(at: InProject, fields: Fields) -> Response {
    at.answer(create_page(&at, &fields).await)
}

async fn create_page(at: &InProject, fields: &Fields) -> Page {
    at.needs_administrator()?;
    let settings = settings(fields)?;
    let again = |error| {
        let settings = WebhookSettings { url: visible::line(&settings.url).into_owned(), ..settings.clone() };
        refused(&FormPage { at, frame: at, current: None, settings, error: Some(error) })
    };
    if let Err(text) = needs_events(fields) {
        return again(text.to_owned());
    }
    let once = fields.once(&format!("webhook {settings:?}"));
    match at.cases().create_webhook(&at.caller(), &at.project.id, settings.clone(), once, |_| String::new()).await {
        Ok(Answered::New(created)) => created_page(at, created, false),
        Ok(Answered::Replayed(_)) => Err(Failure::Form("the webhook has already been created".to_owned())),
        Err(error) => again(refusal(error)?),
    }
}

/// The maximum length of the URL in the heading of the page with the secret, in characters.
const URL_CHARS: usize = 100;

/// Redirects to the page with the new secret of a webhook.
fn created_page(at: &InProject, CreatedWebhook { webhook, secret }: CreatedWebhook, is_rotation: bool) -> Page {
    let url: String = visible::line(&webhook.settings.url).chars().take(URL_CHARS).collect();
    let text = match webhook.settings.format {
        WebhookFormat::Standard => "Your service verifies with it that a request comes from here.",
        WebhookFormat::Slack | WebhookFormat::Teams | WebhookFormat::Discord => {
            "Chats do not check it; you need it only if you change the format later."
        }
    };
    let old = webhook.old_secret_until.filter(|until| *until > at.now);
    let new = NewSecret {
        heading: if is_rotation { format!("The new secret of {url}") } else { format!("The secret of {url}") },
        back: (at.path(&format!("/webhooks/{}", webhook.id)), "Webhook".to_owned()),
        request: "Copy the secret now".to_owned(),
        text: text.to_owned(),
        times: old
            .map(|until| ("Requests are also signed with the old secret until".to_owned(), until))
            .into_iter()
            .collect(),
        values: vec![("whsec".to_owned(), secret.reveal())],
        example: None,
    };
    new.show(at)
}

pub(super) async fn edit(at: InWebhook) -> Response {
    let current = Some((at.webhook.id.to_string(), at.webhook.version));
    let settings = at.webhook.settings.clone();
    let page = FormPage { at: &at, frame: &at, current, settings, error: None };
    at.answer(rendered(&page))
}

pub(super) async fn save(at: InWebhook, fields: Fields) -> Response {
    at.answer(save_page(&at, &fields).await)
}

async fn save_page(at: &InWebhook, fields: &Fields) -> Page {
    let settings = settings(fields)?;
    let again = |error| {
        let current = Some((at.webhook.id.to_string(), fields.version(at.webhook.version)));
        refused(&FormPage { at, frame: at, current, settings: settings.clone(), error: Some(error) })
    };
    if let Err(text) = needs_events(fields) {
        return again(text.to_owned());
    }
    let (new, precondition) = (settings.clone(), fields.precondition());
    let edit = move |_: &WebhookSettings| new.clone();
    let changed =
        at.cases().change_webhook(&at.caller(), &at.project.id, at.webhook.id, precondition, edit, None).await;
    match changed {
        Ok(_) => Ok(Redirect::to(&at.path("?done=saved")).into_response()),
        Err(error) => again(refusal(error)?),
    }
}

pub(super) async fn rotate(at: InWebhook, fields: Fields) -> Response {
    let page = async {
        let hours = fields.given("keep").unwrap_or_else(|| "0".to_owned());
        let not_hours = |_| Failure::Form(format!("{hours:?} is not a number of hours"));
        let overlap = Duration::from_secs(hours.parse::<u64>().map_err(not_hours)?.saturating_mul(3600));
        let (caller, id) = (at.caller(), at.webhook.id);
        let rotated = at
            .cases()
            .rotate_webhook(&caller, &at.project.id, id, overlap, Precondition::None, None, |_| String::new())
            .await?;
        match rotated {
            Answered::New(rotated) => created_page(&at, rotated, true),
            Answered::Replayed(_) => Err(Failure::Form("the secret has already been rotated".to_owned())),
        }
    };
    at.answer(page.await)
}
