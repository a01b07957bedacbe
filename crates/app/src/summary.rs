//! The summary of a message on its code host: one comment, which shows the progress and then the answer.
//!
//! Processes that write a summary hold a lock, and read the message again under it. So the progress never replaces the
//! answer, and the answer, whose effect is repeated until it succeeds, replaces the last progress.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use journeyman_core::conversation::{CommentTarget, InThread, Replied};
use journeyman_core::ids::MessageId;
use journeyman_core::inbox::answer;
use journeyman_core::job::Job;
use journeyman_core::message::{Message, MessageStatus, PlanProgress};
use journeyman_core::outbox::TASK_LEASE;
use journeyman_core::ports::{Discussion, ForgeError, MessageFilter, StoreError};
use journeyman_core::project::{Answers, Resolve};
use uuid::Uuid;

use crate::UseCases;
use crate::effects::failed::Failed;
use crate::effects::repository::is_at;

/// The time for which a summary is locked if its process dies. It is longer than the time limits of those who write it.
const LOCKED: Duration = TASK_LEASE;

/// The number of attempts to lock a summary, and the delay between them. A request to a code host takes less.
const ATTEMPTS: usize = 4;
const DELAY: Duration = Duration::from_millis(150);

/// The time limit for showing the progress of one message.
const LIMIT: Duration = Duration::from_secs(60);

/// The number of messages whose progress is shown at the same time.
const BATCH: usize = 8;

/// The number of messages that are read at once.
const PAGE: usize = 200;

/// A message whose summary is shown in a discussion.
pub(crate) struct Summary<'a> {
    pub(crate) job: &'a Job,
    pub(crate) message: &'a Message,
    pub(crate) discussion: &'a dyn Discussion,
}

impl UseCases {
    /// Returns the page of a job.
    pub(crate) fn job_page(&self, job: &Job) -> String {
        format!("{}/projects/{}/jobs/{}", self.parts().public_url, job.project, job.id)
    }

    /// Locks the summary of a message. Returns the holder of the lock.
    async fn lock_summary(&self, message: MessageId) -> Result<Uuid, Failed> {
        let store = &self.parts().store;
        let holder = self.parts().ids.uuid(self.parts().engine.now());
        for attempt in 1..=ATTEMPTS {
            if store.lock(lock_name(message), holder, self.parts().engine.now(), LOCKED).await? {
                return Ok(holder);
            }
            if attempt < ATTEMPTS {
                tokio::time::sleep(DELAY).await;
            }
        }
        Err(Failed::Later("another process writes the summary of the message now".to_owned()))
    }

    async fn unlock_summary(&self, message: MessageId, holder: Uuid) -> Result<(), StoreError> {
        self.parts().store.unlock(lock_name(message), holder).await
    }

    /// Shows the progress of a message in its summary, which is written if there is none and `creates` is true. Returns the
    /// text; `None` if the message has ended.
    pub(crate) async fn show_progress(
        &self,
        summary: &Summary<'_>,
        plan: Option<&PlanProgress>,
        creates: bool,
    ) -> Result<Option<String>, Failed> {
        let Some(target) = answer::target(summary.message) else { return Ok(None) };
        let id = summary.message.id;
        let holder = self.lock_summary(id).await?;
        let shown = self.show_progress_at(target, summary, plan, creates).await;
        self.unlock_summary(id, holder).await?;
        shown
    }

    async fn show_progress_at(
        &self,
        target: CommentTarget,
        summary: &Summary<'_>,
        plan: Option<&PlanProgress>,
        creates: bool,
    ) -> Result<Option<String>, Failed> {
        let Some(message) = self.parts().store.message(summary.message.id).await? else { return Ok(None) };
        let waiting = summary.job.waiting().map(|(waiting, _)| &waiting.reason);
        let Some(text) = answer::progress(&message, plan, waiting, &self.job_page(summary.job)) else {
            return Ok(None);
        };
        match summary.discussion.show(target, &answer::marker(&message), &text, creates).await {
            // The answer will meet the same, and say so in the log.
            Err(ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_)) | Ok(_) => Ok(Some(text)),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows where the review of a message is in its summary, if there is one.
    pub(crate) async fn show_review(&self, summary: &Summary<'_>, review: &str) -> Result<(), Failed> {
        let Summary { job, message, discussion } = summary;
        let Some(target) = answer::target(message).filter(|_| discussion.can_update()) else { return Ok(()) };
        let holder = self.lock_summary(message.id).await?;
        let text = answer::reviewed(review, &self.job_page(job));
        let shown = discussion.show(target, &answer::marker(message), &text, false).await;
        self.unlock_summary(message.id, holder).await?;
        shown?;
        Ok(())
    }

    /// Shows the answer to a message that has ended in its summary, and replies in the threads of its comments. Returns
    /// false if there is no answer.
    pub(crate) async fn show_answer(&self, summary: &Summary<'_>, resolve: Resolve) -> Result<bool, Failed> {
        let Summary { job, message, discussion } = summary;
        let (Some(target), reason) = (answer::target(message), self.reason_of(message).await?) else {
            return Ok(false);
        };
        let page = self.job_page(job);
        let text = |refused: &[String]| answer::answer(message, reason.as_ref(), &page, refused);
        let Some(first) = text(&[]) else { return Ok(false) };
        // People see that a withdrawn message was withdrawn only where they saw that it waited.
        let is_withdrawn = message.status == MessageStatus::Withdrawn;
        if !discussion.can_update() {
            if is_withdrawn {
                return Ok(false);
            }
            discussion.comment(target, &answer::marker(message), &first).await?;
            return Ok(true);
        }
        let holder = self.lock_summary(message.id).await?;
        let marker = answer::marker(message);
        let shown = async {
            let Some(url) = discussion.show(target, &marker, &first, !is_withdrawn).await? else { return Ok(()) };
            let refused = reply(*discussion, target, message, &url, resolve).await?;
            if let Some(text) = text(&refused).filter(|_| !refused.is_empty()) {
                discussion.show(target, &marker, &text, true).await?;
            }
            Ok(())
        };
        let shown: Result<(), Failed> = shown.await;
        self.unlock_summary(message.id, holder).await?;
        shown.map(|()| !is_withdrawn)
    }
}

fn lock_name(message: MessageId) -> String {
    format!("summary/{message}")
}

/// Replies in the threads of the comments of a message, and marks them as resolved if the setting says so. Returns the IDs of
/// the comments whose threads accept no reply.
async fn reply(
    discussion: &dyn Discussion,
    target: CommentTarget,
    message: &Message,
    summary: &str,
    resolve: Resolve,
) -> Result<Vec<String>, Failed> {
    let replies = answer::replies(message, summary);
    if replies.is_empty() {
        return Ok(Vec::new());
    }
    let new: Vec<_> = replies.iter().map(|one| one.reply.clone()).collect();
    let results = discussion.reply(target, &new).await?;
    let (mut refused, mut answered): (Vec<String>, Vec<InThread>) = (Vec::new(), Vec::new());
    for (one, result) in replies.into_iter().zip(results) {
        match result {
            Replied::Written(_) if one.has_commits => answered.push(one.reply.to),
            Replied::Written(_) => {}
            Replied::Refused(error) => {
                tracing::info!(id = %message.id, error, "a code host accepts no reply in a thread");
                refused.extend(one.comments);
            }
        }
    }
    if resolve == Resolve::Answered && !answered.is_empty() {
        match discussion.resolve(target, &answered).await {
            Err(error @ (ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_))) => {
                tracing::warn!(id = %message.id, %error, "threads could not be marked as resolved");
            }
            resolved => resolved?,
        }
    }
    Ok(refused)
}

/// Shows the progress of messages that agents work on. One process does so at a time.
pub struct ProgressReporter {
    cases: UseCases,
    /// The newest text of each message that this process has shown. Another process reads the comments to know it.
    shown: Mutex<HashMap<MessageId, String>>,
}

impl ProgressReporter {
    /// The time between two changes of a summary, and before the first one.
    pub const PERIOD: Duration = Duration::from_secs(15);

    /// Returns a reporter over these use cases.
    #[must_use]
    pub fn new(cases: UseCases) -> Self {
        Self { cases, shown: Mutex::default() }
    }

    /// Returns the messages whose progress people may see: those that agents have worked on for [`Self::PERIOD`].
    async fn due(&self) -> Result<Vec<Message>, StoreError> {
        let (store, now) = (&self.cases.parts().store, self.cases.parts().engine.now());
        let (mut due, mut after) = (Vec::new(), None);
        loop {
            let statuses = vec![MessageStatus::Delivered];
            let filter = MessageFilter { projects: None, statuses, updated_since: None, after, limit: PAGE };
            let found = store.find_messages(filter).await?;
            let is_last = found.len() < PAGE;
            after = found.last().map(|last| (last.updated_at(), last.id));
            let is_due = |message: &Message| {
                let since = message.delivered_at.is_some_and(|at| at + Self::PERIOD <= now);
                since && answer::has_progress(message)
            };
            due.extend(found.into_iter().filter(is_due));
            if is_last {
                return Ok(due);
            }
        }
    }

    /// Returns whether there are messages whose progress may be shown.
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_needed(&self) -> Result<bool, StoreError> {
        Ok(!self.due().await?.is_empty())
    }

    /// Shows the progress of all messages that agents work on, if it has changed.
    ///
    /// # Errors
    /// The store failed. What a code host refuses is only in the log, because the answer comes later.
    pub async fn report(&self) -> Result<(), StoreError> {
        let due = self.due().await?;
        let jobs = due.iter().map(|message| message.job).collect();
        let plans = self.cases.parts().store.summaries_of_jobs(jobs).await?;
        self.lock_shown().retain(|id, _| due.iter().any(|message| message.id == *id));
        for batch in due.chunks(BATCH) {
            let show = |message: &Message| {
                let plan = plans.get(&message.job).and_then(|summary| summary.plan.clone());
                let message = message.clone();
                async move { tokio::time::timeout(LIMIT, self.show(&message, plan.as_ref())).await }
            };
            for (message, shown) in batch.iter().zip(join_all(batch.iter().map(show)).await) {
                match shown {
                    Ok(Ok(())) => {}
                    Ok(Err(Failed::Later(error) | Failed::Never(error))) => {
                        tracing::debug!(id = %message.id, error, "the progress of a message could not be shown");
                    }
                    Err(_) => tracing::debug!(id = %message.id, "showing the progress of a message took too long"),
                }
            }
        }
        Ok(())
    }

    async fn show(&self, message: &Message, plan: Option<&PlanProgress>) -> Result<(), Failed> {
        let parts = self.cases.parts();
        let Some(job) = parts.store.job(message.job).await? else { return Ok(()) };
        let waiting = job.waiting().map(|(waiting, _)| &waiting.reason);
        let text = answer::progress(message, plan, waiting, &self.cases.job_page(&job));
        if self.lock_shown().get(&message.id) == text.as_ref() {
            return Ok(());
        }
        let Some(project) = parts.store.project(job.project.clone()).await? else { return Ok(()) };
        if project.settings.comments.answers != Answers::Full {
            return Ok(());
        }
        let forge = parts.forges.of(&project).await?;
        let (Some(discussion), Some(source)) = (forge.discussion(), &message.source) else { return Ok(()) };
        if !discussion.can_update() || !is_at(&*forge, &source.repository).await? {
            return Ok(());
        }
        // A person may have deleted the summary. The answer writes it again.
        let summary = Summary { job: &job, message, discussion };
        if let Some(text) = self.cases.show_progress(&summary, plan, false).await? {
            self.lock_shown().insert(message.id, text);
        }
        Ok(())
    }

    fn lock_shown(&self) -> MutexGuard<'_, HashMap<MessageId, String>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
