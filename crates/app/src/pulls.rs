//! Use cases about pull requests of the built-in code host.

use journeyman_core::admin::{Once, Subject};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ids::{MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::{Cursor, JobFilter, PullPagesError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::comment::{check, prompt};
use journeyman_core::pull::{LocalPull, NewComment, PullEnding, PullState, decide};

use crate::{Caller, Error, Idempotency, MessageRequest, RefusalKind, UseCases, claim};

/// The number of jobs that are read at a time.
const BATCH: usize = 200;

/// The maximum number of batches that are read.
const MAX_BATCHES: usize = 25;

/// The result of [`UseCases::comment_on_pull`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commented {
    /// The comment was added.
    Added,
    /// The comment was added, and sent to the job as a message.
    Sent,
}

impl UseCases {
    /// Merges a pull request, and records that it is merged. If the record failed after the merge, a repetition only
    /// records it.
    ///
    /// # Errors
    /// The caller may only read, the pull request does not exist or is not open, its branches conflict, or the
    /// repository or the store failed.
    pub async fn merge_pull(&self, caller: &Caller, project: &ProjectId, number: u64) -> Result<(), Error> {
        caller.needs_write()?;
        let project = self.known_project(caller, project).await?;
        let at = self.parts().engine.now();
        let between = Some(self.parts().pulls.merge(&project, number, caller.name(), at).await?);
        self.end_pull(caller, &project, number, PullEnding { state: PullState::Merged, at, between }).await
    }

    /// Closes a pull request, which may have lost its branches.
    ///
    /// # Errors
    /// The caller may only read, the pull request does not exist or is not open, or the store failed.
    pub async fn close_pull(&self, caller: &Caller, project: &ProjectId, number: u64) -> Result<(), Error> {
        caller.needs_write()?;
        let project = self.known_project(caller, project).await?;
        let between = match self.parts().pulls.ends(&project, number).await {
            Err(PullPagesError::NotFound) => return Err(PullPagesError::NotFound.into()),
            ends => ends.ok().flatten(),
        };
        let at = self.parts().engine.now();
        self.end_pull(caller, &project, number, PullEnding { state: PullState::Closed, at, between }).await
    }

    async fn end_pull(&self, caller: &Caller, project: &Project, number: u64, ending: PullEnding) -> Result<(), Error> {
        let audit = self.audit(caller, &format!("pull.{}", ending.state.name()), audited(project, number));
        let subject = Subject::Pull(repository(project)?, number);
        let decide = Box::new(move |state: &_| decide::end(state, ending.clone(), audit.clone()));
        self.administer(subject, None, decide).await?;
        Ok(())
    }

    /// Adds a comment to a pull request. A comment that begins with a mention is also sent to the job that opened the
    /// pull request. `once` is an idempotency key: a repetition sends and adds nothing.
    ///
    /// # Errors
    /// The caller may only read, the text is not valid, the pull request does not exist, no job opened it, the job does
    /// not accept the message, or the store failed.
    pub async fn comment_on_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        body: String,
        once: Option<String>,
    ) -> Result<Commented, Error> {
        caller.needs_write()?;
        let project = self.known_project(caller, project).await?;
        let repository = repository(&project)?;
        let pull = self.parts().store.pull(repository.clone(), number).await?.ok_or(PullPagesError::NotFound)?;
        check(&body).map_err(Error::invalid)?;
        let message = match prompt(&body) {
            Some(prompt) => Some(self.send_comment(caller, &project, &pull, prompt, once.as_deref()).await?),
            None => None,
        };
        let audit = self.audit(caller, "pull.commented", audited(&project, number));
        let once = once.map(|key| {
            // The message has the key itself.
            let fingerprint = Fingerprint::of("comment", format!("{number} {body}").as_bytes());
            Idempotency { key: format!("{key}/comment"), fingerprint }
        });
        let once = claim(caller, Some(project.id.clone()), once).map(|claim| Once { claim, answer: String::new() });
        let new = NewComment { author: caller.name().to_owned(), body, at: self.parts().engine.now(), message };
        let decide = Box::new(move |state: &_| decide::comment(state, new.clone(), audit.clone()));
        self.administer(Subject::Pull(repository, number), once, decide).await?;
        Ok(if message.is_some() { Commented::Sent } else { Commented::Added })
    }

    /// Sends a message from a comment to the job that opened the pull request.
    async fn send_comment(
        &self,
        caller: &Caller,
        project: &Project,
        pull: &LocalPull,
        prompt: &str,
        once: Option<&str>,
    ) -> Result<MessageId, Error> {
        let Some(job) = self.job_of_pull(caller, &project.id, pull).await? else {
            let text = "no job of this project opened this pull request, so the comment cannot be sent to a job; remove \
                        @journeyman from its beginning to add it as an ordinary comment";
            return Err(Error::refused(RefusalKind::JobNotFound, text));
        };
        let caller = Caller { origin: Origin::PullRequest, ..caller.clone() };
        let request = MessageRequest { prompt: prompt.to_owned(), delivery: DeliveryMode::Queue };
        let once = once.map(|key| {
            let fingerprint = Fingerprint::of("message of a comment", format!("{} {prompt}", job.id).as_bytes());
            Idempotency { key: key.to_owned(), fingerprint }
        });
        self.send_message(&caller, &project.id, job.id, request, once).await?;
        // The newest message with this text is the one that was just accepted.
        let messages = self.parts().store.messages(job.id).await?;
        let sent = messages.iter().rev().find(|message| message.prompt == prompt).map(|message| message.id);
        sent.ok_or_else(|| Error::Internal("a message that was just accepted is missing".to_owned()))
    }

    /// Returns the job that opened a pull request; `None` if it is not among the last 5,000 jobs that were created
    /// before the pull request. The newest jobs are searched first, because it is usually one of them.
    ///
    /// # Errors
    /// The caller may not see the project, or the store failed.
    pub async fn job_of_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        pull: &LocalPull,
    ) -> Result<Option<Job>, Error> {
        caller.needs_project(project)?;
        let mut after = None;
        for _ in 0..MAX_BATCHES {
            let created_before = Some(pull.created_at);
            let filter = JobFilter { created_before, after, ..JobFilter::newest(project.clone(), BATCH) };
            let jobs = self.parts().store.jobs(filter).await?;
            let has_opened = |job: &&Job| {
                let has_number = job.pull.as_ref().is_some_and(|known| known.number == pull.number);
                // The project may have had another repository, whose pull requests have the same numbers.
                has_number && parse_address(&job.source.repository) == Ok(Address::Local(pull.repository.clone()))
            };
            if let Some(job) = jobs.iter().find(has_opened) {
                return Ok(Some(job.clone()));
            }
            match jobs.last().filter(|_| jobs.len() == BATCH) {
                Some(last) => after = Some(Cursor { created_at: last.created_at, id: last.id }),
                None => break,
            }
        }
        Ok(None)
    }
}

/// Returns the name of the project's repository on the built-in code host.
fn repository(project: &Project) -> Result<String, Error> {
    match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Ok(name),
        _ => Err(PullPagesError::NotFound.into()),
    }
}

/// Returns the pull request as the subject of an audit entry.
fn audited(project: &Project, number: u64) -> String {
    format!("{}#{number}", project.id)
}
