//! The tab with the runs of a job, which are the attempts at its messages.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use journeyman_core::run::{Run, RunStatus};

use super::InJob;
use super::head::{self, Parts};
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

#[derive(Template)]
#[template(path = "job_runs.html")]
struct RunsPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    rows: Vec<Row>,
}

struct Row {
    id: String,
    message: String,
    attempt: u32,
    badge: (&'static str, &'static str),
    reason: Option<(String, String)>,
    started: Moment,
    took: String,
    tokens: Option<String>,
    cached: Option<String>,
    cost: Option<String>,
    /// The part of the cost that is an estimate.
    estimated: Option<String>,
    commits: Vec<String>,
    worker: String,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob) -> Response {
    at.answer(page(&shared, &at).await)
}

async fn page(shared: &Shared, at: &InJob) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let mut runs = shared.services.store.runs(at.job.id).await?;
    runs.reverse();
    let prompt = |run: &Run| {
        let found = messages.iter().find(|message| message.id == run.message);
        found.and_then(|message| message.prompt.lines().next()).unwrap_or_default()
    };
    let rows = runs.iter().map(|run| row(at, run, prompt(run))).collect();
    let title = visible::line(&at.job.title).into_owned();
    rendered(&RunsPage { at, frame: at, title, parts, rows })
}

fn row(at: &InJob, run: &Run, prompt: &str) -> Row {
    let badge = match run.status {
        RunStatus::Running => ("running", "running"),
        RunStatus::Succeeded => ("completed", "succeeded"),
        RunStatus::Failed => ("failed", "failed"),
        RunStatus::Cancelled => ("cancelled", "cancelled"),
    };
    let code = |reason: &journeyman_core::run::Reason| {
        let code = serde_json::to_value(reason.code).unwrap_or_default();
        (code.as_str().unwrap_or_default().to_owned(), visible::lines(&reason.text).into_owned())
    };
    let usage = run.usage;
    Row {
        id: run.id.to_string(),
        message: visible::line(prompt).into_owned(),
        attempt: run.attempt,
        badge,
        reason: run.reason.as_ref().map(code),
        started: at.moment(run.started_at),
        took: words::duration(run.finished_at.unwrap_or(at.now).since(run.started_at)),
        tokens: (usage.tokens() > 0)
            .then(|| format!("{} in, {} out", words::tokens(usage.input_tokens), words::tokens(usage.output_tokens))),
        cached: (usage.cached_tokens > 0).then(|| words::tokens(usage.cached_tokens)),
        cost: usage.cost_micros.map(words::money),
        estimated: (usage.estimated_micros > 0).then(|| words::money(usage.estimated_micros)),
        commits: run.commits.iter().map(|sha| sha.as_str().to_owned()).collect(),
        worker: run.worker.to_string(),
    }
}
