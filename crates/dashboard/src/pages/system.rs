//! `/system`: workers and their runs, the queue, and the sandbox of this machine.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use journeyman_core::job::{Job, JobState, JobStatus, Work};
use journeyman_core::ports::{Containment, JobFilter};

use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/system", get(show))
}

/// The maximum number of active jobs of each project that are read.
const MAX_JOBS: usize = 500;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage<'a> {
    frame: &'a Frame,
    active: usize,
    running: usize,
    waiting: usize,
    oldest: Option<String>,
    workers: Vec<Worker>,
    sandbox: Option<Sandbox>,
    facts: &'a [(String, String)],
}

struct Worker {
    id: String,
    runs: Vec<Running>,
}

struct Running {
    path: String,
    title: String,
    until: Moment,
}

struct Sandbox {
    kind: String,
    enough: bool,
    guarantees: Vec<Guarantee>,
}

struct Guarantee {
    name: String,
    badge: (&'static str, &'static str),
    note: String,
}

async fn show(State(shared): State<Shared>, frame: Frame) -> Response {
    frame.answer(page(&shared, &frame).await)
}

async fn page(shared: &Shared, frame: &Frame) -> Page {
    let jobs = active(shared).await?;
    let mut workers: BTreeMap<String, Vec<Running>> = BTreeMap::new();
    let mut waiting = Vec::new();
    for job in &jobs {
        match &job.state {
            JobState::Active(Work::Running { lease, .. }) => {
                let running = Running {
                    path: format!("/projects/{}/jobs/{}", job.project, job.id),
                    title: visible::line(&job.title).into_owned(),
                    until: frame.moment(lease.until),
                };
                workers.entry(lease.worker.to_string()).or_default().push(running);
            }
            JobState::Active(Work::Waiting) => waiting.push(job.waiting_since),
            _ => {}
        }
    }
    // Only administrators see the sandbox, as in the HTTP interface.
    let sandbox = match frame.viewer.is_administrator() {
        true => match &shared.services.machine {
            Some(machine) => Some(sandbox(&machine.containment().await)),
            None => None,
        },
        false => None,
    };
    rendered(&SystemPage {
        frame,
        active: jobs.len(),
        running: workers.values().map(Vec::len).sum(),
        waiting: waiting.len(),
        oldest: waiting.iter().min().map(|since| words::duration(frame.now.since(*since))),
        workers: workers.into_iter().map(|(id, runs)| Worker { id, runs }).collect(),
        sandbox,
        facts: if frame.viewer.is_administrator() { &shared.settings.facts } else { &[] },
    })
}

async fn active(shared: &Shared) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for project in shared.services.store.projects().await? {
        let filter = JobFilter { status: Some(JobStatus::Active), ..JobFilter::newest(project.id, MAX_JOBS) };
        jobs.extend(shared.services.store.jobs(filter).await?);
    }
    Ok(jobs)
}

fn sandbox(found: &Containment) -> Sandbox {
    let text = |text: &str| visible::line(text).into_owned();
    let guarantee = |one: &journeyman_core::ports::Guarantee| Guarantee {
        name: text(one.name),
        badge: match (one.holds, found.given_up.iter().any(|name| name == one.name)) {
            (true, _) => ("ok", "holds"),
            (false, true) => ("warning", "given up"),
            (false, false) => ("danger", "does not hold"),
        },
        note: text(&one.note),
    };
    Sandbox {
        kind: text(found.sandbox),
        enough: found.is_enough(),
        guarantees: found.guarantees.iter().map(guarantee).collect(),
    }
}
