//! `/jobs` and `/projects/{project}/jobs`: the lists of jobs, which update themselves, and the form for a new job.

mod archive;
mod begin;
mod import;
mod list;
mod new;
mod query;
pub(super) mod row;
mod start_import;

use axum::Router;
use axum::routing::{get, post};

use crate::Shared;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/jobs", get(list::all))
        .route("/jobs/live", get(list::all_live))
        .route("/jobs/archive", post(archive::archive))
        .route("/jobs/unarchive", post(archive::unarchive))
        .route("/projects/{project}/jobs", get(list::of_project).post(new::create))
        .route("/projects/{project}/jobs/new", get(new::new))
        .route("/projects/{project}/jobs/live", get(list::project_live))
        .route("/projects/{project}/import", post(start_import::start))
}
