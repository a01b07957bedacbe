//! The parts that the rows of both lists of pull requests have: the job, its work, and the size.

use journeyman_core::code_host::PullState;
use journeyman_core::job::{Job, JobStatus};

use crate::in_project::InProject;
use crate::size::Size;
use crate::visible;

/// The states in the order of the filter.
pub(super) const STATES: [PullState; 3] = [PullState::Open, PullState::Merged, PullState::Closed];

/// The link to the job of a pull request.
pub(super) struct JobLink {
    pub(super) href: String,
    /// The title of the job, unless it is that of the pull request.
    pub(super) title: Option<String>,
}

impl JobLink {
    /// Returns the link to a job. `title` is the title of the pull request.
    pub(super) fn new(at: &InProject, job: &Job, title: &str) -> Self {
        Self {
            href: at.path(&format!("/jobs/{}", job.id)),
            title: (job.title != title).then(|| visible::line(&job.title).into_owned()),
        }
    }
}

/// Returns the class and the label of the badge of an open pull request whose job is active.
pub(super) fn work(state: PullState, job: &Job) -> Option<(&'static str, &'static str)> {
    let is_active = state == PullState::Open && job.status() == JobStatus::Active;
    let badge = if job.lease().is_some() { ("running", "agent works") } else { ("queued", "job waits") };
    is_active.then_some(badge)
}

/// Returns the size of a pull request from its job. An earlier pull request of a job has none: a job that went on after a
/// merge has another branch, whose size it stores.
pub(super) fn size(job: &Job, number: u64) -> Option<Size> {
    let is_current = job.pull.as_ref().is_some_and(|pull| pull.number == number);
    Size::of(job.diff.filter(|_| is_current)).filter(Size::has_lines)
}

#[cfg(test)]
mod tests {
    use journeyman_core::diff_stat::DiffStat;
    use journeyman_core::ids::JobId;
    use journeyman_core::job::Source;
    use journeyman_core::pull::Pull;
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_current_pull_request_of_a_job_has_a_size() {
        let source = Source { repository: "local:shop".to_owned(), reference: "main".to_owned() };
        let id = JobId::from_uuid(Uuid::from_u128(1));
        let mut job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
        job.pull = Some(Pull::new(8, "https://git.example/acme/shop/pull/8".to_owned()));
        let text = |job: &Job, number: u64| size(job, number).map(|size| size.text());
        assert_eq!(text(&job, 8), None, "an older version counted nothing");
        job.diff = Some(DiffStat { additions: 145, deletions: 0, files: 2 });
        assert_eq!((text(&job, 8).as_deref(), text(&job, 7)), (Some("+145"), None));
        job.diff = Some(DiffStat { additions: 0, deletions: 0, files: 1 });
        assert_eq!(text(&job, 8), None, "a binary file has no lines");
    }
}
