//! Actions on a pull request: merge it, close it, comment on it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Caller, Idempotency, MessageRequest};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::PullPagesError;
use journeyman_core::pull::NewComment;

use super::opener::job_of;
use super::{Target, detail};
use crate::Shared;
use crate::failure::{Page, refusal};
use crate::fields::Fields;

/// The mention that makes a comment a message to the job, if the comment begins with it.
const MENTION: &str = "@journeyman";

/// The maximum length of a comment, in characters.
const MAX_CHARS: usize = 60_000;

pub(super) async fn merge(State(shared): State<Shared>, target: Target) -> Response {
    let page = async {
        target.needs_write()?;
        shared.services.pulls.merge(&target.project, target.number, &target.viewer.user.name).await?;
        note(&shared, &target, "pull.merged").await;
        Ok(Redirect::to(&target.page("?done=merged")).into_response())
    };
    target.answer(page.await)
}

pub(super) async fn close(State(shared): State<Shared>, target: Target) -> Response {
    let page = async {
        target.needs_write()?;
        shared.services.pulls.close(&target.project, target.number).await?;
        note(&shared, &target, "pull.closed").await;
        Ok(Redirect::to(&target.page("?done=closed")).into_response())
    };
    target.answer(page.await)
}

async fn note(shared: &Shared, target: &Target, action: &str) {
    let subject = format!("{}#{}", target.project.id, target.number);
    // The action has already succeeded, so the missing entry must not look like a failure of the action.
    if let Err(error) = shared.services.store.note(target.viewer.audit(target.now, action, subject)).await {
        tracing::error!(%error, action, "an entry of the audit log could not be written");
    }
}

pub(super) async fn comment(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let frame = target.at.frame.clone();
    frame.answer(commented(&shared, target, fields.text("body"), fields.given("once")).await)
}

async fn commented(shared: &Shared, target: Target, body: String, once: Option<String>) -> Page {
    target.needs_write()?;
    let pulls = shared.services.pulls.pulls(&target.project).await?;
    let pull = pulls.into_iter().find(|pull| pull.number == target.number).ok_or(PullPagesError::NotFound)?;
    if body.trim().is_empty() || body.contains('\0') || body.chars().count() > MAX_CHARS {
        let text = format!("A comment has 1 to {MAX_CHARS} characters.");
        return detail::refused(shared, target, body, text).await;
    }
    let mut message = None;
    if let Some(prompt) = prompt(&body) {
        let Some(job) = job_of(shared, &target, &pull).await? else {
            let text =
                "No job of this project opened this pull request, so the comment cannot be sent to a job. Remove \
                 @journeyman from its beginning to add it as an ordinary comment."
                    .to_owned();
            return detail::refused(shared, target, body, text).await;
        };
        let caller = Caller { origin: Origin::PullRequest, ..target.caller() };
        let request = MessageRequest { prompt: prompt.to_owned(), delivery: DeliveryMode::Queue };
        let once = once.map(|key| {
            let fingerprint = Fingerprint::of("comment", format!("{} {prompt}", job.id).as_bytes());
            Idempotency { key, fingerprint }
        });
        let sent = target.cases().send_message(&caller, &target.project.id, job.id, request, once).await;
        if let Err(error) = sent {
            let text = refusal(error)?;
            return detail::refused(shared, target, body, text).await;
        }
        // The newest message with this text is the one that was just accepted.
        let messages = shared.services.store.messages(job.id).await?;
        message = messages.iter().rev().find(|message| message.prompt == prompt).map(|message| message.id);
    }
    let done = if message.is_some() { "sent" } else { "commented" };
    let back = || Redirect::to(&target.page(&format!("?done={done}"))).into_response();
    // A form that was submitted twice sends one message, so it adds one comment.
    let comments = shared.services.store.comments(pull.repository.clone(), target.number).await?;
    if message.is_some() && comments.iter().any(|known| known.comment.message == message) {
        return Ok(back());
    }
    let new = NewComment { author: target.viewer.user.name.clone(), body, at: target.now, message };
    shared.services.store.comment(pull.repository, target.number, new).await?;
    Ok(back())
}

/// Returns the message to the job in a comment that begins with the mention.
fn prompt(body: &str) -> Option<&str> {
    let rest = body.trim().strip_prefix(MENTION)?;
    // `@journeymanship` is another name.
    let is_word = rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '-' && next != '_');
    let rest = rest.trim_start_matches([':', ',']).trim();
    (is_word && !rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_that_begins_with_the_mention_is_a_message() {
        for (body, expected) in [
            ("@journeyman add a test", Some("add a test")),
            (" @journeyman: add a test\nplease ", Some("add a test\nplease")),
            ("@journeyman", None),
            ("@journeyman-bot do it", None),
            ("@journeymanship", None),
            ("ask @journeyman to do it", None),
        ] {
            assert_eq!(prompt(body), expected, "{body:?}");
        }
    }
}
