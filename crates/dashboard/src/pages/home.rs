//! `/`: what needs the viewer in all projects, what runs now, what has finished, and what was spent this week.

mod needs;
mod spend;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::ProjectId;
use journeyman_core::job::label::Attribute;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::model::price::day;
use journeyman_core::ports::{JobFilter, ProjectJobs, StoreError};
use journeyman_core::project::Project;
use serde::Deserialize;

use self::needs::Need;
use self::spend::Week;
use super::credentials::{self, CredentialWarning};
use super::jobs::row::{self, JobRow};
use super::refresh::{self, SeenQuery};
use crate::chart::{self, MAX_KEYS};
use crate::failure::{Failure, Page, rendered};
use crate::frame::Frame;
use crate::parameter::Parameter;
use crate::streams::LastEventId;
use crate::{Shared, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/", get(show)).route("/home/live", get(live))
}

/// The maximum number of failed jobs, and of pull requests, that the page shows.
const MAX_NEEDS: usize = 10;

/// The maximum number of active jobs that the page reads.
const MAX_ACTIVE: usize = 50;

/// The maximum number of finished jobs that the page shows, and of completed jobs among which it looks for them.
const MAX_FINISHED: usize = 5;
const MAX_COMPLETED: usize = 20;

/// The maximum time since the creation of finished jobs. It bounds what the query reads for authors whose jobs have not
/// completed.
const FINISHED_WITHIN: Duration = Duration::from_hours(7 * 24);

/// The maximum number of projects that the page shows.
const MAX_PROJECTS: usize = 8;

#[derive(Debug, Clone, Default, Deserialize)]
struct HomeQuery {
    /// `everybody` selects the jobs of all people, and not only those of the viewer.
    whose: Option<String>,
}

impl HomeQuery {
    /// Returns true if the jobs of all people are selected.
    ///
    /// # Errors
    /// The value is not allowed.
    fn is_everybody(&self) -> Result<bool, Failure> {
        let whose = Parameter::new("whose", self.whose.as_ref(), "/").one_of([("everybody", ())])?;
        Ok(whose.is_some())
    }
}

/// The data of the page.
struct HomeData {
    failed: Vec<Job>,
    /// Completed jobs with an open pull request.
    to_review: Vec<Job>,
    active: Vec<Job>,
    /// Completed jobs without an open pull request.
    finished: Vec<Job>,
    projects: Vec<Project>,
    counts: BTreeMap<ProjectId, ProjectJobs>,
}

/// The authors whose jobs are in *Needs you* and *Finished*; `None` means all.
type Authors = Option<BTreeSet<String>>;

/// Returns the viewer and the viewer's API keys, as the authors of jobs; `None` if the jobs of all people are selected.
async fn authors(frame: &Frame, query: &HomeQuery) -> Result<Authors, Failure> {
    if query.is_everybody()? {
        return Ok(None);
    }
    let user = &frame.viewer.user;
    let mut authors = frame.shared.services.store.names_of_keys(user.id).await?;
    authors.insert(user.name.clone());
    Ok(Some(authors))
}

impl HomeData {
    /// Reads the data. `authors` restricts *Needs you* and *Finished*.
    async fn read(shared: &Shared, authors: &Authors) -> Result<Self, StoreError> {
        let store = &shared.services.store;
        let of_authors = JobFilter {
            any_of: authors.iter().flatten().cloned().map(Attribute::Author).collect(),
            limit: 3 * MAX_NEEDS,
            ..JobFilter::default()
        };
        let failed = JobFilter { status: Some(JobStatus::Failed), ..of_authors.clone() };
        let open = Some(PullState::Open);
        let to_review = JobFilter { status: Some(JobStatus::Completed), pull_state: open, ..of_authors };
        let active = JobFilter { status: Some(JobStatus::Active), limit: MAX_ACTIVE, ..JobFilter::default() };
        Ok(Self {
            failed: store.jobs(failed).await?.into_iter().filter(needs::has_failed).take(MAX_NEEDS).collect(),
            to_review: store.jobs(to_review).await?.into_iter().filter(needs::is_reviewed).take(MAX_NEEDS).collect(),
            active: store.jobs(active).await?,
            finished: finished(store.jobs(completed(shared, authors)).await?),
            projects: store.projects().await?,
            counts: store.jobs_of_projects().await?,
        })
    }

    fn digest(&self) -> String {
        let lists = [&self.failed, &self.to_review, &self.active, &self.finished].map(|jobs| refresh::state_of(jobs));
        let projects: Vec<&str> = self.projects.iter().map(|project| project.id.as_str()).collect();
        let counts: Vec<_> = self.counts.values().map(|counts| (counts.running, counts.open_pulls)).collect();
        refresh::digest(&(lists, projects, counts))
    }
}

/// Returns the filter for the completed jobs of these authors. An index has the jobs of each author, but not those of
/// several authors together.
fn completed(shared: &Shared, authors: &Authors) -> JobFilter {
    let mut attributes: Vec<Attribute> = authors.iter().flatten().cloned().map(Attribute::Author).collect();
    let any_of = if attributes.len() > 1 { std::mem::take(&mut attributes) } else { Vec::new() };
    JobFilter {
        status: Some(JobStatus::Completed),
        attributes,
        any_of,
        created_after: Some(shared.services.clock.now() - FINISHED_WITHIN),
        limit: MAX_COMPLETED,
        ..JobFilter::default()
    }
}

/// Returns the completed jobs without an open pull request, those that have completed last first.
fn finished(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.retain(|job| job.pull.as_ref().is_none_or(|pull| pull.state != PullState::Open));
    jobs.sort_by_key(|job| Reverse(job.rests_since()));
    jobs.truncate(MAX_FINISHED);
    jobs
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    frame: &'a Frame,
    today: String,
    is_everybody: bool,
    needs: Vec<Need>,
    running: Vec<JobRow>,
    /// The number of active jobs that no worker carries out.
    waiting: usize,
    finished: Vec<JobRow>,
    week: Week,
    credentials: Vec<CredentialWarning>,
    projects: Vec<ProjectRow>,
    /// The number of all projects.
    total: usize,
    /// The projects in which a job can be created, with the pages for it.
    new_jobs: Vec<(String, String)>,
    live: String,
    /// The digest of the data on the page.
    seen: String,
}

impl HomePage<'_> {
    /// Returns the number of waiting jobs in words; `None` if no job waits.
    fn waiting_text(&self) -> Option<String> {
        let verb = if self.waiting == 1 { "waits" } else { "wait" };
        (self.waiting > 0).then(|| format!("{} {verb}", words::counted(self.waiting, "job")))
    }
}

/// A project with the numbers of its jobs.
struct ProjectRow {
    id: String,
    /// The class of the color in the chart.
    key: &'static str,
    running: u64,
    open: u64,
}

async fn show(State(shared): State<Shared>, frame: Frame, Query(query): Query<HomeQuery>) -> Response {
    frame.answer(page(&shared, &frame, &query).await)
}

async fn page(shared: &Shared, frame: &Frame, query: &HomeQuery) -> Page {
    let authors = authors(frame, query).await?;
    let is_everybody = authors.is_none();
    let found = HomeData::read(shared, &authors).await?;
    let seen = found.digest();
    let contexts = row::contexts(frame, found.projects.iter().cloned());
    let (running, waiting): (Vec<Job>, Vec<Job>) = found.active.iter().cloned().partition(|job| job.lease().is_some());
    let order = order(&found);
    let week = Week::read(shared, frame.now, &found.projects, &order).await?;
    let new_jobs = order.iter().filter(|_| frame.viewer.can_write());
    let live = if is_everybody { "/home/live?whose=everybody&seen=" } else { "/home/live?seen=" };
    rendered(&HomePage {
        frame,
        today: date(day(frame.now)),
        is_everybody,
        needs: needs::needs(shared, frame, &contexts, &found.failed, &found.to_review).await?,
        running: row::rows(shared, &contexts, &running).await?.rows,
        waiting: waiting.len(),
        finished: row::rows(shared, &contexts, &found.finished).await?.rows,
        credentials: credentials::warnings(frame, |_| true).await?,
        projects: rows(&found, &order),
        total: found.projects.len(),
        new_jobs: new_jobs.map(|id| (id.to_string(), format!("/projects/{id}/jobs/new"))).collect(),
        week,
        live: format!("{live}{seen}"),
        seen,
    })
}

/// Returns the projects in the order of the page: those with the most running jobs and open pull requests first.
fn order(found: &HomeData) -> Vec<ProjectId> {
    let mut order: Vec<ProjectId> = found.projects.iter().map(|project| project.id.clone()).collect();
    order.sort_by_key(|id| {
        let counts = found.counts.get(id).copied().unwrap_or_default();
        Reverse((counts.running, counts.open_pulls))
    });
    order
}

fn rows(found: &HomeData, order: &[ProjectId]) -> Vec<ProjectRow> {
    let row = |(index, id): (usize, &ProjectId)| {
        let counts = found.counts.get(id).copied().unwrap_or_default();
        let key = chart::key(index.min(MAX_KEYS));
        ProjectRow { id: id.to_string(), key, running: counts.running, open: counts.open_pulls }
    };
    order.iter().enumerate().map(row).take(MAX_PROJECTS).collect()
}

/// Formats a day: `Sunday, November 22`.
fn date(day: i64) -> String {
    format!("{}, {}", spend::weekday(day), words::date(day))
}

async fn live(
    State(shared): State<Shared>,
    frame: Frame,
    Query(query): Query<HomeQuery>,
    Query(seen): Query<SeenQuery>,
    last: LastEventId,
) -> Response {
    let authors = match authors(&frame, &query).await {
        Ok(authors) => authors,
        Err(failure) => return failure.page(&frame),
    };
    refresh::stream(&frame, format!("/ {authors:?}"), seen, last, move || {
        let (shared, authors) = (shared.clone(), authors.clone());
        async move { Ok(HomeData::read(&shared, &authors).await?.digest()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_its_weekday() {
        let of = |text: &str| date(journeyman_core::usage::parse_day(text).unwrap());
        assert_eq!(of("1970-01-01"), "Thursday, January 1");
        assert_eq!(of("2026-11-22"), "Sunday, November 22");
    }
}
