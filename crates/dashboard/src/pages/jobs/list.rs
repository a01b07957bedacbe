//! The list of the jobs of a project, and of all projects.

use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::{JobFilter, StatusCounts, StoreError};

use super::begin;
use super::query::{Choice, Chosen, Known, ListQuery, MAX_COUNT, Menu, ON_PAGE, url};
use super::row::{self, JobRow, ProjectContexts};
use crate::failure::{Failure, Page, rendered};
use crate::fragment::Fragment;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::pages::credentials::{self, CredentialWarning};
use crate::pages::problem::Problem;
use crate::pages::refresh::{self, SeenQuery};
use crate::pages::{projects, webhooks};
use crate::streams::LastEventId;
use crate::{Shared, choices, visible};

/// The jobs on a page of a list.
struct ListedJobs {
    /// The active jobs, which are on top of the first page.
    active: Vec<Job>,
    /// The other jobs, newest first.
    others: Vec<Job>,
    /// The position of the next page.
    next: Option<String>,
    /// The numbers of jobs by status, up to [`MAX_COUNT`]; `None` if the list has other filters.
    counts: Option<StatusCounts>,
}

impl ListedJobs {
    /// Reads the jobs on a page.
    async fn read(shared: &Shared, query: &ListQuery, project: Option<&ProjectId>) -> Result<Self, StoreError> {
        let (store, filter) = (&shared.services.store, query.filter(project));
        let has_active = query.is_first() && filter.status.is_none();
        let active = match has_active {
            true => store.jobs(JobFilter { status: Some(JobStatus::Active), limit: ON_PAGE, ..filter.clone() }).await?,
            false => Vec::new(),
        };
        let mut others = store.jobs(filter).await?;
        let more = others.len() > ON_PAGE;
        others.truncate(ON_PAGE);
        let next = others.last().filter(|_| more).map(|job| format!("{}-{}", job.created_at.as_micros(), job.id));
        let on_top: Vec<JobId> = active.iter().map(|job| job.id).collect();
        others.retain(|job| !on_top.contains(&job.id));
        let counts = match query.has_counts() {
            true => Some(store.count_jobs(project.cloned().or_else(|| query.project()), MAX_COUNT).await?),
            false => None,
        };
        Ok(Self { active, others, next, counts })
    }

    fn jobs(&self) -> Vec<Job> {
        self.active.iter().chain(&self.others).cloned().collect()
    }

    fn digest(&self) -> String {
        refresh::digest(&(refresh::state_of(&self.jobs()), self.counts))
    }
}

/// Rows with a heading.
struct Group {
    title: &'static str,
    rows: Vec<JobRow>,
}

#[derive(Template)]
#[template(path = "_jobs_list.html")]
struct JobList<'a> {
    frame: &'a Frame,
    /// The path of the list.
    path: &'a str,
    /// The list with its parameters, to which forms return.
    here: String,
    groups: Vec<Group>,
    /// The links that set the status, with the numbers of jobs.
    statuses: Vec<(Choice, Option<String>)>,
    menus: Vec<Menu>,
    /// The filters of the list.
    chosen: Vec<Chosen>,
    q: String,
    /// The parameters that the search keeps.
    kept: Vec<(&'static str, String)>,
    is_filtered: bool,
    /// True if the rows name their projects.
    names_projects: bool,
    can_archive: bool,
    newest: Option<String>,
    older: Option<String>,
    /// The page for a new job, and a command that creates one, if there are no jobs at all.
    start: Option<(Option<String>, String)>,
}

impl<'a> JobList<'a> {
    /// Reads the rows of a list, and renders it. `project` is its project; `None` for the list of all projects.
    async fn load(
        shared: &Shared,
        (frame, path, project): (&'a Frame, &'a str, Option<&InProject>),
        query: &ListQuery,
        contexts: &ProjectContexts,
        found: &ListedJobs,
    ) -> Result<Fragment, Failure> {
        let jobs = found.jobs();
        let loaded = row::rows(shared, contexts, &jobs).await?;
        let agents = shared.settings.agents.keys().map(|id| (id.clone(), choices::name_of(shared, id)));
        let agents: Vec<(String, String)> = agents.collect();
        let projects: Vec<String> = match project {
            Some(_) => Vec::new(),
            None => contexts.keys().map(ToString::to_string).collect(),
        };
        let known = Known { viewer: &frame.viewer.user.name, projects: &projects, agents: &agents };
        let menus = query.menus(path, &loaded.attributes, &known);
        let new = project.filter(|at| at.viewer.can_write()).map(|at| at.path("/jobs/new"));
        let id = project.map_or("PROJECT", |at| at.project.id.as_str());
        let list = Self {
            frame,
            path,
            here: url(path, &query.pairs("")),
            can_archive: loaded.rows.iter().any(|row| row.can_archive),
            groups: groups(frame, &jobs, loaded.rows, found.active.len()),
            statuses: query.statuses(path, found.counts),
            chosen: query.chosen(path, &menus),
            menus,
            q: query.value("q"),
            kept: query.kept("q"),
            is_filtered: query.is_filtered(),
            names_projects: project.is_none(),
            newest: (!query.is_first()).then(|| url(path, &query.kept(""))),
            older: found.next.as_ref().map(|next| {
                let mut pairs = query.kept("");
                pairs.push(("after", next.clone()));
                url(path, &pairs)
            }),
            start: jobs.is_empty().then(|| (new, projects::curl(frame, id, "$JOURNEYMAN_KEY"))),
        };
        Ok(Fragment::of(&list)?)
    }
}

/// Groups rows: the active jobs on top, then the others by age.
fn groups(frame: &Frame, jobs: &[Job], rows: Vec<JobRow>, active: usize) -> Vec<Group> {
    const DAY: Duration = Duration::from_secs(86_400);
    let mut groups: Vec<Group> = Vec::new();
    // A job without a row belongs to a project that was deleted meanwhile; its row is missing in `rows` too.
    let mut rest = rows.into_iter().peekable();
    for (number, job) in jobs.iter().enumerate() {
        let age = frame.now.since(job.created_at);
        let title = match age {
            _ if number < active => "Active",
            _ if age < DAY => "Last 24 hours",
            _ if age < 7 * DAY => "Last 7 days",
            _ => "Older",
        };
        let Some(row) = rest.next_if(|row| row.key.ends_with(&job.id.to_string())) else { continue };
        match groups.last_mut() {
            Some(group) if group.title == title => group.rows.push(row),
            _ => groups.push(Group { title, rows: vec![row] }),
        }
    }
    groups
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct ProjectPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    repository: String,
    problem: Option<Problem>,
    /// The page of a webhook that was disabled because of its endpoint, and the reason.
    disabled_webhook: Option<(String, &'static str)>,
    credentials: Vec<CredentialWarning>,
    list: Fragment,
    live: String,
    /// The digest of the jobs on the page.
    seen: String,
    running: usize,
}

#[derive(Template)]
#[template(path = "jobs_all.html")]
struct AllPage<'a> {
    frame: &'a Frame,
    list: Fragment,
    live: String,
    /// The digest of the jobs on the page.
    seen: String,
    running: usize,
}

/// Returns the URL of the stream of a list.
fn live_url(path: &str, query: &ListQuery, seen: &str) -> String {
    let mut pairs = query.pairs("");
    pairs.push(("seen", seen.to_owned()));
    url(&format!("{path}/live"), &pairs)
}

fn running(found: &ListedJobs) -> usize {
    found.active.iter().filter(|job| job.lease().is_some()).count()
}

/// Responds with the list of a project. A project on the built-in code host that has no jobs has a page that leads to the
/// first one instead.
pub(super) async fn of_project(
    State(shared): State<Shared>,
    at: InProject,
    Query(query): Query<ListQuery>,
) -> Response {
    at.answer(project_page(&shared, &at, &query.in_project()).await)
}

async fn project_page(shared: &Shared, at: &InProject, query: &ListQuery) -> Page {
    query.check(&at.path("/jobs"))?;
    let found = ListedJobs::read(shared, query, Some(&at.project.id)).await?;
    let is_untouched = found.jobs().is_empty() && query.is_whole();
    if is_untouched && let Some(page) = begin::page(shared, at).await? {
        return Ok(page);
    }
    let (frame, path) = (&at.frame, at.path("/jobs"));
    let contexts = row::contexts(frame, [at.project.clone()]);
    let seen = found.digest();
    rendered(&ProjectPage {
        at,
        frame,
        repository: visible::line(&at.project.repository).into_owned(),
        problem: Problem::of(shared, at).await?,
        disabled_webhook: webhooks::disabled(at).await?,
        credentials: credentials::of_project(frame, &at.project.id).await?,
        list: JobList::load(shared, (frame, &path, Some(at)), query, &contexts, &found).await?,
        live: live_url(&path, query, &seen),
        seen,
        running: running(&found),
    })
}

pub(super) async fn project_live(
    State(shared): State<Shared>,
    at: InProject,
    Query(query): Query<ListQuery>,
    Query(seen): Query<SeenQuery>,
    last: LastEventId,
) -> Response {
    let query = query.in_project();
    if let Err(failure) = query.check(&at.path("/jobs")) {
        return failure.page(&at);
    }
    let (project, may_wait) = (at.project.clone(), at.is_hosted() && query.is_whole());
    let page = live_url(&at.path("/jobs"), &query, "");
    refresh::stream(&at, page, seen, last, move || {
        let (shared, query, project) = (shared.clone(), query.clone(), project.clone());
        async move {
            let found = ListedJobs::read(&shared, &query, Some(&project.id)).await?;
            // While there are no jobs, the page may wait for the first push or for an import.
            let waits = found.jobs().is_empty() && may_wait;
            let state = if waits { begin::State::read(&shared, &project).await? } else { None };
            Ok(match state {
                Some(state) => refresh::digest(&state),
                None => found.digest(),
            })
        }
    })
}

/// Responds with the list of the jobs of all projects.
pub(super) async fn all(State(shared): State<Shared>, frame: Frame, Query(query): Query<ListQuery>) -> Response {
    let page = async {
        query.check("/jobs")?;
        let found = ListedJobs::read(&shared, &query, None).await?;
        let contexts = row::contexts(&frame, shared.services.store.projects().await?);
        let seen = found.digest();
        rendered(&AllPage {
            frame: &frame,
            list: JobList::load(&shared, (&frame, "/jobs", None), &query, &contexts, &found).await?,
            live: live_url("/jobs", &query, &seen),
            seen,
            running: running(&found),
        })
    };
    frame.answer(page.await)
}

pub(super) async fn all_live(
    State(shared): State<Shared>,
    frame: Frame,
    Query(query): Query<ListQuery>,
    Query(seen): Query<SeenQuery>,
    last: LastEventId,
) -> Response {
    if let Err(failure) = query.check("/jobs") {
        return failure.page(&frame);
    }
    let page = live_url("/jobs", &query, "");
    refresh::stream(&frame, page, seen, last, move || {
        let (shared, query) = (shared.clone(), query.clone());
        async move { Ok(ListedJobs::read(&shared, &query, None).await?.digest()) }
    })
}
