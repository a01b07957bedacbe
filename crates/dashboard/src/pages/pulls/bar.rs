//! The bar of a pull request, which its tabs share.

use journeyman_core::code_host::PullState;
use journeyman_core::job::{Job, JobStatus};

use super::Target;
use super::badge::Badge;
use super::read::Read;
use crate::diff::Outline;
use crate::size::Size;
use crate::visible;
use crate::words::counted;

/// The bar.
pub(super) struct Bar {
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) badge: Badge,
    pub(super) head: String,
    pub(super) base: String,
    /// The path and the title of the job that opened it.
    pub(super) job: Option<(String, String)>,
    /// True if the job can get messages.
    pub(super) is_job_open: bool,
    pub(super) is_open: bool,
    pub(super) size: Size,
    pub(super) files: usize,
    pub(super) commits: usize,
    /// The number of comments and reviews that others see too.
    pub(super) comments: usize,
    /// The number of comments that the viewer has collected for a review.
    pub(super) drafts: usize,
    /// True if the button for a review is filled: the pull request is open, and a review is the next thing to do.
    pub(super) is_review_next: bool,
}

impl Bar {
    pub(super) fn new(at: &Target, read: &Read, outline: &Outline<'_>) -> Self {
        let pull = &read.detail.pull;
        let job = read.job.as_ref();
        let drafts = read.comments.iter().filter(|one| one.comment.is_draft).count();
        let shown = read.comments.iter().filter(|one| one.is_root()).count();
        Self {
            number: pull.number,
            title: visible::line(&pull.title).into_owned(),
            badge: Badge::of(pull),
            head: visible::line(&pull.head).into_owned(),
            base: visible::line(&pull.base).into_owned(),
            job: job.map(|job| (at.path(&format!("/jobs/{}", job.id)), visible::line(&job.title).into_owned())),
            is_job_open: job.is_some_and(is_open),
            is_open: pull.state == PullState::Open,
            size: outline.size(),
            files: outline.0.len(),
            commits: read.detail.commits.len(),
            comments: shown - drafts,
            drafts,
            is_review_next: pull.state == PullState::Open,
        }
    }

    /// Returns the number of commits as a text.
    pub(super) fn commits_text(&self) -> String {
        counted(self.commits, "commit")
    }
}

/// Returns true if the job can get messages.
pub(super) fn is_open(job: &Job) -> bool {
    job.status() != JobStatus::Archived
}
