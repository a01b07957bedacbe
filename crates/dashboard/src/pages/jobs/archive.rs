//! The form that archives the jobs that were chosen in a list.

use axum::response::{IntoResponse, Redirect, Response};
use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, ProjectId};

use super::query::ON_PAGE;
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::words;

/// The maximum number of jobs in a form: the active jobs and the others on a page.
const MAX_CHOSEN: usize = 2 * ON_PAGE;

/// Archives the chosen jobs, each in its own transaction, and returns to the list.
pub(super) async fn archive(frame: Frame, fields: Fields) -> Response {
    frame.answer(archived(&frame, &fields).await)
}

async fn archived(frame: &Frame, fields: &Fields) -> Page {
    frame.needs_write()?;
    let chosen = fields.all("job");
    if chosen.is_empty() {
        return Err(Failure::Form("no job is chosen; choose at least one".to_owned()));
    }
    if chosen.len() > MAX_CHOSEN {
        return Err(Failure::Form(format!("at most {MAX_CHOSEN} jobs can be archived at once")));
    }
    let chosen: Option<Vec<(ProjectId, JobId)>> = chosen.iter().map(|key| job(key)).collect();
    for (project, job) in chosen.ok_or(Failure::NotFound("job"))? {
        frame.cases().control_job(&frame.caller(), &project, job, Control::Archive, None).await?;
    }
    let back = fields.text("back");
    let back = words::return_path(&back);
    let sign = if back.contains('?') { '&' } else { '?' };
    Ok(Redirect::to(&format!("{back}{sign}done=archived")).into_response())
}

/// Reads a project and a job.
fn job(key: &str) -> Option<(ProjectId, JobId)> {
    let (project, job) = key.split_once('/')?;
    Some((project.parse().ok()?, job.parse().ok()?))
}
