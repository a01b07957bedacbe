//! Jobs, messages and runs.

use std::time::Duration;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::job::SentMessage;
use crate::models::{CreateJob, Job, JobDetails, JobFilter, Message, Run, SendMessage};
use crate::pager::Pager;

/// The operations on jobs. For those on one job, see [`Client::job`].
#[derive(Debug, Clone)]
pub struct Jobs {
    pub(crate) client: Client,
}

impl Jobs {
    /// Creates a job, and returns at once; the agent works afterward.
    pub fn create(&self, project: &str, job: &CreateJob) -> Call<Job> {
        self.client.post(&["v2", "agent", project, "job"]).json(job)
    }

    /// Creates a job, and waits until it is not active. `timeout` is the longest time to wait.
    ///
    /// # Errors
    /// A request fails, or the job is still active after this time ([`Error::WaitTimeout`]).
    pub async fn create_and_wait(
        &self,
        project: &str,
        job: &CreateJob,
        timeout: Option<Duration>,
    ) -> Result<Job, Error> {
        let created = self.create(project, job).await?;
        self.client.job(project, created.id).wait(timeout).await
    }

    /// Lists the jobs of all projects that the key may see with their details, newest first.
    pub fn list_all(&self, filter: &JobFilter) -> Pager<JobDetails> {
        self.client.list(&["v2", "jobs"], "jobs").pairs(filter.pairs())
    }

    /// Lists the jobs of a project with their details, newest first.
    pub fn list(&self, project: &str, filter: &JobFilter) -> Pager<JobDetails> {
        self.client.list(&["v2", "projects", project, "jobs"], "jobs").pairs(filter.pairs())
    }

    /// Lists the records of the jobs of a project, newest first.
    pub fn list_records(&self, project: &str, filter: &JobFilter) -> Pager<Job> {
        self.client.list(&["v2", "agent", project, "jobs"], "jobs").pairs(filter.pairs())
    }
}

/// The operations on messages.
#[derive(Debug, Clone)]
pub struct Messages {
    pub(crate) client: Client,
}

impl Messages {
    /// Sends a follow-up message; see [`JobHandle::send_message`](crate::JobHandle::send_message).
    pub fn send(&self, project: &str, job: &str, message: &SendMessage) -> Call<SentMessage> {
        self.client.job(project, job).send_message(message)
    }

    /// Returns a message with its receipt.
    pub fn get(&self, project: &str, job: &str, message: &str) -> Call<Message> {
        self.client.job(project, job).message(message)
    }

    /// Withdraws a queued message.
    pub fn withdraw(&self, project: &str, job: &str, message: &str) -> Call<Job> {
        self.client.job(project, job).withdraw(message)
    }

    /// Lists the messages of a job with their receipts, in the order of their acceptance.
    pub fn list(&self, project: &str, job: &str) -> Pager<Message> {
        self.client.job(project, job).messages()
    }
}

/// The operations on runs.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) client: Client,
}

impl Runs {
    /// Lists the runs of a job, oldest first.
    pub fn list(&self, project: &str, job: &str) -> Pager<Run> {
        self.client.job(project, job).runs()
    }
}
