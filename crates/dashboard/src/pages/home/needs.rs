//! What needs a person: failed jobs, and pull requests to review.

use journeyman_core::checks::CheckResult;
use journeyman_core::job::{Job, JobState};
use journeyman_core::ports::StoreError;
use journeyman_core::pull::PullState;
use journeyman_core::run::ReasonCode;

use crate::Shared;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::jobs::row::{self, JobRow, Places};
use crate::size::Size;
use crate::visible;

/// A row of *Needs you*.
pub(super) struct Need {
    /// The mark of a failed job, or the icon of a pull request with its color.
    pub(super) sign: Sign,
    pub(super) title: String,
    pub(super) href: String,
    pub(super) project: String,
    pub(super) text: String,
    pub(super) size: Option<Size>,
    pub(super) since: Moment,
    /// The label and the page of the button.
    pub(super) verb: (&'static str, String),
}

/// The sign in front of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// A job has failed.
    Failed,
    /// A pull request whose checks have failed.
    ChecksFailed,
    /// A pull request.
    Review,
}

/// Returns true if a job has failed, and was not cancelled by a person.
pub(super) fn has_failed(job: &Job) -> bool {
    matches!(&job.state, JobState::Failed(reason) if reason.code != ReasonCode::Cancelled)
}

/// Returns true if the current pull request of a job is open, has changes of the job, and is no draft.
pub(super) fn is_reviewed(job: &Job) -> bool {
    job.pull.as_ref().is_some_and(|pull| pull.state == PullState::Open && !pull.draft && !pull.is_untouched)
}

/// Returns the rows: failed jobs first, then pull requests.
pub(super) async fn needs(
    shared: &Shared,
    frame: &Frame,
    places: &Places,
    failed: &[Job],
    to_review: &[Job],
) -> Result<Vec<Need>, StoreError> {
    let jobs: Vec<Job> = failed.iter().chain(to_review).cloned().collect();
    let rows = row::rows(shared, places, &jobs).await?.rows;
    let job_of = |row: &JobRow| jobs.iter().find(|job| row.key.ends_with(&job.id.to_string()));
    let need = |row: JobRow| {
        let job = job_of(&row)?;
        Some(if has_failed(job) { Need::failed(frame, job, row) } else { Need::review(job, row) })
    };
    Ok(rows.into_iter().filter_map(need).collect())
}

impl Need {
    /// Returns true for a failed job.
    pub(super) fn is_failed(&self) -> bool {
        self.sign == Sign::Failed
    }

    /// Returns the class of the icon's color.
    pub(super) fn tone(&self) -> &'static str {
        match self.sign {
            Sign::Failed | Sign::ChecksFailed => "bad",
            Sign::Review => "good",
        }
    }

    fn failed(frame: &Frame, job: &Job, row: JobRow) -> Self {
        let code = match &job.state {
            JobState::Failed(reason) => reason.code,
            _ => ReasonCode::Unknown,
        };
        let (label, page) = remedy(code).filter(|_| frame.viewer.is_administrator()).unwrap_or(("View", ""));
        let href = if page.is_empty() { row.path.clone() } else { format!("/projects/{}{page}", job.project) };
        Self {
            sign: Sign::Failed,
            text: row.note.map(|note| note.text).unwrap_or_default(),
            verb: (label, href),
            title: row.title,
            href: row.path,
            project: row.project,
            size: None,
            since: row.since,
        }
    }

    fn review(job: &Job, row: JobRow) -> Self {
        let result = job.checks.as_ref().map(|checks| checks.result);
        let (sign, text, label) = match result {
            Some(CheckResult::Failed) => (Sign::ChecksFailed, "checks failed", "View"),
            Some(CheckResult::Passed) => (Sign::Review, "all checks passed", "Review"),
            _ => (Sign::Review, "", "Review"),
        };
        let pull = job.pull.as_ref();
        let title = pull.and_then(|pull| pull.title.as_deref()).unwrap_or(&job.title);
        let number = pull.map(|pull| pull.number).unwrap_or_default();
        let href = row.pull.map_or_else(|| row.path.clone(), |pill| pill.href);
        Self {
            sign,
            title: format!("#{number} {}", visible::line(title)),
            href: href.clone(),
            project: row.project,
            text: text.to_owned(),
            size: row.size,
            since: row.since,
            verb: (label, href),
        }
    }
}

/// Returns the verb that remedies a failure, and the page of the project's settings for it.
const fn remedy(code: ReasonCode) -> Option<(&'static str, &'static str)> {
    match code {
        ReasonCode::ModelUnauthorized => Some(("Fix key", "/settings/environment")),
        ReasonCode::ModelNotConfigured | ReasonCode::UnknownAgent | ReasonCode::SetupFailed => {
            Some(("Fix settings", "/settings/agent"))
        }
        ReasonCode::OverBudget => Some(("Raise budget", "/settings/limits")),
        ReasonCode::RepositoryNotFound | ReasonCode::CredentialRefused | ReasonCode::PermissionMissing => {
            Some(("Fix access", "/settings/repository"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_a_setting_remedies_lead_to_it() {
        assert_eq!(remedy(ReasonCode::ModelUnauthorized), Some(("Fix key", "/settings/environment")));
        assert_eq!(remedy(ReasonCode::OutOfMemory), None);
    }
}
