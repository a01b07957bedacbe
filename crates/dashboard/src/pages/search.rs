//! `/search`: finds projects, jobs and pull requests by a text, as a page, and as JSON for the palette.

use askama::Template;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use journeyman_app::{Caller, DetailedJob};
use journeyman_core::code_host::HostName;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::ports::JobFilter;
use journeyman_core::pull::IndexedPull;
use serde::{Deserialize, Serialize};

use super::job::status;
use super::jobs::row;
use crate::failure::{Failure, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/search", get(page)).route("/search/results", get(results))
}

/// The maximum number of results of each kind.
const LIMIT: usize = 8;

/// The maximum number of projects whose IDs are compared with the text.
const MAX_PROJECTS: usize = 1000;

/// The maximum length of the text, in characters.
const MAX_CHARS: usize = 200;

/// The beginning of a text that finds projects for a new job.
const NEW_JOB: &str = "new job in";

#[derive(Deserialize)]
struct SearchQuery {
    q: Option<String>,
}

impl SearchQuery {
    fn text(&self) -> String {
        let text = self.q.as_deref().unwrap_or_default().replace('\0', "");
        text.trim().chars().take(MAX_CHARS).collect()
    }
}

/// A result: a link to a page.
#[derive(Serialize)]
struct SearchResult {
    /// The heading under which the result is.
    group: &'static str,
    title: String,
    /// A remark, such as the project of a job.
    detail: String,
    href: String,
    /// The mark of a job, and since when it has been in its state. The palette shows neither.
    #[serde(skip)]
    state: Option<State>,
}

/// The state of a job, for the page.
struct State {
    /// The class of the mark, and the word for it.
    mark: (&'static str, &'static str),
    since: Moment,
}

impl SearchResult {
    fn project(id: &ProjectId) -> Self {
        let href = format!("/projects/{id}/jobs");
        Self { group: "Projects", title: id.to_string(), detail: String::new(), href, state: None }
    }

    fn new_job(id: &ProjectId) -> Self {
        let (title, href) = (format!("New job in {id}"), format!("/projects/{id}/jobs/new"));
        Self { group: "New job", title, detail: String::new(), href, state: None }
    }

    fn job(frame: &Frame, found: &DetailedJob) -> Self {
        let job = &found.job;
        Self {
            group: "Jobs",
            title: visible::line(&job.title).into_owned(),
            detail: format!("{}, {}", job.project, status::badge(job).1),
            href: format!("/projects/{}/jobs/{}", job.project, job.id),
            state: Some(State {
                mark: row::mark(job),
                since: frame.moment(job.rests_since().unwrap_or(job.waiting_since)),
            }),
        }
    }

    /// Returns a pull request of a job; `None` if its page is not an http or https URL.
    fn pull(found: &DetailedJob, pull: &IndexedPull) -> Option<Self> {
        let title = pull.title.as_deref().unwrap_or(&found.job.title);
        let is_here = pull.repository.host == HostName::local();
        let href = if is_here { format!("/projects/{}/pulls/{}", pull.project, pull.number) } else { pull.url.clone() };
        let title = format!("#{} {}", pull.number, visible::line(title));
        let detail = format!("{}, {}", pull.project, pull.state.name());
        let found = Self { group: "Pull requests", title, detail, href, state: None };
        (is_here || words::is_page(&found.href)).then_some(found)
    }
}

/// Returns what the viewer may see and the text finds.
async fn find(frame: &Frame, text: &str) -> Result<Vec<SearchResult>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(rest) = after_new_job(text).filter(|_| frame.viewer.can_write()) {
        return Ok(projects(frame, rest).await?.iter().map(SearchResult::new_job).collect());
    }
    let mut found: Vec<SearchResult> = projects(frame, text).await?.iter().map(SearchResult::project).collect();
    let caller = frame.caller();
    let mut jobs = jobs(frame, &caller, text).await?;
    found.extend(jobs.iter().map(|job| SearchResult::job(frame, job)));
    let number = text.strip_prefix('#').unwrap_or(text).parse().ok();
    if number.is_some() {
        let filter = JobFilter { pull: number, limit: LIMIT, ..JobFilter::default() };
        jobs.extend(frame.cases().find_jobs(&caller, filter).await?);
    }
    let mut pulls: Vec<SearchResult> = Vec::new();
    for job in &jobs {
        let of_job = job.pulls.iter().filter_map(|pull| SearchResult::pull(job, pull));
        for pull in of_job {
            if !pulls.iter().any(|known| known.href == pull.href) {
                pulls.push(pull);
            }
        }
    }
    pulls.truncate(LIMIT);
    found.extend(pulls);
    Ok(found)
}

/// Returns the newest jobs, which the palette offers before a text is entered.
async fn recent(frame: &Frame) -> Result<Vec<SearchResult>, Failure> {
    let jobs = frame.cases().find_jobs(&frame.caller(), JobFilter { limit: LIMIT, ..JobFilter::default() }).await?;
    Ok(jobs.iter().map(|job| SearchResult { group: "Recent jobs", ..SearchResult::job(frame, job) }).collect())
}

/// Returns the job with a text as its ID; otherwise the jobs that work on the branch with this name, and those with the
/// text in the title.
async fn jobs(frame: &Frame, caller: &Caller, text: &str) -> Result<Vec<DetailedJob>, Failure> {
    if let Ok(id) = text.parse::<JobId>() {
        let job = frame.shared.services.store.job(id).await?.filter(|job| caller.sees(&job.project));
        return Ok(frame.cases().detailed(job.into_iter().collect()).await?);
    }
    let of_branch = JobFilter { branch: Some(text.to_owned()), limit: LIMIT, ..JobFilter::default() };
    let mut found = frame.cases().find_jobs(caller, of_branch).await?;
    let titled = JobFilter { title_contains: Some(text.to_owned()), limit: LIMIT, ..JobFilter::default() };
    for job in frame.cases().find_jobs(caller, titled).await? {
        if !found.iter().any(|known| known.job.id == job.job.id) {
            found.push(job);
        }
    }
    found.truncate(LIMIT);
    Ok(found)
}

/// Returns the projects whose ID contains a text.
async fn projects(frame: &Frame, text: &str) -> Result<Vec<ProjectId>, Failure> {
    let text = text.to_ascii_lowercase();
    let projects = frame.cases().projects_after(&frame.caller(), None, MAX_PROJECTS).await?;
    let ids = projects.into_iter().map(|project| project.id);
    Ok(ids.filter(|id| id.as_str().to_ascii_lowercase().contains(&text)).take(LIMIT).collect())
}

/// Returns the rest of a text that begins with [`NEW_JOB`].
fn after_new_job(text: &str) -> Option<&str> {
    let (start, rest) = text.split_at_checked(NEW_JOB.len())?;
    start.eq_ignore_ascii_case(NEW_JOB).then(|| rest.trim())
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: &'a Frame,
    q: &'a str,
    results: Vec<SearchResult>,
}

async fn page(frame: Frame, Query(query): Query<SearchQuery>) -> Response {
    let q = query.text();
    let page = async { rendered(&SearchPage { frame: &frame, q: &q, results: find(&frame, &q).await? }) };
    frame.answer(page.await)
}

async fn results(frame: Frame, Query(query): Query<SearchQuery>) -> Response {
    let text = query.text();
    let found = if text.is_empty() { recent(&frame).await } else { find(&frame, &text).await };
    match found {
        Ok(found) => Json(found).into_response(),
        Err(failure) => failure.page(&frame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_for_a_new_job_names_a_project() {
        for (text, rest) in [
            ("New job in shop", Some("shop")),
            ("new job in", Some("")),
            ("new job", None),
            ("shop", None),
            ("größe in ünd", None),
        ] {
            assert_eq!(after_new_job(text), rest, "{text}");
        }
    }
}
