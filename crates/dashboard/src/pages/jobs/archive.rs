//! The forms that archive the jobs that were chosen in a list, and undo that.

use axum::response::Response;
use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, ProjectId};

use super::query::ON_PAGE;
use crate::failure::{Failure, Page};
use crate::fields::Fields;
use crate::frame::Frame;
use crate::toast::{self, SmallForm};
use crate::words;

/// The maximum number of jobs in a form: the active jobs and the others on a page.
const MAX_CHOSEN: usize = 2 * ON_PAGE;

/// The maximum number of jobs that can be unarchived with one button: they are in the URL, whose length proxies limit.
const MAX_UNDONE: usize = 40;

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
    let jobs = control(frame, fields, Control::Archive).await?;
    let back = back(fields);
    if jobs.len() > MAX_UNDONE {
        return Ok(toast::confirmed(&back, "archived"));
    }
    let undo = SmallForm::new("/jobs/unarchive").with("back", back.clone());
    let undo = jobs.into_iter().fold(undo, |form, job| form.with("job", job));
    Ok(toast::undoable(frame, &back, "archived", &undo))
}

/// Changes the jobs in a form, and returns the values that name them.
async fn control(frame: &Frame, fields: &Fields, control: Control) -> Result<Vec<String>, Failure> {
    frame.needs_write()?;
    let chosen = fields.all("job");
    if chosen.is_empty() {
        return Err(Failure::Form("no job is chosen; choose at least one".to_owned()));
    }
    if chosen.len() > MAX_CHOSEN {
        return Err(Failure::Form(format!("at most {MAX_CHOSEN} jobs can be archived at once")));
    }
    let jobs: Option<Vec<(ProjectId, JobId)>> = chosen.iter().map(|key| job(key)).collect();
    for (project, job) in jobs.ok_or(Failure::NotFound("job"))? {
        frame.cases().control_job(&frame.caller(), &project, job, control, None).await?;
    }
    Ok(chosen)
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
