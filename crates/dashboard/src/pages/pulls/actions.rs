//! Actions on a pull request: merge it, close it, comment on it, review it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Commented, Error, MessageRequest, PullComment};
use journeyman_core::message::DeliveryMode;
use journeyman_core::pull::{LinePosition, MergeMethod, Verdict, base_comparison};

use super::read::{Form, Refused};
use super::{Target, detail, files, live};
use crate::Shared;
use crate::diff::position_of;
use crate::failure::{Failure, Page, refusal};
use crate::fields::Fields;
use crate::in_project::segment;
use crate::pages::line_form::{appearance, key};

pub(super) async fn merge(target: Target, fields: Fields) -> Response {
    let page = async {
        let method = fields.given("method").as_deref().and_then(MergeMethod::parse).unwrap_or_default();
        target.cases().merge_pull(&target.caller(), &target.project.id, target.number, method).await?;
        Ok(Redirect::to(&target.page("?done=merged")).into_response())
    };
    target.answer(page.await)
}

pub(super) async fn close(target: Target) -> Response {
    let page = async {
        target.cases().close_pull(&target.caller(), &target.project.id, target.number).await?;
        Ok(Redirect::to(&target.page("?done=closed")).into_response())
    };
    target.answer(page.await)
}

pub(super) async fn comment(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let frame = target.at.frame.clone();
    let page = async {
        target.needs_write()?;
        let (body, once) = (fields.text("body"), fields.given("once"));
        let done = add(&target, PullComment::new(addressed(&body, fields.is_set("agent"))), once).await;
        answer(&shared, target, &fields, Form::Comment, body, done).await
    };
    frame.answer(page.await)
}

/// Returns the text of a comment, with a mention of the service if it is for the agent.
fn addressed(body: &str, is_for_agent: bool) -> String {
    let is_mentioned = body.to_lowercase().contains("@journeyman");
    if is_for_agent && !is_mentioned && !body.trim().is_empty() {
        format!("@journeyman {body}")
    } else {
        body.to_owned()
    }
}

/// Asks the agent to merge the base into the branch of the pull request.
pub(super) async fn update(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let page = async {
        target.needs_write()?;
        let detail = {
            let _permit = shared.may_run_git(target.viewer.user.id).await?;
            shared.services.pulls.pull(&target.project, target.number).await?
        };
        let job = target.cases().job_of_pull(&target.caller(), &target.project.id, &detail.pull).await?;
        let job = job.ok_or(Failure::NotFound("job"))?;
        let prompt = base_comparison::request(&detail.pull.base, &detail.conflicts);
        let once = fields.once(&format!("update {} {prompt}", target.number));
        let request = MessageRequest { prompt, delivery: DeliveryMode::Queue };
        target.cases().send_message(&target.caller(), &target.project.id, job.id, request, once).await?;
        Ok(Redirect::to(&target.page("?done=asked")).into_response())
    };
    target.answer(page.await)
}

/// Adds a comment on a line, at once or to the review that is not submitted yet.
pub(super) async fn line(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let frame = target.at.frame.clone();
    let page = async {
        target.needs_write()?;
        let key = key(&fields)?;
        let detail = {
            let _permit = shared.may_run_git(target.viewer.user.id).await?;
            shared.services.pulls.pull(&target.project, target.number).await?
        };
        let position: Option<LinePosition> = position_of(&detail.diff, key.clone());
        let body = fields.text("body");
        let done = match position {
            Some(position) => {
                let is_draft = fields.given("as").as_deref() != Some("comment");
                let new = PullComment { body: body.clone(), line: Some(position), is_draft };
                add(&target, new, fields.given("once")).await
            }
            None => Err(Error::invalid(
                "the line is no longer part of the changes; choose the line again, or add the text as a comment here",
            )),
        };
        answer(&shared, target, &fields, Form::Line(key), body, done).await
    };
    frame.answer(page.await)
}

/// Submits the review.
pub(super) async fn review(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let frame = target.at.frame.clone();
    let page = async {
        target.needs_write()?;
        let (body, once) = (fields.text("body"), fields.given("once"));
        let (caller, project) = (target.caller(), &target.project.id);
        let verdict = fields.given("verdict").as_deref().and_then(Verdict::parse).unwrap_or_default();
        let review = (body.clone(), verdict);
        let done = target.cases().review_pull(&caller, project, target.number, review, once).await;
        let done = done.map(|done| if done == Commented::Sent { "review_sent" } else { "reviewed" });
        answer(&shared, target, &fields, Form::Review(verdict), body, done).await
    };
    frame.answer(page.await)
}

/// Removes a comment from the review that is not submitted yet.
pub(super) async fn remove_draft(target: Target, number: CommentNumber, fields: Fields) -> Response {
    let page = async {
        let (caller, project) = (target.caller(), &target.project.id);
        target.cases().remove_draft(&caller, project, target.number, number.0).await?;
        let tab = if fields.text("at") == "files" { "/files" } else { "" };
        Ok(Redirect::to(&target.page(&format!("{tab}?done=draft_removed"))).into_response())
    };
    target.answer(page.await)
}

/// Resolves the thread of a comment on a line, or opens it again.
pub(super) async fn resolve(target: Target, number: CommentNumber, fields: Fields) -> Response {
    let page = async {
        let (caller, project) = (target.caller(), &target.project.id);
        let is_resolved = fields.text("resolved") != "no";
        target.cases().resolve_comments(&caller, project, target.number, number.0, is_resolved).await?;
        live::comments_changed(&target);
        let (tab, comment) = if fields.text("at") == "files" { ("/files", "r") } else { ("", "c") };
        let (done, anchor) = if is_resolved { ("resolved", "t") } else { ("reopened", comment) };
        Ok(Redirect::to(&target.page(&format!("{tab}?done={done}#{anchor}-{}", number.0))).into_response())
    };
    target.answer(page.await)
}

/// The number of a comment in the path of a request.
pub(super) struct CommentNumber(u64);

impl axum::extract::FromRequestParts<Shared> for CommentNumber {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, shared: &Shared) -> Result<Self, Response> {
        let number = segment(parts, shared, "comment").await.and_then(|number| number.parse().ok());
        match number {
            Some(number) => Ok(Self(number)),
            None => {
                let frame = crate::frame::Frame::from_request_parts(parts, shared).await?;
                Err(Failure::NotFound("comment").page(&frame))
            }
        }
    }
}

/// Adds a comment, and returns the name of the confirmation.
async fn add(target: &Target, new: PullComment, once: Option<String>) -> Result<&'static str, Error> {
    let (caller, project) = (target.caller(), &target.project.id);
    Ok(match target.cases().comment_on_pull(&caller, project, target.number, new, once).await? {
        Commented::Sent => "sent",
        Commented::Added => "commented",
        Commented::Drafted => "drafted",
    })
}

/// Redirects to the page with a confirmation, or shows the form again.
async fn answer(
    shared: &Shared,
    target: Target,
    fields: &Fields,
    form: Form,
    draft: String,
    done: Result<&'static str, Error>,
) -> Page {
    let (target, appearance) = (Arc::new(target), appearance(fields));
    let is_of_line = matches!(form, Form::Line(_));
    if done.is_ok() {
        live::comments_changed(&target);
    }
    match done {
        // After a comment on a line, the reader goes on with the changes.
        Ok(done) if is_of_line => {
            let query = appearance.query();
            Ok(Redirect::to(&target.page(&format!("/files?{query}done={done}#files"))).into_response())
        }
        Ok(done) => Ok(Redirect::to(&target.page(&format!("?done={done}"))).into_response()),
        Err(error) => {
            let refused = Refused { form, draft, error: refusal(error)? };
            if is_of_line {
                files::refused(shared, &target, appearance, refused).await
            } else {
                detail::page(shared, &target, Some(refused)).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::addressed;

    #[test]
    fn a_comment_for_the_agent_mentions_the_service() {
        for (body, is_for_agent, text) in [
            ("Go on", true, "@journeyman Go on"),
            ("Go on, @Journeyman", true, "Go on, @Journeyman"),
            ("Go on", false, "Go on"),
            (" ", true, " "),
        ] {
            assert_eq!(addressed(body, is_for_agent), text);
        }
    }
}
