//! Actions on a pull request: merge it, close it, comment on it, review it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::{Commented, Error, PullComment};
use journeyman_core::pull::{DiffSide, LinePlace};

use super::Target;
use super::detail::{self, Form, Refused};
use crate::Shared;
use crate::diff::{DiffView, LineKey, place_of};
use crate::failure::{Failure, Page, refusal};
use crate::fields::Fields;
use crate::in_project::segment;

pub(super) async fn merge(target: Target) -> Response {
    let page = async {
        target.cases().merge_pull(&target.caller(), &target.project.id, target.number).await?;
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
        let done = add(&target, PullComment::new(body.clone()), once).await;
        answer(&shared, target, &fields, Form::Comment, body, done).await
    };
    frame.answer(page.await)
}

/// Adds a comment on a line, at once or to the review that is not submitted yet.
pub(super) async fn line(State(shared): State<Shared>, target: Target, fields: Fields) -> Response {
    let frame = target.at.frame.clone();
    let page = async {
        target.needs_write()?;
        let key = key(&fields)?;
        let detail = shared.services.pulls.pull(&target.project, target.number).await?;
        let place: Option<LinePlace> = place_of(&detail.diff, key.clone());
        let body = fields.text("body");
        let done = match place {
            Some(place) => {
                let is_draft = fields.given("as").as_deref() != Some("comment");
                let new = PullComment { body: body.clone(), line: Some(place), is_draft };
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
        let done = target.cases().review_pull(&caller, project, target.number, body.clone(), once).await;
        let done = done.map(|done| if done == Commented::Sent { "review_sent" } else { "reviewed" });
        answer(&shared, target, &fields, Form::Review, body, done).await
    };
    frame.answer(page.await)
}

/// Removes a comment from the review that is not submitted yet.
pub(super) async fn remove_draft(target: Target, place: Place) -> Response {
    let page = async {
        let (caller, project) = (target.caller(), &target.project.id);
        target.cases().remove_draft(&caller, project, target.number, place.0).await?;
        Ok(Redirect::to(&target.page("?done=draft_removed")).into_response())
    };
    target.answer(page.await)
}

/// The number of a comment in the path of a request.
pub(super) struct Place(u64);

impl axum::extract::FromRequestParts<Shared> for Place {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, shared: &Shared) -> Result<Self, Response> {
        let place = segment(parts, shared, "place").await.and_then(|place| place.parse().ok());
        match place {
            Some(place) => Ok(Self(place)),
            None => {
                let frame = crate::frame::Frame::from_request_parts(parts, shared).await?;
                Err(Failure::NotFound("comment").page(&frame))
            }
        }
    }
}

fn key(fields: &Fields) -> Result<LineKey, Failure> {
    let side = fields.given("side").as_deref().and_then(DiffSide::parse);
    let line = fields.given("line").and_then(|line| line.parse().ok());
    // A path may begin or end with spaces.
    let path = fields.text("path");
    match (side, line) {
        (Some(side), Some(line)) if !path.is_empty() => Ok(LineKey { path, side, line }),
        _ => Err(Failure::Form("the form names no line; choose the line again".to_owned())),
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
    let view = DiffView::parse(&fields.text("view"));
    match done {
        Ok(done) => {
            let view = if view == DiffView::Split { "view=split&" } else { "" };
            // After a comment on a line, the reader goes on with the changes.
            let place = if matches!(form, Form::Line(_)) { "#files" } else { "" };
            Ok(Redirect::to(&target.page(&format!("?{view}done={done}{place}"))).into_response())
        }
        Err(error) => detail::refused(shared, target, view, Refused { form, draft, error: refusal(error)? }).await,
    }
}
