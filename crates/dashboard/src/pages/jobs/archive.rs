//! The forms that archive the jobs that were chosen in a list, and undo that.

use axum::response::Response;
use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::JobStatus;

use super::query::ON_PAGE;
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::toast::{self, SmallForm};
use crate::words;

/// The maximum number of jobs in a form: the active jobs and the others on a page.
const MAX_CHOSEN: usize = 2 * ON_PAGE;

/// Archives the chosen jobs, each in its own transaction, and returns to the list.
pub(super) async fn archive(frame: Frame, fields: Fields) -> Response {
    frame.answer(archived(&frame, &fields).await)
}

/// Unarchives jobs, each in its own transaction, and returns to the list.
pub(super) async fn unarchive(frame: Frame, fields: Fields) -> Response {
    let page = async {
        control(&frame, &fields, Control::Unarchive).await?;
        Ok(toast::confirmed(&back(&fields), "unarchived")) as Page
    };
    frame.answer(page.await)
}

async fn archived(frame: &Frame, fields: &Fields) -> Page {
    let back = back(fields);
    let Controlled { chosen, any_active } = control(frame, fields, Control::Archive).await?;
    if any_active {
        // The work that was canceled cannot be restored.
        return Ok(toast::confirmed(&back, "archived_active"));
    }
    let undo = SmallForm::new("/jobs/unarchive").with("back", back.clone());
    let undo = chosen.into_iter().fold(undo, |form, job| form.with("job", job));
    Ok(toast::undoable(frame, &back, "archived", &undo))
}

/// The jobs that were changed.
struct Controlled {
    /// The values that name the jobs in the form.
    chosen: Vec<String>,
    /// True if any of the jobs was active.
    any_active: bool,
}

/// Changes the jobs in a form.
async fn control(frame: &Frame, fields: &Fields, control: Control) -> Result<Controlled, Failure> {
    frame.needs_write()?;
    let chosen = fields.all("job");
    if chosen.is_empty() {
        return Err(Failure::Form("no job is chosen; choose at least one".to_owned()));
    }
    if chosen.len() > MAX_CHOSEN {
        return Err(Failure::Form(format!("at most {MAX_CHOSEN} jobs can be archived at once")));
    }
    let jobs: Option<Vec<(ProjectId, JobId)>> = chosen.iter().map(|key| job(key)).collect();
    let mut any_active = false;
    for (project, job) in jobs.ok_or(Failure::NotFound("job"))? {
        let before = frame.shared.services.store.job(job).await?;
        any_active |= before.is_some_and(|job| job.status() == JobStatus::Active);
        frame.cases().control_job(&frame.caller(), &project, job, control, None).await?;
    }
    Ok(Controlled { chosen, any_active })
}

/// Returns the path of the list.
fn back(fields: &Fields) -> String {
    words::return_path(&fields.text("back")).to_owned()
}

/// Reads a project and a job.
fn job(key: &str) -> Option<(ProjectId, JobId)> {
    let (project, job) = key.split_once('/')?;
    Some((project.parse().ok()?, job.parse().ok()?))
}
