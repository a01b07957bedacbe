//! The state of a pull request that its tabs show.

use std::collections::HashMap;

use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::PullDetail;
use journeyman_core::pull::{Comment, Verdict};

use super::Target;
use super::progress::{self, Progress};
use crate::Shared;
use crate::diff::LineKey;
use crate::failure::Failure;

/// A form of the pages.
pub(super) enum Form {
    Comment,
    /// A review with its verdict.
    Review(Verdict),
    Line(LineKey),
}

/// A form that was refused, with its text and the reason.
pub(super) struct Refused {
    pub(super) form: Form,
    pub(super) draft: String,
    pub(super) error: String,
}

/// The state of a pull request.
pub(super) struct Read {
    pub(super) detail: PullDetail,
    pub(super) comments: Vec<Comment>,
    pub(super) progress: HashMap<u64, Progress>,
    pub(super) job: Option<Job>,
    /// The messages of the job.
    pub(super) messages: Vec<Message>,
}

impl Read {
    pub(super) async fn of(shared: &Shared, target: &Target) -> Result<Self, Failure> {
        let detail = {
            let _permit = shared.may_run_git(target.viewer.user.id).await?;
            shared.services.pulls.pull(&target.project, target.number).await?
        };
        let comments = target.cases().comments_of_pull(&target.caller(), &detail.pull).await?;
        let job = target.cases().job_of_pull(&target.caller(), &target.project.id, &detail.pull).await?;
        let messages = match &job {
            Some(job) => shared.services.store.messages(job.id).await?,
            None => Vec::new(),
        };
        let about = (&detail.pull, job.as_ref(), messages.as_slice());
        let progress = progress::progress(shared, target, about, &comments).await?;
        Ok(Self { detail, comments, progress, job, messages })
    }
}
