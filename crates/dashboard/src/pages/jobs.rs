//! `/projects/{project}/jobs`: the list of jobs, which updates itself, and the form for a new job.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use futures::stream::unfold;
use journeyman_app::JobRequest;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::{Cursor, JobFilter, StoreError};
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::job::status;
use super::problem::Problem;
use super::pulls::badge::Pill;
use super::webhooks;
use crate::failure::{Page, refusal, refused, rendered};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::in_project::InProject;
use crate::moment::Moment;
use crate::streams::Stream;
use crate::{Shared, session, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{project}/jobs", get(list).post(create))
        .route("/projects/{project}/jobs/new", get(new))
        .route("/projects/{project}/jobs/live", get(live))
}

/// The number of jobs on a page.
const ON_PAGE: usize = 25;

/// The interval at which the stream of an open page reads the list.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The choices of the status filter: the values in URLs, and the labels.
const STATUSES: [(&str, &str); 5] =
    [("", "All"), ("active", "Active"), ("completed", "Completed"), ("failed", "Failed"), ("archived", "Archived")];

#[derive(Debug, Clone, Default, Deserialize)]
struct ListQuery {
    status: Option<String>,
    q: Option<String>,
    /// The last job of the previous page, as `<microseconds>-<job>`.
    after: Option<String>,
}

impl ListQuery {
    fn filter(&self, at: &InProject) -> JobFilter {
        let known = [JobStatus::Active, JobStatus::Completed, JobStatus::Failed, JobStatus::Archived];
        let status = self.status.as_deref().unwrap_or_default();
        JobFilter {
            status: known.into_iter().find(|known| known.name() == status),
            title_contains: Some(self.title()).filter(|text| !text.is_empty()),
            after: self.after.as_deref().and_then(cursor),
            ..JobFilter::newest(at.project.id.clone(), ON_PAGE + 1)
        }
    }

    fn title(&self) -> String {
        self.q.as_deref().unwrap_or_default().trim().replace('\0', "")
    }

    /// Returns the query of the URL with this status, the same search, and the jobs after `after`.
    fn query(&self, status: &str, after: Option<&str>) -> String {
        let title = self.title();
        let parts = [("status", status), ("q", &title), ("after", after.unwrap_or_default())];
        let given = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let query: Vec<String> = given.map(|(name, value)| format!("{name}={}", words::in_query(value))).collect();
        if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
    }
}

fn cursor(text: &str) -> Option<Cursor> {
    let (micros, id) = text.split_once('-')?;
    Some(Cursor { created_at: Timestamp::from_micros(micros.parse().ok()?), id: id.parse().ok()? })
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct ListPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    repository: String,
    problem: Option<Problem>,
    rows: Vec<Row>,
    statuses: Vec<(String, &'static str, bool)>,
    status: &'a str,
    q: String,
    /// True if a status, a search or a position restricts the list.
    is_filtered: bool,
    older: Option<String>,
    newest: Option<String>,
    live: String,
    /// The [`digest`] of the jobs on the page.
    seen: String,
    curl: String,
    /// The page of a webhook that was disabled because of its endpoint, and the reason.
    disabled_webhook: Option<(String, &'static str)>,
}

struct Row {
    path: String,
    title: String,
    badge: (&'static str, &'static str),
    /// The repository, if it is not the project's current one.
    repository: Option<String>,
    reference: String,
    model: String,
    created: Moment,
    /// The sum of the durations of the job's runs, once it is inactive.
    took: Option<String>,
    cost: Option<String>,
    pull: Option<Pill>,
}

impl Row {
    async fn new(shared: &Shared, at: &InProject, job: &Job, worked: Duration) -> Result<Self, StoreError> {
        let spent = shared.services.store.spent(job.project.clone(), job.id, 0).await?[0];
        Ok(Self {
            path: at.path(&format!("/jobs/{}", job.id)),
            title: visible::line(&job.title).into_owned(),
            badge: status::badge(job),
            repository: Some(&job.source.repository)
                .filter(|repository| **repository != at.project.repository)
                .map(|repository| visible::line(repository).into_owned()),
            reference: visible::line(&job.source.reference).into_owned(),
            model: visible::line(&job.model).into_owned(),
            created: at.moment(job.created_at),
            took: job.rests_since().filter(|_| !worked.is_zero()).map(|_| words::duration(worked)),
            cost: (spent > 0).then(|| words::money(spent)),
            pull: Pill::of_job(at, job),
        })
    }
}

async fn list(State(shared): State<Shared>, at: InProject, Query(query): Query<ListQuery>) -> Response {
    at.answer(list_page(&shared, &at, &query).await)
}

async fn list_page(shared: &Shared, at: &InProject, query: &ListQuery) -> Page {
    let mut jobs = shared.services.store.jobs(query.filter(at)).await?;
    let more = jobs.len() > ON_PAGE;
    jobs.truncate(ON_PAGE);
    let mut rows = Vec::with_capacity(jobs.len());
    let extras = shared.services.store.extras_of_jobs(jobs.iter().map(|job| job.id).collect()).await?;
    for job in &jobs {
        let worked = extras.get(&job.id).map(|extras| extras.worked).unwrap_or_default();
        rows.push(Row::new(shared, at, job, worked).await?);
    }
    let seen = digest(&jobs);
    let chosen = query.status.as_deref().unwrap_or_default();
    let place = jobs.last().filter(|_| more).map(|job| format!("{}-{}", job.created_at.as_micros(), job.id));
    let list = at.path("/jobs");
    rendered(&ListPage {
        at,
        frame: &at.frame,
        repository: visible::line(&at.project.repository).into_owned(),
        problem: Problem::of(shared, at).await?,
        rows,
        statuses: (STATUSES.iter())
            .map(|(value, text)| (format!("{list}{}", query.query(value, None)), *text, *value == chosen))
            .collect(),
        status: chosen,
        q: query.title(),
        is_filtered: !chosen.is_empty() || !query.title().is_empty() || query.after.is_some(),
        older: place.map(|place| format!("{list}{}", query.query(chosen, Some(&place)))),
        newest: query.after.as_ref().map(|_| format!("{list}{}", query.query(chosen, None))),
        live: {
            let filter = query.query(chosen, query.after.as_deref());
            let sign = if filter.is_empty() { '?' } else { '&' };
            format!("{list}/live{filter}{sign}seen={seen}")
        },
        seen,
        disabled_webhook: webhooks::disabled(at).await?,
        curl: super::projects::curl(&at.frame, at.project.id.as_str(), "$JOURNEYMAN_KEY"),
    })
}

#[derive(Deserialize)]
struct SeenQuery {
    /// The [`digest`] of the jobs on the page.
    seen: Option<String>,
}

/// Streams an instruction to refresh the page each time its jobs change. The digest of the page, or of the last event,
/// is in the request, so that changes before the connection are detected too.
async fn live(
    State(shared): State<Shared>,
    at: InProject,
    Query(query): Query<ListQuery>,
    Query(SeenQuery { seen }): Query<SeenQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(stream) = shared.streams.open(at.viewer.user.id) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let poll = Poll { filter: query.filter(&at), shared, at, seen: last.or(seen).unwrap_or_default(), _stream: stream };
    let events = unfold(poll, |mut poll| async move { Some((Ok::<_, Infallible>(poll.next().await?), poll)) });
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// Returns a digest of the jobs, which changes whenever a row of the list changes.
fn digest(jobs: &[Job]) -> String {
    let mut hasher = DefaultHasher::new();
    // Each change of a job that its row shows adds an event to its log.
    jobs.iter().for_each(|job| (job.id, job.last_seq, job.status()).hash(&mut hasher));
    format!("{:016x}", hasher.finish())
}

/// The state of a stream that polls the list for changes.
struct Poll {
    shared: Shared,
    at: InProject,
    filter: JobFilter,
    seen: String,
    _stream: Stream,
}

impl Poll {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !session::still_holds(&self.shared, &self.at.viewer).await {
                return None;
            }
            let mut jobs = self.shared.services.store.jobs(self.filter.clone()).await.ok()?;
            jobs.truncate(ON_PAGE);
            let now = digest(&jobs);
            if self.seen != now {
                self.seen.clone_from(&now);
                return Some(Event::default().id(now).data("<turbo-stream action=\"refresh\"></turbo-stream>"));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.shared.services.tails.stopped() => return None,
            }
        }
    }
}

#[derive(Template)]
#[template(path = "jobs_new.html")]
struct NewPage<'a> {
    at: &'a InProject,
    frame: &'a Frame,
    prompt: String,
    reference: String,
    branch: String,
    title: String,
    pull_request: String,
    agent: String,
    model: String,
    draft: bool,
    once: String,
    error: Option<String>,
}

impl<'a> NewPage<'a> {
    fn new(at: &'a InProject, fields: &Fields) -> Self {
        let once = fields.given("once").unwrap_or_else(|| at.once());
        Self {
            at,
            frame: &at.frame,
            prompt: fields.text("prompt"),
            reference: fields.text("ref"),
            branch: fields.text("branch"),
            title: fields.text("title"),
            pull_request: fields.text("pull-request"),
            agent: fields.text("agent"),
            model: fields.text("model"),
            draft: fields.is_set("draft"),
            once,
            error: None,
        }
    }

    fn agents(&self) -> &[String] {
        &self.frame.shared.settings.agents
    }
}

async fn new(at: InProject) -> Response {
    let page = async {
        at.needs_write()?;
        rendered(&NewPage::new(&at, &Fields::default()))
    };
    at.answer(page.await)
}

async fn create(at: InProject, fields: Fields) -> Response {
    at.answer(create_page(&at, &fields).await)
}

async fn create_page(at: &InProject, fields: &Fields) -> Page {
    at.needs_write()?;
    let request = request(fields);
    let once = fields.once(&format!("create job {request:?}"));
    match at.cases().create_job(&at.caller(), &at.project.id, request, once).await {
        Ok(done) => Ok(Redirect::to(&at.path(&format!("/jobs/{}", done.record.id))).into_response()),
        Err(error) => {
            let mut page = NewPage::new(at, fields);
            page.error = Some(refusal(error)?);
            // A refused request is not stored under its key, and the next request may be a different one.
            page.once = at.once();
            refused(&page)
        }
    }
}

fn request(fields: &Fields) -> JobRequest {
    JobRequest {
        prompt: fields.text("prompt"),
        reference: fields.given("ref"),
        branch: fields.given("branch"),
        model: fields.given("model"),
        agent: fields.given("agent"),
        title: fields.given("title"),
        draft: fields.is_set("draft").then_some(true),
        pull_request: fields.given("pull-request"),
        ..JobRequest::default()
    }
}
