//! `/projects/{project}/webhooks`: the webhooks of a project, and the deliveries of each. For administrators, because a URL
//! may contain a credential.

mod form;
mod log;

use askama::Template;
use axum::Router;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use journeyman_core::webhook::{Disabled, MAX_WEBHOOKS, Webhook, WebhookFormat};
use serde::Deserialize;

use crate::failure::{Failure, rendered};
use crate::frame::Frame;
use crate::in_project::{InProject, segment};
use crate::moment::{Day, Moment};
use crate::parameter::Parameter;
use crate::{Shared, visible};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{project}/webhooks", get(list).post(form::create))
        .route("/projects/{project}/webhooks/new", get(form::new))
        .route("/projects/{project}/webhooks/{webhook}", get(log::show))
        .route("/projects/{project}/webhooks/{webhook}/edit", get(form::edit).post(form::save))
        .route("/projects/{project}/webhooks/{webhook}/enable", post(log::enable))
        .route("/projects/{project}/webhooks/{webhook}/disable", post(log::disable))
        .route("/projects/{project}/webhooks/{webhook}/rotate", post(form::rotate))
        .route("/projects/{project}/webhooks/{webhook}/test", post(log::test))
        .route("/projects/{project}/webhooks/{webhook}/replay", post(log::replay))
        .route("/projects/{project}/webhooks/{webhook}/redeliver/{delivery}", post(log::redeliver))
        .route("/projects/{project}/webhooks/{webhook}/remove", post(log::remove))
}

/// The number of webhooks on a page.
const ON_PAGE: usize = 50;

/// A webhook, for templates.
struct Row {
    path: String,
    url: String,
    description: String,
    format: &'static str,
    /// The names of the selected types of events; empty means all.
    kinds: Vec<String>,
    badge: (&'static str, &'static str),
    /// The reason why it receives no events.
    disabled: Option<&'static str>,
    failing_since: Option<Moment>,
    created: Moment,
    old_secret_until: Option<Day>,
    version: u64,
}

impl Row {
    fn new(at: &InProject, webhook: &Webhook) -> Self {
        let badge = match (webhook.disabled, webhook.failing_since) {
            (Some(Disabled::OnRequest), _) => ("archived", "disabled"),
            (Some(Disabled::Gone | Disabled::Failing), _) => ("danger", "disabled"),
            (None, Some(_)) => ("warning", "failing"),
            (None, None) => ("ok", "active"),
        };
        Self {
            path: at.path(&format!("/webhooks/{}", webhook.id)),
            url: visible::line(&webhook.settings.url).into_owned(),
            description: visible::line(&webhook.settings.description).into_owned(),
            format: format_name(webhook.settings.format),
            kinds: webhook.settings.kinds.clone(),
            badge,
            disabled: webhook.disabled.map(reason),
            failing_since: webhook.failing_since.filter(|_| webhook.disabled.is_none()).map(|since| at.moment(since)),
            created: at.moment(webhook.created_at),
            old_secret_until: webhook.old_secret_until.filter(|until| *until > at.now).map(|until| at.day(until)),
            version: webhook.version,
        }
    }
}

/// Returns the name of a format for people.
const fn format_name(format: WebhookFormat) -> &'static str {
    match format {
        WebhookFormat::Standard => "Signed JSON",
        WebhookFormat::Slack => "Slack",
        WebhookFormat::Teams => "Microsoft Teams",
        WebhookFormat::Discord => "Discord",
    }
}

/// Returns why a webhook receives no events.
const fn reason(disabled: Disabled) -> &'static str {
    match disabled {
        Disabled::OnRequest => "A person disabled it.",
        Disabled::Gone => "The endpoint answered 410: it is gone.",
        Disabled::Failing => "All requests failed for five days.",
    }
}

/// Returns the page of a webhook that was disabled because of its endpoint, and the reason, if the viewer is an
/// administrator.
pub(super) async fn disabled(at: &InProject) -> Result<Option<(String, &'static str)>, Failure> {
    if !at.viewer.is_administrator() {
        return Ok(None);
    }
    let found = at.cases().webhooks_after(&at.caller(), &at.project.id, None, MAX_WEBHOOKS).await?;
    let failed = found.into_iter().find_map(|webhook| match webhook.disabled {
        Some(why @ (Disabled::Gone | Disabled::Failing)) => Some((webhook.id, reason(why))),
        _ => None,
    });
    Ok(failed.map(|(id, why)| (at.path(&format!("/webhooks/{id}")), why)))
}

#[derive(Template)]
#[template(path = "webhooks.html")]
struct ListPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    rows: Vec<Row>,
    more: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ListQuery {
    after: Option<String>,
}

async fn list(at: InProject, Query(query): Query<ListQuery>) -> Response {
    let page = async {
        at.needs_administrator()?;
        let path = at.path("/webhooks");
        let after = Parameter::new("after", query.after.as_ref(), &path);
        let after = after.read("the ID of a webhook", |id| id.parse().ok())?;
        let mut found = at.cases().webhooks_after(&at.caller(), &at.project.id, after, ON_PAGE + 1).await?;
        let has_more = found.len() > ON_PAGE;
        found.truncate(ON_PAGE);
        let last = found.last().filter(|_| has_more).map(|webhook| webhook.id);
        let more = last.map(|last| at.path(&format!("/webhooks?after={last}")));
        let rows = found.iter().map(|webhook| Row::new(&at, webhook)).collect();
        rendered(&ListPage { at: &at, frame: &at, rows, more })
    };
    at.answer(page.await)
}

/// A webhook that the path names, and its project.
struct InWebhook {
    at: InProject,
    webhook: Webhook,
}

impl std::ops::Deref for InWebhook {
    type Target = InProject;

    fn deref(&self) -> &InProject {
        &self.at
    }
}

impl InWebhook {
    /// Returns the path of a page of the webhook. `path` begins with a slash, or is empty.
    fn path(&self, path: &str) -> String {
        self.at.path(&format!("/webhooks/{}{path}", self.webhook.id))
    }
}

impl FromRequestParts<Shared> for InWebhook {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Response> {
        let at = InProject::from_request_parts(parts, shared).await?;
        let found = async {
            at.needs_administrator()?;
            let id = segment(parts, shared, "webhook").await.and_then(|id| id.parse().ok());
            let id = id.ok_or(Failure::NotFound("webhook"))?;
            Ok::<_, Failure>(at.cases().webhook(&at.caller(), &at.project.id, id).await?)
        };
        match found.await {
            Ok(webhook) => Ok(Self { at, webhook }),
            Err(failure) => Err(failure.page(&at.frame)),
        }
    }
}
