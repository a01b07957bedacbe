//! The list of pull requests. Those on a remote code host are in [`super::remote`].

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::pull::{LocalPull, PullState};
use serde::Deserialize;

use super::badge::Badge;
use super::remote;
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::{Shared, visible};

#[derive(Deserialize)]
pub(super) struct ListQuery {
    pub(super) state: Option<String>,
    /// The last pull request of the previous page, as `<microseconds>-<number>`; only on remote code hosts.
    pub(super) after: Option<String>,
}

impl ListQuery {
    /// Returns the selected state; an unknown one selects the open pull requests.
    pub(super) fn state(&self) -> PullState {
        let given = self.state.as_deref().unwrap_or_default();
        STATES.into_iter().find(|state| state.name() == given).unwrap_or_default()
    }
}

/// The states in the order of the filter.
pub(super) const STATES: [PullState; 3] = [PullState::Open, PullState::Merged, PullState::Closed];

/// The maximum number of rows for which the job is looked up.
const MOST_JOBS: usize = 50;

#[derive(Template)]
#[template(path = "pulls.html")]
struct ListPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    rows: Vec<Row>,
    /// The URL, the label, and true if the state is selected.
    states: Vec<(String, String, bool)>,
    /// True if the repository has no pull request in any state.
    is_empty: bool,
    /// The name of the selected state.
    state: &'static str,
    curl: String,
}

struct Row {
    number: u64,
    path: String,
    title: String,
    badge: Badge,
    head: String,
    labels: Vec<String>,
    /// The path and the title of the job.
    job: Option<(String, String)>,
    opened: Moment,
    /// The word for the end, and its time.
    ended: Option<(&'static str, Moment)>,
}

impl Row {
    fn new(at: &InProject, pull: &LocalPull, job: Option<(String, String)>) -> Self {
        let line = |text: &str| visible::line(text).into_owned();
        Self {
            number: pull.number,
            path: at.path(&format!("/pulls/{}", pull.number)),
            title: line(&pull.title),
            badge: Badge::of(pull),
            head: line(&pull.head),
            labels: pull.labels.iter().map(|label| line(label)).collect(),
            job,
            opened: at.moment(pull.created_at),
            ended: pull.ended_at.map(|ended| (pull.state.name(), at.moment(ended))),
        }
    }
}

/// Responds with the list, or with an error page.
pub(super) async fn list(State(shared): State<Shared>, at: InProject, Query(query): Query<ListQuery>) -> Response {
    at.answer(match at.is_hosted() {
        true => page(&shared, &at, query.state()).await,
        false if at.has_pulls() => remote::page(&shared, &at, &query).await,
        false => Err(Failure::NoPulls),
    })
}

async fn page(shared: &Shared, at: &InProject, state: PullState) -> Page {
    let pulls = shared.services.pulls.pulls(&at.project).await?;
    let count = |state: PullState| pulls.iter().filter(|pull| pull.state == state).count();
    let choice = |one: PullState| {
        let query = if one == PullState::Open { String::new() } else { format!("?state={}", one.name()) };
        (at.path(&format!("/pulls{query}")), format!("{} {}", count(one), one.name()), one == state)
    };
    let mut rows = Vec::new();
    for pull in pulls.iter().filter(|pull| pull.state == state) {
        let job = if rows.len() < MOST_JOBS { job(at, pull).await? } else { None };
        rows.push(Row::new(at, pull, job));
    }
    rendered(&ListPage {
        at,
        frame: at,
        rows,
        states: STATES.map(choice).into(),
        is_empty: pulls.is_empty(),
        state: state.name(),
        curl: crate::pages::projects::curl(at, at.project.id.as_str(), "$JOURNEYMAN_KEY"),
    })
}

/// Returns the path and the title of the job that opened a pull request.
async fn job(at: &InProject, pull: &LocalPull) -> Result<Option<(String, String)>, Failure> {
    let job = at.cases().job_of_pull(&at.caller(), &at.project.id, pull).await?;
    Ok(job.map(|job| (at.path(&format!("/jobs/{}", job.id)), visible::line(&job.title).into_owned())))
}
