//! The operation that lists the pull requests of a job.

use axum::Json;
use axum::extract::State;
use journeyman_core::job::Job;
use journeyman_core::project::{Address, parse_address};

use crate::app::App;
use crate::error::ApiError;
use crate::extract::InJob;
use crate::openapi::{JobPath, errors};
use crate::wire::pull::{JobPull, JobPullList};

errors!(ListErrors: 401, 403, 404, 503);

/// List a job's pull requests
///
/// Returns the number and URL of each pull request, and its state and text if it is on the built-in code host.
/// `GET …/diff` returns the changes.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/pulls", tag = "Jobs", operation_id = "listJobPulls",
    params(JobPath), responses((status = 200, description = "All pull requests", body = JobPullList), ListErrors))]
pub(crate) async fn list(State(app): State<App>, at: InJob) -> Result<Json<JobPullList>, ApiError> {
    let job = at.load(&app).await?;
    let repository = match parse_address(&job.source.repository) {
        Ok(Address::Local(name)) => Some(name),
        _ => None,
    };
    let mut pulls = Vec::new();
    for url in links(&app, &job).await? {
        let Some(number) = url.rsplit('/').next().and_then(|number| number.parse().ok()) else { continue };
        let known = match &repository {
            Some(name) => app.services.store.pull(name.clone(), number).await?,
            None => None,
        };
        pulls.push(JobPull::of(number, url, known));
    }
    Ok(Json(JobPullList { pulls }))
}

/// Returns the links of the pull requests with the job's commits, and of the current one, oldest first.
async fn links(app: &App, job: &Job) -> Result<Vec<String>, ApiError> {
    let messages = app.services.store.messages(job.id).await?;
    let mut links: Vec<String> = Vec::new();
    let current = job.pull.as_ref().map(|pull| pull.url.clone());
    for link in messages.into_iter().filter_map(|message| message.pr_link).chain(current) {
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Ok(links)
}
