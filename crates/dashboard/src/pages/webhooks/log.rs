//! The page of a webhook: its state, its deliveries, and what can be done with both.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_core::ids::JobId;
use journeyman_core::ports::DeliveryFilter;
use journeyman_core::version::Precondition;
use journeyman_core::webhook::{AttemptResult, Delivery, DeliveryState, Response as Answer};
use serde::Deserialize;

use super::{InWebhook, Row};
use crate::failure::{Failure, Page, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::parameter::Parameter;
use crate::toast::{self, SmallForm, Toast};
use crate::{visible, words};

/// The number of deliveries on a page.
const ON_PAGE: usize = 50;

/// The choices of the state filter: the value in URLs, the label, and the state.
const STATES: [(&str, &str, Option<DeliveryState>); 4] = [
    ("", "All", None),
    ("pending", "Pending", Some(DeliveryState::Pending)),
    ("delivered", "Delivered", Some(DeliveryState::Delivered)),
    ("failed", "Failed", Some(DeliveryState::Failed)),
];

/// The choices of the time since which events are delivered again: the number of hours, and the label.
const SINCE: [(u64, &str); 4] =
    [(1, "the last hour"), (24, "the last day"), (168, "the last 7 days"), (720, "the last 30 days")];

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct LogQuery {
    state: Option<String>,
    before: Option<String>,
}

impl LogQuery {
    /// Returns the selected state, and the number of the last delivery of the previous page. `path` is the path of the
    /// page.
    ///
    /// # Errors
    /// A value is not allowed.
    fn read(&self, path: &str) -> Result<(Option<DeliveryState>, Option<u64>), Failure> {
        let known = STATES.into_iter().filter(|(value, ..)| !value.is_empty()).map(|(value, _, state)| (value, state));
        let state = Parameter::new("state", self.state.as_ref(), path).one_of(known)?.flatten();
        let before = Parameter::new("before", self.before.as_ref(), path);
        Ok((state, before.read("the number of a delivery", |text| text.parse().ok())?))
    }
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct LogPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    hook: Row,
    since: [(u64, &'static str); 4],
    rows: Vec<DeliveryRow>,
    states: Vec<(String, &'static str, bool)>,
    is_filtered: bool,
    older: Option<String>,
    newest: Option<String>,
}

/// The result of an attempt, for templates.
struct Attempt {
    at: Moment,
    took: String,
    is_success: bool,
    /// The status, or the reason why there was none.
    text: String,
    /// The beginning of the body.
    body: String,
}

impl Attempt {
    fn new(frame: &Frame, result: &AttemptResult) -> Self {
        let (text, body) = match &result.response {
            Answer::Status(status, body) => (format!("Status {status}"), visible::lines(body).into_owned()),
            Answer::Failed(why) => (visible::line(why).into_owned(), String::new()),
        };
        let is_success = result.response.is_success();
        Self { at: frame.moment(result.at), took: words::duration(result.duration), is_success, text, body }
    }
}

struct DeliveryRow {
    number: u64,
    kind: String,
    job: (String, String),
    badge: (&'static str, &'static str),
    created: Moment,
    attempts: String,
    next: Option<Moment>,
    last: Option<Attempt>,
}

impl DeliveryRow {
    fn new(at: &InProject, delivery: &Delivery, title: Option<&String>) -> Self {
        let badge = match delivery.state {
            DeliveryState::Pending => ("pending", "pending"),
            DeliveryState::Delivered => ("ok", "delivered"),
            DeliveryState::Failed => ("danger", "failed"),
        };
        let title = title.cloned().unwrap_or_else(|| delivery.job.to_string());
        Self {
            number: delivery.number,
            kind: visible::line(&delivery.kind).into_owned(),
            job: (at.path(&format!("/jobs/{}", delivery.job)), title),
            badge,
            created: at.moment(delivery.created_at),
            attempts: words::counted(usize::try_from(delivery.attempts).unwrap_or(usize::MAX), "attempt"),
            next: delivery.due_at.filter(|_| delivery.attempts > 0).map(|due| at.moment(due)),
            last: delivery.last.as_ref().map(|last| Attempt::new(at, last)),
        }
    }
}

async fn titles(at: &InProject, deliveries: &[Delivery]) -> Result<BTreeMap<JobId, String>, Failure> {
    let mut titles = BTreeMap::new();
    for delivery in deliveries {
        if let std::collections::btree_map::Entry::Vacant(entry) = titles.entry(delivery.job)
            && let Some(job) = at.shared.services.store.job(delivery.job).await?
        {
            entry.insert(visible::line(&job.title).into_owned());
        }
    }
    Ok(titles)
}

/// The maximum number of characters of a response in a toast.
const MAX_DETAIL: usize = 200;

/// Returns the toast about the result of a test.
fn result_of_test(at: &InWebhook, result: &AttemptResult) -> Toast {
    let Attempt { took, is_success, text, body, .. } = Attempt::new(at, result);
    let (text, body) = (words::capitalized(&text), body.chars().take(MAX_DETAIL).collect());
    if is_success {
        return Toast::success(&at.shared, format!("The endpoint accepted the test. {text}, after {took}."), body);
    }
    let again = SmallForm::new(at.path("/test"));
    Toast::failure(&at.shared, format!("The test failed. {text}, after {took}."), body, again)
}

async fn page(at: &InWebhook, query: &LogQuery, tested: Option<Toast>) -> Page {
    let (state, before) = query.read(&at.path(""))?;
    let filter = DeliveryFilter { webhook: at.webhook.id, state, before, limit: ON_PAGE + 1 };
    let mut found = at.cases().deliveries(&at.caller(), &at.project.id, filter).await?;
    let has_more = found.len() > ON_PAGE;
    found.truncate(ON_PAGE);
    let titles = titles(at, &found).await?;
    let mut frame = at.at.frame.clone();
    frame.done = tested.or(frame.done);
    let href = |state: Option<DeliveryState>, before: Option<u64>| {
        let state = state.map(|state| format!("state={}", state.name()));
        let before = before.map(|number| format!("before={number}"));
        let query: Vec<String> = state.into_iter().chain(before).collect();
        if query.is_empty() { at.path("") } else { at.path(&format!("?{}", query.join("&"))) }
    };
    rendered(&LogPage {
        at,
        frame: &frame,
        hook: Row::new(at, &at.webhook),
        since: SINCE,
        older: found.last().filter(|_| has_more).map(|last| href(state, Some(last.number))),
        rows: found.iter().map(|one| DeliveryRow::new(at, one, titles.get(&one.job))).collect(),
        states: STATES.map(|(_, label, one)| (href(one, None), label, one == state)).into(),
        is_filtered: state.is_some() || before.is_some(),
        newest: before.map(|_| href(state, None)),
    })
}

pub(super) async fn show(at: InWebhook, Query(query): Query<LogQuery>) -> Response {
    at.answer(page(&at, &query, None).await)
}

pub(super) async fn test(at: InWebhook) -> Response {
    let page = async {
        let result = at.cases().test_webhook(&at.caller(), &at.project.id, at.webhook.id).await?;
        let toast = result_of_test(&at, &result);
        if at.can_stream { toast.added(&at) } else { page(&at, &LogQuery::default(), Some(toast)).await }
    };
    at.answer(page.await)
}

pub(super) async fn enable(at: InWebhook) -> Response {
    set_enabled(&at, true).await
}

pub(super) async fn disable(at: InWebhook) -> Response {
    set_enabled(&at, false).await
}

async fn set_enabled(at: &InWebhook, enabled: bool) -> Response {
    let page = async {
        let (caller, none) = (at.caller(), Precondition::None);
        let changed =
            at.cases().change_webhook(&caller, &at.project.id, at.webhook.id, none, Clone::clone, Some(enabled));
        changed.await?;
        let (done, undo) = if enabled { ("webhook_enabled", "/disable") } else { ("webhook_disabled", "/enable") };
        Ok(toast::undoable(at, &at.path(""), done, &SmallForm::new(at.path(undo))))
    };
    at.answer(page.await)
}

pub(super) async fn redeliver(at: InWebhook, Path(names): Path<BTreeMap<String, String>>) -> Response {
    let page = async {
        let number = names.get("delivery").and_then(|number| number.parse().ok());
        let number = number.ok_or(Failure::NotFound("delivery"))?;
        at.cases().redeliver(&at.caller(), &at.project.id, at.webhook.id, number).await?;
        Ok(Redirect::to(&at.path("?done=redelivered")).into_response())
    };
    at.answer(page.await)
}

pub(super) async fn replay(at: InWebhook, fields: Fields) -> Response {
    let page = async {
        let hours = fields.text("hours");
        let hours = SINCE.into_iter().find(|(value, _)| value.to_string() == hours).map(|(value, _)| value);
        let hours = hours.ok_or_else(|| Failure::Form("choose one of the times".to_owned()))?;
        let since = at.now - Duration::from_secs(hours * 3600);
        let count = at.cases().replay_webhook(&at.caller(), &at.project.id, at.webhook.id, since).await?;
        Ok(toast::confirmed(&at.path(""), &format!("replayed&count={count}")))
    };
    at.answer(page.await)
}

pub(super) async fn remove(at: InWebhook, fields: Fields) -> Response {
    let page = async {
        let (caller, precondition) = (at.caller(), fields.precondition());
        at.cases().remove_webhook(&caller, &at.project.id, at.webhook.id, precondition).await?;
        Ok(Redirect::to(&at.at.path("/webhooks?done=removed")).into_response())
    };
    at.answer(page.await)
}
