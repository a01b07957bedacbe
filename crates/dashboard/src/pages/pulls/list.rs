//! The list of pull requests. Those on a remote code host are in [`super::remote`].

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::job::Job;
use journeyman_core::pull::{LocalPull, PullReviews, Verdict};
use serde::Deserialize;

use super::badge::Badge;
use super::base_note::BaseNote;
use super::remote;
use super::row::{JobLink, STATES, size, work};
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::parameter::Parameter;
use crate::size::Size;
use crate::{Shared, visible, words};

#[derive(Deserialize)]
pub(super) struct ListQuery {
    state: Option<String>,
    /// The last pull request of the previous page, as `<microseconds>-<number>`; only on remote code hosts.
    after: Option<String>,
}

impl ListQuery {
    /// Returns the selected state, which is that of open pull requests if none is given. `path` is the path of the list.
    ///
    /// # Errors
    /// There is no such state.
    fn state(&self, path: &str) -> Result<PullState, Failure> {
        let known = STATES.map(|state| (state.name(), state));
        Ok(Parameter::new("state", self.state.as_ref(), path).one_of(known)?.unwrap_or_default())
    }
}

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
    job: Option<JobLink>,
    /// The class and the label of the badge of an active job.
    work: Option<(&'static str, &'static str)>,
    /// The class and the label of the badge with the verdict of the reviews; only of an open pull request.
    verdict: Option<(&'static str, &'static str)>,
    /// The number of comments in words, if there are any.
    comments: Option<String>,
    /// The size of the job's change, if the pull request is its current one.
    size: Option<Size>,
    /// What there is to say about its base, if it is open.
    base: Option<BaseNote>,
    opened: Moment,
    /// The word for the end, and its time.
    ended: Option<(&'static str, Moment)>,
}

impl Row {
    fn new(at: &InProject, pull: &LocalPull, job: Option<&Job>, reviews: PullReviews, base: Option<BaseNote>) -> Self {
        let verdict = match reviews.verdict {
            Verdict::Approve => Some(("ok", "approved")),
            Verdict::RequestChanges => Some(("danger", "changes requested")),
            Verdict::Comment => None,
        };
        let comments = usize::try_from(reviews.comments).unwrap_or(usize::MAX);
        let line = |text: &str| visible::line(text).into_owned();
        Self {
            number: pull.number,
            path: at.path(&format!("/pulls/{}", pull.number)),
            title: line(&pull.title),
            badge: Badge::of(pull),
            head: line(&pull.head),
            labels: pull.labels.iter().map(|label| line(label)).collect(),
            job: job.map(|job| JobLink::new(at, job, &pull.title)),
            work: job.and_then(|job| work(pull.state, job)),
            verdict: verdict.filter(|_| pull.state == PullState::Open),
            comments: (comments > 0).then(|| words::counted(comments, "comment")),
            size: job.and_then(|job| size(job, pull.number)),
            base,
            opened: at.moment(pull.created_at),
            ended: pull.ended_at.map(|ended| (pull.state.name(), at.moment(ended))),
        }
    }
}

/// Responds with the list, or with an error page.
pub(super) async fn list(State(shared): State<Shared>, at: InProject, Query(query): Query<ListQuery>) -> Response {
    let page = async {
        let state = query.state(&at.path("/pulls"))?;
        match at.is_hosted() {
            true => page(&shared, &at, state).await,
            false if at.has_pulls() => remote::page(&shared, &at, state, query.after.as_ref()).await,
            false => Err(Failure::NoPulls),
        }
    };
    at.answer(page.await)
}

async fn page(shared: &Shared, at: &InProject, state: PullState) -> Page {
    let pulls = shared.services.pulls.pulls(&at.project).await?;
    let count = |state: PullState| pulls.iter().filter(|pull| pull.state == state).count();
    let choice = |one: PullState| {
        let query = if one == PullState::Open { String::new() } else { format!("?state={}", one.name()) };
        (at.path(&format!("/pulls{query}")), format!("{} {}", count(one), one.name()), one == state)
    };
    let shown = || pulls.iter().filter(|pull| pull.state == state);
    let reviews = match shown().next() {
        Some(first) => {
            let numbers = shown().map(|pull| pull.number).collect();
            shared.services.store.reviews_of_pulls(first.repository.clone(), numbers).await?
        }
        None => BTreeMap::new(),
    };
    let open = shown().filter(|pull| pull.state == PullState::Open);
    let open: Vec<PullRef> =
        open.map(|pull| PullRef { repository: PullRepository::local(&pull.repository), number: pull.number }).collect();
    let mut known = at.cases().known_comparisons(&at.project, &open).await?.into_iter();
    let mut rows = Vec::new();
    for pull in shown() {
        let known = if pull.state == PullState::Open { known.next() } else { None };
        let base = known.as_ref().and_then(BaseNote::of);
        let has_job = rows.len() < MOST_JOBS;
        let job = if has_job { at.cases().job_of_pull(&at.caller(), &at.project.id, pull).await? } else { None };
        rows.push(Row::new(at, pull, job.as_ref(), reviews.get(&pull.number).copied().unwrap_or_default(), base));
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
