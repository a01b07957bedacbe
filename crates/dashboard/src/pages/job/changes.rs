//! The tab with the changes of a job relative to its base.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};

use super::InJob;
use super::head::{self, Parts};
use crate::diff::{DiffShown, DiffView};
use crate::failure::{Failure, Page};
use crate::frame::Frame;
use crate::highlight::{Budget, Highlighter};
use crate::{Shared, visible};

/// The maximum size in bytes of a diff on a page. The rest is cut off.
const MAX_BYTES: usize = 8 << 20;

#[derive(Template)]
#[template(path = "job_changes.html")]
struct ChangesPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    diff: DiffShown<'a>,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob, RawQuery(query): RawQuery) -> Response {
    let at = Arc::new(at);
    at.answer(page(&shared, &at, DiffView::of_query(query.as_deref())).await)
}

async fn page(shared: &Shared, at: &Arc<InJob>, view: DiffView) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let diff = shared.services.diffs.diff(&at.project, &at.job).await;
    let diff = diff.map_err(|error| Failure::Render(error.to_string()))?;
    let (at, highlighter) = (Arc::clone(at), shared.highlighter.clone());
    // Highlighting a diff takes more CPU time than other requests should wait for.
    let html = tokio::task::spawn_blocking(move || render(&at, parts, &diff, view, &highlighter)).await;
    Ok(Html(html.map_err(|error| Failure::Render(error.to_string()))??).into_response())
}

fn render(at: &InJob, parts: Parts, diff: &[u8], view: DiffView, highlighter: &Highlighter) -> askama::Result<String> {
    let is_cut = diff.len() > MAX_BYTES;
    let text = String::from_utf8_lossy(&diff[..diff.len().min(MAX_BYTES)]);
    let diff = DiffShown::new(&text, is_cut, view, highlighter, &mut Budget::page());
    ChangesPage { at, frame: at, title: visible::line(&at.job.title).into_owned(), parts, diff }.render()
}
