//! The list of a project's pull requests on a remote code host, from the index of pull requests.

use std::collections::HashMap;

use askama::Template;
use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::ports::{PullCounts, PullCursor, PullFilter};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;

use super::badge::Badge;
use super::base_note::BaseNote;
use super::canonical;
use super::row::{JobLink, STATES, size, work};
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::pages::problem::Problem;
use crate::parameter::Parameter;
use crate::size::Size;
use crate::words::is_page;
use crate::{Shared, visible};

/// The number of pull requests on a page.
const ON_PAGE: usize = 25;

#[derive(Template)]
#[template(path = "pulls_remote.html")]
struct RemotePage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    problem: Option<Problem>,
    rows: Vec<Row>,
    /// The URL, the label, and true if the state is selected.
    states: Vec<(String, String, bool)>,
    /// True if the project has no pull request in any state.
    is_empty: bool,
    /// The name of the selected state.
    state: &'static str,
    older: Option<String>,
    newest: Option<String>,
    curl: String,
}

struct Row {
    number: u64,
    /// The page on the code host; `None` if its URL is not an http or https URL.
    href: Option<String>,
    title: String,
    badge: Badge,
    head: String,
    /// The job, if it still exists.
    job: Option<JobLink>,
    /// The class and the label of the badge of an active job.
    work: Option<(&'static str, &'static str)>,
    /// The size of the job's change, if the pull request is its current one.
    size: Option<Size>,
    /// What there is to say about its base, if it is open.
    base: Option<BaseNote>,
    opened: Moment,
    /// The word for the end, and the time at which it was recorded.
    ended: Option<(&'static str, Moment)>,
}

impl Row {
    fn new(at: &InProject, pull: &IndexedPull, job: Option<&Job>, base: Option<BaseNote>) -> Self {
        let line = |text: &str| visible::line(text).into_owned();
        // An older version did not store the title, which usually is that of the job.
        let title = pull.title.as_deref().or(job.map(|job| job.title.as_str()));
        Self {
            number: pull.number,
            href: Some(&pull.url).filter(|url| is_page(url)).cloned(),
            title: title.map_or_else(|| format!("Pull request #{}", pull.number), line),
            badge: Badge::of_indexed(pull),
            head: line(&pull.head),
            job: job.map(|job| JobLink::new(at, job, title.unwrap_or_default())),
            work: job.and_then(|job| work(pull.state, job)),
            size: job.and_then(|job| size(job, pull.number)),
            base,
            opened: at.moment(pull.created_at),
            ended: pull.ended_at.map(|ended| (pull.state.name(), at.moment(ended))),
        }
    }
}

/// Returns the page of the list. `after` is the last pull request of the previous page.
pub(super) async fn page(shared: &Shared, at: &InProject, state: PullState, after: Option<&String>) -> Page {
    let (store, project) = (&shared.services.store, at.project.id.clone());
    let after = Parameter::new("after", after, &at.path("/pulls")).read("the links to other pages", cursor)?;
    let filter = PullFilter { project: project.clone(), state, after, limit: ON_PAGE + 1 };
    let mut pulls = store.remote_pulls(filter).await?;
    let more = pulls.len() > ON_PAGE;
    pulls.truncate(ON_PAGE);
    let last = pulls.last().filter(|_| more);
    let older = last.map(|last| format!("{}-{}", last.created_at.as_micros(), last.number));
    let counts = store.count_remote_pulls(project).await?;
    let jobs = jobs(shared, &pulls).await?;
    let open = pulls.iter().filter(|pull| pull.state == PullState::Open);
    let open: Vec<PullRef> =
        open.map(|pull| PullRef { repository: pull.repository.clone(), number: pull.number }).collect();
    let mut known = at.cases().known_comparisons(&at.project, &open).await?.into_iter();
    let row = |pull: &IndexedPull| {
        let known = if pull.state == PullState::Open { known.next() } else { None };
        Row::new(at, pull, jobs.get(&pull.job), known.as_ref().and_then(BaseNote::of))
    };
    rendered(&RemotePage {
        at,
        frame: at,
        problem: Problem::of(shared, at).await?,
        rows: pulls.iter().map(row).collect(),
        states: choices(counts).map(|(one, label)| (href(at, one, None), label, one == state)).into(),
        is_empty: counts == PullCounts::default(),
        state: state.name(),
        older: older.map(|cursor| href(at, state, Some(&cursor))),
        newest: after.map(|_| href(at, state, None)),
        curl: crate::pages::projects::curl(at, at.project.id.as_str(), "$JOURNEYMAN_KEY"),
    })
}

/// Returns the jobs of pull requests, without deleted ones.
async fn jobs(shared: &Shared, pulls: &[IndexedPull]) -> Result<HashMap<JobId, Job>, Failure> {
    let mut jobs = HashMap::new();
    for pull in pulls {
        if jobs.contains_key(&pull.job) {
            continue;
        }
        if let Some(job) = shared.services.store.job(pull.job).await? {
            jobs.insert(job.id, job);
        }
    }
    Ok(jobs)
}

/// Returns the choices of the state filter with their labels.
fn choices(counts: PullCounts) -> [(PullState, String); 3] {
    STATES.map(|state| {
        let count = match state {
            PullState::Open => counts.open,
            PullState::Merged => counts.merged,
            PullState::Closed => counts.closed,
        };
        (state, format!("{count} {}", state.name()))
    })
}

fn href(at: &InProject, state: PullState, after: Option<&str>) -> String {
    let query = [Some(state.name()).filter(|_| state != PullState::Open).map(|name| format!("state={name}"))];
    let query = query.into_iter().chain([after.map(|cursor| format!("after={cursor}"))]).flatten();
    let query: Vec<String> = query.collect();
    if query.is_empty() { at.path("/pulls") } else { at.path(&format!("/pulls?{}", query.join("&"))) }
}

fn cursor(text: &str) -> Option<PullCursor> {
    let (micros, number) = text.split_once('-')?;
    Some(PullCursor { created_at: Timestamp::from_micros(micros.parse().ok()?), number: canonical(number)? })
}
