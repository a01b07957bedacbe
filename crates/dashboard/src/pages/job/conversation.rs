//! The tab with the conversation of a job: messages, text of the agent, and tool calls. The page shows a window of the
//! job's log, initially the newest one.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use journeyman_core::job::event::LogEntry;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::StoreError;
use serde::Deserialize;

use super::block::BlockContext;
use super::head::{self, Parts};
use super::messages_and_runs::{MessagesAndRuns, failure};
use super::now::{Now, Silence};
use super::plan::plan_before;
use super::thread::{Thread, render_thread};
use super::{InJob, base, live, outcome, status};
use crate::conversation::{Fold, Plan};
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::highlight::Budget;
use crate::{Shared, visible, words};

/// The maximum number of log entries on a page.
const WINDOW: u64 = 400;

/// The maximum number of earlier log entries among which a page counts the steps. The count reads each of them. With half
/// of them tool calls of 1.3 KB, this takes 12 ms with SQLite, and 18 ms with PostgreSQL.
const COUNTED: u64 = 5000;

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
    status: String,
    parts: Parts,
    outcome: Fragment,
    base: Fragment,
    now: Fragment,
    thread: Thread,
    /// The URL of the window before this one, and the text of the link.
    earlier: Option<(String, String)>,
    later: Option<String>,
    /// The ID and the URL of the stream. The ID contains the window, so that Turbo replaces the element, and with it
    /// the connection, if the window changes.
    live: Option<(String, String)>,
    archived: bool,
    failed: bool,
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
    let start = job.numbering.back(end, WINDOW + 1);
    let mut entries = shared.services.store.log(job.id, start, usize::try_from(WINDOW).unwrap_or(usize::MAX)).await?;
    // Entries that were added after the job was read are left to the stream, which also sends the other changes that
    // come with them.
    entries.retain(|entry| entry.seq < end);
    let last = entries.last().map_or(start, |entry| entry.seq);
    let history = Arc::new(MessagesAndRuns::read(shared, job.id).await?);
    let plan = if newest { plan_before(shared, &history, job.id, start).await? } else { None };
    let (fold, thread, outcome) = rendered(shared, Arc::clone(at), entries, plan, Arc::clone(&history), newest).await?;
    let parts = head::parts_with(shared, at, &history, fold.plan()).await?;
    let silence = Silence::of(shared, job, &history, &fold, at.now).await?;
    let code = if refused.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let (fields, error) = refused.map_or((None, None), |(fields, error)| (Some(fields), Some(error)));
    let page = JobPage {
        at,
        frame: at,
        title: visible::line(&job.title).into_owned(),
        status: words::capitalized(status::badge(job).1),
        parts,
        outcome,
        base: if newest { base::render(at).await? } else { Fragment::default() },
        now: Now::of(at, &history, &fold, silence).render(at)?,
        thread,
        earlier: earlier_text(shared, job, start)
            .await?
            .map(|text| (format!("{}?before={}", at.page(""), start + 1), text)),
        later: (!newest).then(|| format!("{}?before={}", at.page(""), job.numbering.forward(end, WINDOW))),
        live: newest.then(|| (format!("live-{start}-{last}"), live::address(at, start, last))),
        archived: job.status() == JobStatus::Archived,
        failed: failure(job).is_some(),
        once: at.once(),
        draft: fields.map(|fields| fields.text("prompt")).unwrap_or_default(),
        interrupts: fields.is_some_and(|fields| fields.text("delivery") == "interrupt"),
        error,
    };
    Ok((code, Html(page.render()?)).into_response())
}

/// Returns the text of the link to the events up to and including `last`; `None` if there are none.
async fn earlier_text(shared: &Shared, job: &Job, last: u64) -> Result<Option<String>, StoreError> {
    if last == 0 {
        return Ok(None);
    }
    let end = last.saturating_add(1);
    let first = job.numbering.back(end, COUNTED);
    let count = shared.services.store.count_steps(job.id, first..end).await?;
    Ok(Some(show_earlier(count, first > 1)))
}

/// Returns the text of the link to earlier steps. `is_cut` says that there may be more than `count`.
fn show_earlier(count: u64, is_cut: bool) -> String {
    match (count, is_cut) {
        (0, _) => "Show earlier events".to_owned(),
        (1, false) => "Show 1 earlier step".to_owned(),
        (1, true) => "Show earlier steps".to_owned(),
        (_, false) => format!("Show {} earlier steps", words::grouped(count)),
        (_, true) => format!("Show more than {} earlier steps", words::grouped(count)),
    }
}

/// Renders the conversation and the part above it.
async fn rendered(
    shared: &Shared,
    at: Arc<InJob>,
    entries: Vec<LogEntry>,
    plan: Option<Plan>,
    history: Arc<MessagesAndRuns>,
    newest: bool,
) -> Result<(Fold, Thread, Fragment), Failure> {
    let hold = shared.services.store.holds().await?.remove(&at.job.project);
    let highlighter = shared.highlighter.clone();
    // Markdown and highlighting take more CPU time than other requests should wait for.
    let rendered = tokio::task::spawn_blocking(move || {
        let (mut fold, mut budget) = (Fold::default(), Budget::page());
        fold.begin_with(plan);
        for entry in &entries {
            fold.add(entry);
        }
        let context = BlockContext { at: &at, history: &history, has_outcome: newest, highlighter: &highlighter };
        let outcome = match newest {
            true => outcome::render(&at, &history, hold.as_ref(), &highlighter, &mut budget)?,
            false => Fragment::default(),
        };
        let thread = render_thread(&context, &fold, &mut budget)?;
        Ok::<_, askama::Error>((fold, thread, outcome))
    });
    let rendered: askama::Result<_> = rendered.await.map_err(|error| Failure::Render(error.to_string()))?;
    Ok(rendered?)
}

#[cfg(test)]
mod tests {
    use super::show_earlier;

    #[test]
    fn the_link_says_how_many_steps_are_earlier() {
        for (count, is_cut, text) in [
            (0, false, "Show earlier events"),
            (0, true, "Show earlier events"),
            (1, false, "Show 1 earlier step"),
            (1, true, "Show earlier steps"),
            (1600, false, "Show 1,600 earlier steps"),
            (1600, true, "Show more than 1,600 earlier steps"),
        ] {
            assert_eq!(show_earlier(count, is_cut), text);
        }
    }
}
