//! Actions on a pull request: merge it, close it, comment on it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use journeyman_app::Commented;

use super::{Target, detail};
use crate::Shared;
use crate::failure::{Page, refusal};
use crate::fields::Fields;

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
    frame.answer(commented(&shared, target, fields.text("body"), fields.given("once")).await)
}

async fn commented(shared: &Shared, target: Target, body: String, once: Option<String>) -> Page {
    target.needs_write()?;
    let (caller, project) = (target.caller(), &target.project.id);
    match target.cases().comment_on_pull(&caller, project, target.number, body.clone(), once).await {
        Ok(done) => {
            let done = if done == Commented::Sent { "sent" } else { "commented" };
            Ok(Redirect::to(&target.page(&format!("?done={done}"))).into_response())
        }
        Err(error) => {
            let text = refusal(error)?;
            detail::refused(shared, target, body, text).await
        }
    }
}
