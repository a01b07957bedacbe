//! The tab with the conversation of a job: messages, text of the agent, and tool calls. The page shows a window of the
//! job's log, initially the newest one.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::job::JobState;
use journeyman_core::job::event::LogEntry;
use serde::Deserialize;

use super::block::{self, Messages};
use super::head::{self, Parts};
use super::{InJob, live};
use crate::conversation::Fold;
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::Budget;
use crate::{Shared, visible};

/// The maximum number of log entries on a page.
const WINDOW: u64 = 400;

#[derive(Deserialize)]
pub(super) struct WindowQuery {
    /// The sequence number before which the window ends. The default is the newest window.
    before: Option<u64>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    thread: Vec<Fragment>,
    earlier: Option<String>,
    later: Option<String>,
    /// The ID and the URL of the stream. The ID contains the window, so that Turbo replaces the element, and with it
    /// the connection, if the window changes.
    live: Option<(String, String)>,
    archived: bool,
    once: String,
    draft: String,
    interrupts: bool,
    error: Option<String>,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob, Query(query): Query<WindowQuery>) -> Response {
    let at = Arc::new(at);
    at.answer(page(&shared, &at, query.before, None).await)
}

/// Renders the newest window again after a message was refused, with its text and the reason.
pub(super) async fn refused(shared: &Shared, at: InJob, fields: &Fields, error: String) -> Page {
    page(shared, &Arc::new(at), None, Some((fields, error))).await
}

async fn page(shared: &Shared, at: &Arc<InJob>, before: Option<u64>, refused: Option<(&Fields, String)>) -> Page {
    let job = &at.job;
    let newest = before.is_none_or(|before| before > job.last_seq);
    let end = before.filter(|_| !newest).unwrap_or(job.last_seq.saturating_add(1));
    let start = end.saturating_sub(WINDOW + 1);
    let mut entries = shared.services.store.log(job.id, start, usize::try_from(WINDOW).unwrap_or(usize::MAX)).await?;
    // Entries that were added after the job was read are left to the stream, which also sends the other changes that
    // come with them.
    entries.retain(|entry| entry.seq < end);
    let last = entries.last().map_or(start, |entry| entry.seq);
    let messages = shared.services.store.messages(job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let messages: Messages = messages.into_iter().map(|message| (message.id, message)).collect();
    let thread = thread(shared, Arc::clone(at), entries, messages).await?;
    let status = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (fields, error) = refused.map_or((None, None), |(fields, error)| (Some(fields), Some(error)));
    let page = JobPage {
        at,
        frame: at,
        title: visible::line(&job.title).into_owned(),
        parts,
        thread,
        earlier: (start > 0).then(|| format!("{}?before={}", at.page(""), start + 1)),
        later: (!newest).then(|| format!("{}?before={}", at.page(""), end + WINDOW)),
        live: newest.then(|| (format!("live-{start}-{last}"), live::address(at, start, last))),
        archived: matches!(job.state, JobState::Archived { .. }),
        once: at.once(),
        draft: fields.map(|fields| fields.text("prompt")).unwrap_or_default(),
        interrupts: fields.is_some_and(|fields| fields.text("delivery") == "interrupt"),
        error,
    };
    Ok((status, Html(page.render()?)).into_response())
}

async fn thread(
    shared: &Shared,
    at: Arc<InJob>,
    entries: Vec<LogEntry>,
    messages: Messages,
) -> Result<Vec<Fragment>, Failure> {
    let highlighter = shared.highlighter.clone();
    // Markdown and highlighting take more CPU time than other requests should wait for.
    let rendered = tokio::task::spawn_blocking(move || {
        let (mut fold, mut budget) = (Fold::default(), Budget::page());
        for entry in &entries {
            fold.add(entry);
        }
        fold.blocks().map(|one| block::render(&at, one, &messages, &highlighter, &mut budget)).collect()
    });
    let rendered: askama::Result<Vec<Fragment>> = rendered.await.map_err(|error| Failure::Render(error.to_string()))?;
    Ok(rendered?)
}
