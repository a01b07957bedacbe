//! Items that need a person: failed jobs, and pull requests whose checks have failed, that have conflicts, or that wait for
//! a review.

use std::collections::BTreeMap;

use journeyman_core::checks::CheckResult;
use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::{Job, JobState};
use journeyman_core::ports::StoreError;
use journeyman_core::run::ReasonCode;

use crate::frame::Frame;
use crate::moment::Moment;
use crate::pages::job::outcome::{failed_message, retry_key};
use crate::pages::jobs::row::{self, JobRow, ProjectContexts};
use crate::size::Size;
use crate::{Shared, visible, words};

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
    /// The form *Try again*, in place of the button.
    pub(super) again: Option<Again>,
}

/// The form that sends the last message of a failed job once more.
pub(super) struct Again {
    pub(super) action: String,
    pub(super) message: MessageId,
    /// The idempotency key.
    pub(super) once: String,
}

impl Again {
    /// Returns the form for a job that failed; `None` if a setting is the remedy, or the viewer may not send messages.
    async fn of(shared: &Shared, frame: &Frame, job: &Job, row: &JobRow) -> Result<Option<Self>, StoreError> {
        let JobState::Failed(reason) = &job.state else { return Ok(None) };
        if remedy(reason.code).is_some() || !frame.viewer.can_write() {
            return Ok(None);
        }
        let store = &shared.services.store;
        let mut messages: Vec<_> = store.newest_message(job.id).await?.into_iter().collect();
        // A message that was withdrawn from the queue may be newer than the one that failed.
        if messages.iter().any(|message| message.delivered_at.is_none()) {
            messages = store.messages(job.id).await?;
        }
        Ok(failed_message(job, &messages).map(|message| Self {
            action: format!("{}/again", row.path),
            message: message.id,
            once: retry_key(message.id),
        }))
    }
}

/// The sign in front of a row, in the order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    /// A job has failed.
    Failed,
    /// A pull request whose checks have failed.
    ChecksFailed,
    /// A pull request that conflicts with its base.
    Conflict,
    /// A pull request to review.
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

/// Returns the numbers of conflicting files of the pull requests of jobs, on all code hosts, as they are stored.
async fn conflicts(
    shared: &Shared,
    contexts: &ProjectContexts,
    jobs: &[Job],
) -> Result<BTreeMap<JobId, usize>, StoreError> {
    let mut of_projects: BTreeMap<&ProjectId, Vec<(JobId, PullRef)>> = BTreeMap::new();
    for job in jobs {
        let Some(pull) = job.pull.as_ref().filter(|pull| pull.state == PullState::Open) else { continue };
        let Some(repository) = pull.repository.clone() else { continue };
        of_projects.entry(&job.project).or_default().push((job.id, PullRef { repository, number: pull.number }));
    }
    let mut found = BTreeMap::new();
    for (project, of_jobs) in of_projects {
        let Some(at) = contexts.get(project) else { continue };
        let (ids, pulls): (Vec<JobId>, Vec<PullRef>) = of_jobs.into_iter().unzip();
        let known = shared.services.cases.known_comparisons(&at.project, &pulls).await?;
        found.extend(ids.into_iter().zip(known).filter_map(|(id, known)| Some((id, known.conflicts()?))));
    }
    Ok(found)
}

/// Returns the rows: failed jobs first, then pull requests in the order of their signs.
pub(super) async fn needs(
    shared: &Shared,
    frame: &Frame,
    contexts: &ProjectContexts,
    failed: &[Job],
    to_review: &[Job],
) -> Result<Vec<Need>, StoreError> {
    let jobs: Vec<Job> = failed.iter().chain(to_review).cloned().collect();
    let rows = row::rows(shared, contexts, &jobs).await?.rows;
    let conflicts = conflicts(shared, contexts, to_review).await?;
    let mut needs: Vec<Need> = Vec::new();
    for row in rows {
        let Some(job) = jobs.iter().find(|job| row.key.ends_with(&job.id.to_string())) else { continue };
        needs.push(match has_failed(job) {
            true => {
                let again = Again::of(shared, frame, job, &row).await?;
                Need { again, ..Need::failed(frame, job, row) }
            }
            false => Need::review(frame, job, row, conflicts.get(&job.id).copied()),
        });
    }
    needs.sort_by_key(|need| need.sign);
    Ok(needs)
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
            Sign::Conflict => "warn",
            Sign::Review => "good",
        }
    }

    /// Returns the name of the icon.
    pub(super) fn icon(&self) -> &'static str {
        if self.sign == Sign::Conflict { "merge" } else { "pull" }
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
            again: None,
        }
    }

    fn review(frame: &Frame, job: &Job, row: JobRow, conflicts: Option<usize>) -> Self {
        let result = job.checks.as_ref().map(|checks| checks.result);
        let (sign, text, label) = match (result, conflicts) {
            (Some(CheckResult::Failed), _) => (Sign::ChecksFailed, "checks failed".to_owned(), "View"),
            (_, Some(count)) => {
                let text = format!("conflicts with its base in {}", words::counted(count, "file"));
                (Sign::Conflict, text, if frame.viewer.can_write() { "Resolve" } else { "View" })
            }
            (Some(CheckResult::Passed), None) => (Sign::Review, "all checks passed".to_owned(), "Review"),
            (_, None) => (Sign::Review, String::new(), "Review"),
        };
        let pull = job.pull.as_ref();
        let title = pull.and_then(|pull| pull.title.as_deref()).unwrap_or(&job.title);
        let number = pull.map(|pull| pull.number).unwrap_or_default();
        let href = row.pull.map_or_else(|| row.path.clone(), |pill| pill.href);
        // The merge box shows the conflicting files, and the button that asks the agent.
        let page = if sign == Sign::Conflict { format!("{href}#merge") } else { href.clone() };
        Self {
            sign,
            title: format!("#{number} {}", visible::line(title)),
            href,
            project: row.project,
            text,
            size: row.size,
            since: row.since,
            again: None,
            verb: (label, page),
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
