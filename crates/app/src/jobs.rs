//! Use cases about jobs.

use std::collections::BTreeMap;

use journeyman_core::branch::check_ref_name;
use journeyman_core::decision::job::{JobToDelete, delete};
use journeyman_core::engine::{Admission, Control, NewJob, Prompt};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::label::{InvalidLabel, Labels, Metadata};
use journeyman_core::job::{Job, JobOptions};
use journeyman_core::key::Scope;
use journeyman_core::message::{DeliveryMode, MessageStatus};
use journeyman_core::model::Effort;
use journeyman_core::ports::{Accepted, UpdateError};
use journeyman_core::prompt::{InvalidPrompt, check_prompt};
use journeyman_core::pull::existing::PullName;

use crate::{Caller, Error, Idempotency, RefusalKind, UseCases, claim};

/// The maximum length of names and titles in a request, in characters.
const NAME_CHARS: usize = 200;

/// A request for a new job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRequest {
    /// The first message.
    pub prompt: String,
    /// The ref to start from, instead of the project's.
    pub reference: Option<String>,
    /// The branch to push to, instead of a generated one.
    pub branch: Option<String>,
    /// The model, instead of the project's.
    pub model: Option<String>,
    /// The effort of the model, instead of the project's.
    pub effort: Option<Effort>,
    /// The agent, instead of the project's.
    pub agent: Option<String>,
    /// The title, instead of one made from the prompt.
    pub title: Option<String>,
    /// The draft setting of the pull request, instead of the project's.
    pub draft: Option<bool>,
    /// Whether the code host is asked to merge the pull request, instead of the project's setting.
    pub auto_merge: Option<bool>,
    /// The existing pull request to work on, instead of opening one: its number, or the URL of its page.
    pub pull_request: Option<String>,
    /// The labels.
    pub labels: Vec<String>,
    /// The metadata.
    pub metadata: BTreeMap<String, String>,
}

/// A request to send a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageRequest {
    /// The text.
    pub prompt: String,
    /// The mode of delivery to a busy job.
    pub delivery: DeliveryMode,
}

impl UseCases {
    /// Creates a job with its first message. When this returns, both are durable; the agent starts later.
    ///
    /// # Errors
    /// The request is not valid or not permitted, a job cannot work on the pull request, a rate limit is exceeded, or
    /// the store or the code host failed.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "create_job", %project))]
    pub async fn create_job(
        &self,
        caller: &Caller,
        project: &ProjectId,
        request: JobRequest,
        idempotency: Option<Idempotency>,
    ) -> Result<Accepted, Error> {
        caller.needs(Scope::Jobs)?;
        let project = self.known_project(caller, project).await?;
        let pull = request.pull_request.as_deref().map(pull_name).transpose()?;
        let mut new = new_job(caller, request)?;
        if let Some(branch) = new.options.branch.as_ref().filter(|name| project.settings.pull_request.protects(name)) {
            let text = format!("branch: jobs do not push to {branch:?} (pullRequest.protectedBranches); name another");
            return Err(Error::invalid(text));
        }
        let checked = self.check_agent(new.agent.as_deref().unwrap_or(&project.agent), &project.settings.sandbox);
        let limit = project.settings.limits.create_per_hour.unwrap_or(self.parts().create_per_hour);
        let admission = Admission { idempotency: claim(caller, Some(project.id.clone()), idempotency), limit };
        let engine = &self.parts().engine;
        // A repeated request gets the first answer, even if the project, the agents or the pull request have changed
        // since then.
        if checked.is_err() || pull.is_some() {
            match engine.replay_job(&project, new.clone(), admission.clone()).await {
                Err(UpdateError::NotReplayed) => checked?,
                replayed => return Ok(replayed?),
            }
        }
        if let Some(name) = pull {
            new.options.pull = Some(Box::new(self.existing_pull(caller, &project, &name).await?));
        }
        Ok(engine.create_job(&project, new, admission).await?)
    }

    /// Sends a message to a job. When this returns, the message is durable; the agent starts later.
    ///
    /// # Errors
    /// Fails like [`UseCases::create_job`], and if the job does not accept the message.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "send_message", %project, %job))]
    pub async fn send_message(
        &self,
        caller: &Caller,
        project: &ProjectId,
        job: JobId,
        request: MessageRequest,
        idempotency: Option<Idempotency>,
    ) -> Result<Accepted, Error> {
        caller.needs(Scope::Jobs)?;
        let project = self.known_project(caller, project).await?;
        let prompt = prompt(caller, request.prompt, request.delivery)?;
        let limit = project.settings.limits.message_per_hour.unwrap_or(self.parts().message_per_hour);
        let admission = Admission { idempotency: claim(caller, Some(project.id.clone()), idempotency), limit };
        Ok(self.parts().engine.add_message(&project.id, job, prompt, admission).await?)
    }

    /// Withdraws a queued message, and returns the job's record. Withdrawing it again changes nothing.
    ///
    /// # Errors
    /// The job or the message does not exist, the message was delivered already, or the store failed.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "withdraw", %project, %job, %message))]
    pub async fn withdraw(
        &self,
        caller: &Caller,
        project: &ProjectId,
        job: JobId,
        message: MessageId,
    ) -> Result<Accepted, Error> {
        caller.needs(Scope::Jobs)?;
        caller.needs_project(project)?;
        let store = &self.parts().store;
        let found = store.job(job).await?.filter(|job| job.project == *project).ok_or_else(Error::job_not_found)?;
        let known = store.message(message).await?.filter(|message| message.job == job);
        let missing = || Error::refused(RefusalKind::MessageNotFound, "there is no such message in this job");
        if known.ok_or_else(missing)?.status == MessageStatus::Withdrawn {
            return Ok(Accepted {
                record: found.record(),
                message: None,
                replayed: false,
                rate: None,
                job: Some(found),
            });
        }
        Ok(self.parts().engine.withdraw(project, job, message).await?)
    }

    /// Deletes a job with its messages, runs and log; its branch and its pull request stay. `is_expected` decides whether
    /// the job is in the state that the caller expects. Deleting it again changes nothing.
    ///
    /// # Errors
    /// The job does not exist, is active or has another state than expected, the project is not visible, or the store
    /// failed.
    pub async fn delete_job(
        &self,
        caller: &Caller,
        project: &ProjectId,
        job: JobId,
        is_expected: impl Fn(&Job) -> bool + Send + 'static,
    ) -> Result<(), Error> {
        caller.needs(Scope::Write)?;
        caller.needs_project(project)?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, "job.deleted", job);
        let (subject, project) = (JobToDelete(job, project.clone()), project.clone());
        let decide = move |state: &_| delete(state, &project, &is_expected, audit.clone());
        self.administer(subject, None, decide).await?;
        Ok(())
    }

    /// Cancels, archives, unarchives or retries a job, or cancels one message.
    ///
    /// # Errors
    /// The job does not exist, the project is not visible, or the store failed.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "control_job", %project, %job))]
    pub async fn control_job(
        &self,
        caller: &Caller,
        project: &ProjectId,
        job: JobId,
        control: Control,
        idempotency: Option<Idempotency>,
    ) -> Result<Accepted, Error> {
        caller.needs(match control {
            Control::Cancel | Control::CancelMessage(_) | Control::Retry => Scope::Jobs,
            Control::Archive | Control::Unarchive => Scope::Write,
        })?;
        caller.needs_project(project)?;
        let claim = claim(caller, Some(project.clone()), idempotency);
        Ok(self.parts().engine.control(project, job, control, claim).await?)
    }
}

fn pull_name(text: &str) -> Result<PullName, Error> {
    text.parse().map_err(|error| Error::invalid(format!("pullRequest: {error}")))
}

fn new_job(caller: &Caller, request: JobRequest) -> Result<NewJob, Error> {
    if request.pull_request.is_some() && (request.branch.is_some() || request.reference.is_some()) {
        let text = "pullRequest: the job works on the branch of the pull request, so branch and ref must not be given";
        return Err(Error::invalid(text));
    }
    if request.auto_merge == Some(true) && caller.needs(Scope::Write).is_err() {
        let text =
            "autoMerge: the API key needs the scope write, because the work reaches the base branch without a person";
        return Err(Error::invalid(text));
    }
    for (field, name) in [("ref", &request.reference), ("branch", &request.branch)] {
        if let Some(name) = name {
            check_ref_name(name).map_err(|error| Error::invalid(format!("{field}: {error}")))?;
        }
    }
    for (field, text) in [("model", &request.model), ("agent", &request.agent), ("title", &request.title)] {
        let is_valid = |text: &String| {
            !text.trim().is_empty() && text.chars().count() <= NAME_CHARS && !text.chars().any(char::is_control)
        };
        if text.as_ref().is_some_and(|text| !is_valid(text)) {
            let text = format!("{field}: must have 1 to {NAME_CHARS} characters, and no control characters");
            return Err(Error::invalid(text));
        }
    }
    Ok(NewJob {
        prompt: prompt(caller, request.prompt, DeliveryMode::Queue)?,
        reference: request.reference,
        model: request.model,
        effort: request.effort,
        agent: request.agent,
        options: JobOptions {
            branch: request.branch,
            draft: request.draft,
            auto_merge: request.auto_merge,
            title: request.title,
            only_branches_of_jobs: caller.needs(Scope::Write).is_err(),
            pull: None,
            review: None,
        },
        labels: Labels::new(request.labels).map_err(invalid_label)?,
        metadata: Metadata::new(request.metadata).map_err(invalid_label)?,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is the function that converts an error")]
fn invalid_label(error: InvalidLabel) -> Error {
    Error::invalid(error.to_string())
}

fn prompt(caller: &Caller, text: String, delivery: DeliveryMode) -> Result<Prompt, Error> {
    check_prompt(&text).map_err(|error| {
        let kind = match error {
            InvalidPrompt::Empty | InvalidPrompt::Nul => RefusalKind::InvalidPrompt,
            InvalidPrompt::TooLong(_) => RefusalKind::PromptTooLong,
        };
        Error::refused(kind, error.to_string())
    })?;
    let traceparent = caller.traceparent.clone();
    Ok(Prompt {
        text,
        origin: caller.origin,
        author: Some(caller.name().to_owned()),
        key: caller.key(),
        delivery,
        traceparent,
        source: None,
    })
}
