//! Toasts: the result of the last action, in the lower left corner over the page, so that the content does not move.
//!
//! An action that succeeds redirects to a page with the name of its confirmation in the parameter `done`. If the action
//! can be undone, the parameter `undo` has the form for that, encrypted for the session, so that a link on another site
//! cannot offer a different form. A failure is shown as a toast if Turbo has sent the form: the page stays, with the
//! entered text. Without scripts, a failure is shown as a page. The result of a test, which changes nothing, is added to
//! the page in the same way.

mod on_page;

use std::borrow::Cow;

use askama::Template;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_core::user::new_token;
use serde::{Deserialize, Serialize};

use crate::failure::Page;
use crate::icons::{Icon, icon};
use crate::viewer::Viewer;
use crate::{Shared, words};

pub(crate) use self::on_page::undoable;

/// The media type of a response that changes the page.
const STREAM: &str = "text/vnd.turbo-stream.html";

/// The parameters of a page that make its toast.
const PARAMETERS: [&str; 3] = ["done", "count", "undo"];

/// A toast of a page.
#[derive(Debug, Clone)]
pub(crate) struct Toast {
    /// The ID of the element. It differs in each response, so that an update of the page does not turn one toast into
    /// another.
    pub(crate) id: String,
    pub(crate) is_failure: bool,
    pub(crate) text: Cow<'static, str>,
    /// A text from another system, such as the response of an endpoint; empty if there is none.
    pub(crate) detail: String,
    /// The label of a button, and the form that it sends.
    pub(crate) button: Option<(&'static str, SmallForm)>,
}

/// A form that has no fields to fill in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SmallForm {
    /// The path to which the form is sent.
    pub(crate) path: String,
    /// The names and values of the fields.
    pub(crate) fields: Vec<(String, String)>,
}

impl SmallForm {
    /// Creates a form without fields.
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), fields: Vec::new() }
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }
}

impl Toast {
    /// Returns the toast that the query of a page asks for.
    pub(crate) fn of(shared: &Shared, viewer: &Viewer, query: Option<&str>) -> Option<Self> {
        let value = |name: &str| {
            let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let text = confirmation(value("done")?, value("count").and_then(|count| count.parse().ok()))?;
        let opened = value("undo").and_then(|sealed| shared.services.seal.open(&context(viewer), sealed));
        let undo = opened.and_then(|form| serde_json::from_str(&form).ok());
        let button = undo.map(|form| ("Undo", form));
        Some(Self { id: new_id(shared), is_failure: false, text, detail: String::new(), button })
    }

    /// Creates a toast about a failure. `again` sends the form again.
    pub(crate) fn failure(shared: &Shared, text: String, detail: String, again: SmallForm) -> Self {
        let button = Some(("Try again", again));
        Self { id: new_id(shared), is_failure: true, text: text.into(), detail, button }
    }

    /// Creates a toast about a success.
    pub(crate) fn success(shared: &Shared, text: String, detail: String) -> Self {
        Self { id: new_id(shared), is_failure: false, text: text.into(), detail, button: None }
    }
}

/// Returns a response that changes the open page, for a form that Turbo has sent.
pub(crate) fn streamed(change: &impl Template) -> Page {
    Ok(([(CONTENT_TYPE, format!("{STREAM}; charset=utf-8"))], change.render()?).into_response())
}

/// Returns a part of the ID of an element.
fn new_id(shared: &Shared) -> String {
    new_token(&*shared.services.ids).0.chars().take(16).collect()
}

/// Redirects to a page of this site that shows a confirmation.
pub(crate) fn confirmed(path: &str, done: &str) -> Response {
    let sign = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{sign}done={done}")).into_response()
}

/// Returns the purpose and the owner of an encrypted form: the session.
fn context(viewer: &Viewer) -> String {
    let owner: String = viewer.session.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("dashboard/undo/{owner}")
}

/// Returns a path and its query without the parameters that make a toast.
pub(crate) fn without(here: &str) -> String {
    let (path, query) = here.split_once('?').unwrap_or((here, ""));
    let is_kept = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        !pair.is_empty() && !PARAMETERS.contains(&name)
    };
    let rest: Vec<&str> = query.split('&').filter(is_kept).collect();
    if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) }
}

#[derive(Template)]
#[template(path = "_toast_stream.html")]
struct Failed<'a> {
    heading: &'a str,
    text: &'a str,
    can_repeat: bool,
    warning: Icon,
    cross: Icon,
}

/// Returns true if Turbo has sent the form of a request, and so can show a toast.
pub(crate) fn is_possible(method: &Method, headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    *method == Method::POST && accepted.is_some_and(|accepted| accepted.contains(STREAM))
}

/// Returns the response to an action that failed: a toast, which the open page adds. It offers to send the form again if
/// that may succeed.
pub(crate) fn failed(status: StatusCode, heading: &str, text: &str) -> Response {
    let can_repeat = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let toast = Failed { heading, text, can_repeat, warning: icon("warning"), cross: icon("cross") };
    match toast.render() {
        Ok(html) => (status, [(CONTENT_TYPE, format!("{STREAM}; charset=utf-8"))], html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a toast could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "The page could not be rendered.").into_response()
        }
    }
}

/// Returns the text of a confirmation by its name. `count` is the number of objects of an action.
fn confirmation(name: &str, count: Option<usize>) -> Option<Cow<'static, str>> {
    if name == "replayed" {
        return Some(format!("{} will be delivered again.", words::counted(count?, "event")).into());
    }
    let known = [
        ("saved", "Saved."),
        ("created", "Created."),
        ("revoked", "The key is revoked and no longer accepted."),
        ("deleted", "The project is deleted."),
        ("removed", "Removed."),
        ("connected", "Your account is connected. You can also sign in with the provider now."),
        ("disconnected", "Your account is disconnected from the provider. All your other sessions have ended."),
        ("unlinked", "The user is disconnected from the provider. Their sessions have ended."),
        ("app", "The GitHub App is created. Install it now: it has access to no repository until then."),
        ("password", "The password is changed. All your other sessions have ended."),
        ("archived", "The jobs are archived."),
        ("archived_active", "The jobs are archived. Active ones were canceled."),
        ("unarchived", "The jobs are no longer archived."),
        ("job_archived", "The job is archived."),
        ("job_archived_active", "The job is canceled and archived."),
        ("job_unarchived", "The job is no longer archived."),
        ("ended", "The session has ended."),
        ("passkey_added", "Your passkey is added."),
        ("passkey_removed", "Your passkey is removed. Delete it on your device too."),
        ("passkey_renamed", "Your passkey has another name."),
        ("second_factor_removed", "Your second factor is removed."),
        ("user_second_factor_removed", "The second factor of the user is removed."),
        ("disabled", "The user is disabled. Their sessions have ended and their keys are revoked."),
        ("enabled", "The user may sign in again."),
        ("webhook_disabled", "The webhook is disabled."),
        ("webhook_enabled", "The webhook is enabled."),
        ("redelivered", "The event will be delivered again."),
        ("merged", "Merged."),
        ("closed", "Closed."),
        ("sent", "Sent to the agent."),
        ("asked", "The agent is asked to merge the branches. Its work appears here."),
        ("commented", "The comment is added."),
        ("comments_sent", "The comments are sent to the agent."),
        ("drafted", "The comment is added to your review. Submit the review when it is complete."),
        ("draft_removed", "The comment is removed."),
        ("resolved", "The comments are resolved."),
        ("reopened", "The comments are open again."),
        ("reviewed", "The review is submitted."),
        ("review_sent", "The review is submitted, and sent to the agent."),
    ];
    known.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_without_a_toast_keeps_the_other_parameters() {
        for (here, rest) in [
            ("/jobs", "/jobs"),
            ("/jobs?done=archived", "/jobs"),
            ("/jobs?q=a&done=archived&undo=00&count=3&author=ci", "/jobs?q=a&author=ci"),
            ("/jobs?undone=x&done", "/jobs?undone=x"),
        ] {
            assert_eq!(without(here), rest);
        }
    }

    #[test]
    fn only_a_form_that_turbo_has_sent_gets_a_toast() {
        let turbo = "text/vnd.turbo-stream.html, text/html, application/xhtml+xml";
        for (method, accept, is_toast) in
            [(Method::POST, turbo, true), (Method::GET, turbo, false), (Method::POST, "text/html", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(is_possible(&method, &headers), is_toast, "{method} {accept}");
        }
        assert!(!is_possible(&Method::POST, &HeaderMap::new()));
    }

    #[test]
    fn a_count_is_part_of_the_text() {
        assert_eq!(confirmation("replayed", Some(1)).as_deref(), Some("1 event will be delivered again."));
        assert_eq!(confirmation("replayed", None), None);
        assert_eq!(confirmation("nonsense", Some(1)), None);
    }
}
