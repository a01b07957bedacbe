//! The operations on one job, and messages that were sent to it.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use tokio::time::Instant;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::models::{Event, Job, JobChecks, JobDetails, JobPull, Message, Run, SendMessage, Status};
use crate::pager::Pager;
use crate::wait::Wait;

/// The number of events in a page.
const EVENTS: u32 = 1000;

/// The operations on one job. It holds no state of the job.
#[derive(Debug, Clone)]
pub struct JobHandle {
    client: Client,
    project: String,
    id: String,
}

impl JobHandle {
    pub(crate) fn new(client: Client, project: String, id: String) -> Self {
        Self { client, project, id }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the ID of the project.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Returns the ID of the job.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec!["v2", "agent", self.project.as_str(), "job", self.id.as_str()];
        path.extend_from_slice(rest);
        path
    }

    /// Returns the record of the job.
    pub fn get(&self) -> Call<Job> {
        self.client.get(&self.path(&[]))
    }

    /// Returns the record of the job as soon as the job is not active, and otherwise after this time, of at most 60
    /// seconds.
    pub fn poll(&self, wait: Duration) -> Call<Job> {
        let seconds = wait.as_secs();
        if seconds == 0 {
            return self.get();
        }
        self.get().query("wait", seconds).extra_time(seconds)
    }

    /// Waits until the job is not active, and returns its record. `timeout` is the longest time to wait.
    ///
    /// # Errors
    /// A request fails, or the job is still active after this time ([`Error::WaitTimeout`]).
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Job, Error> {
        let wait = Wait::new(timeout);
        loop {
            let begin = Instant::now();
            let job = wait.apply(&self.client, self.poll(wait.hold(Wait::LONGEST_POLL))).await?;
            if job.status != Status::Active {
                return Ok(job);
            }
            wait.pause(Some(begin), || format!("the job {} is still active", self.id)).await?;
        }
    }

    /// Sends a follow-up message. The result waits for the end of exactly this message, also if others are queued.
    ///
    /// A completed or failed job becomes active again, with the same branch, session and pull request.
    pub fn send_message(&self, message: &SendMessage) -> Call<SentMessage> {
        let job = self.clone();
        let call = self.client.post::<Job>(&self.path(&["message"])).json(message);
        call.read_with(move |response| {
            let location = response.header("location").unwrap_or_default();
            let found = location.rsplit_once("/message/").map(|(_, id)| id).filter(|id| !id.is_empty());
            let missing = "the server accepted the message without its ID; is it older than this client?";
            let id = found.ok_or_else(|| Error::InvalidResponse(missing.to_owned()))?.to_owned();
            Ok(SentMessage { record: response.json()?, job, id })
        })
    }

    /// Sends a follow-up message, and waits for its end. A message that failed is not an error: look at its status.
    ///
    /// # Errors
    /// A request fails, or the message has not ended after this time ([`Error::WaitTimeout`]).
    pub async fn ask(&self, message: &SendMessage, timeout: Option<Duration>) -> Result<Message, Error> {
        self.send_message(message).await?.wait(timeout).await
    }

    /// Returns the details that the record does not contain, such as labels, usage, and a failure.
    pub fn details(&self) -> Call<JobDetails> {
        self.client.get(&self.path(&["details"]))
    }

    /// Stops the run of the job and withdraws its queued messages; the job becomes `failed`.
    pub fn cancel(&self) -> Call<Job> {
        self.client.post(&self.path(&["cancel"]))
    }

    /// Archives the job, which then takes no messages; an active job is canceled first.
    pub fn archive(&self) -> Call<Job> {
        self.client.post(&self.path(&["archive"]))
    }

    /// Restores the status that the job had before it was archived.
    pub fn unarchive(&self) -> Call<Job> {
        self.client.post(&self.path(&["unarchive"]))
    }

    /// Starts the next attempt of a job that waits for an external cause to pass.
    pub fn retry(&self) -> Call<Job> {
        self.client.post(&self.path(&["retry"]))
    }

    /// Deletes the job, which must not be active, with its messages, runs and events.
    pub fn delete(&self) -> Call<()> {
        self.client.call_nothing(Method::DELETE, &self.path(&[])).harmless()
    }

    /// Returns a message with its receipt.
    pub fn message(&self, message: &str) -> Call<Message> {
        self.client.get(&self.path(&["message", message]))
    }

    /// Withdraws a queued message.
    pub fn withdraw(&self, message: &str) -> Call<Job> {
        self.client.call(Method::DELETE, &self.path(&["message", message])).harmless()
    }

    /// Lists the messages with their receipts, in the order of their acceptance.
    pub fn messages(&self) -> Pager<Message> {
        self.client.list(&self.path(&["messages"]), "messages")
    }

    /// Lists the runs, oldest first.
    pub fn runs(&self) -> Pager<Run> {
        self.client.list(&self.path(&["runs"]), "runs")
    }

    /// Lists the pull requests, oldest first.
    pub fn pulls(&self) -> Pager<JobPull> {
        self.client.list(&self.path(&["pulls"]), "pulls")
    }

    /// Returns the checks of the newest commit that the job has pushed.
    pub fn checks(&self) -> Call<JobChecks> {
        self.client.get(&self.path(&["checks"]))
    }

    /// Returns the changes as a unified diff, which is empty without changes.
    pub fn diff(&self) -> Call<Bytes> {
        self.client.call_bytes(&self.path(&["diff"]), "text/x-diff")
    }

    /// Lists the events so far that have a number above `after`, oldest first.
    pub fn events(&self, after: u64) -> Pager<Event> {
        self.client.list(&self.path(&["events"]), "events").after(after)
    }

    /// Returns the number of the newest event; `after` is the number of an event to begin with.
    ///
    /// # Errors
    /// A request fails.
    pub async fn newest_event(&self, after: u64) -> Result<u64, Error> {
        let (mut pages, mut newest) = (self.events(after).page_size(EVENTS).raw(), after);
        while let Some(page) = pages.page().await? {
            newest = page.next_cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(newest);
        }
        Ok(newest)
    }
}

/// A message that was sent to a job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SentMessage {
    /// The ID of the message.
    pub id: String,
    /// The operations on the job.
    pub job: JobHandle,
    /// The record of the job after the message was accepted.
    pub record: Job,
}

impl SentMessage {
    /// Returns the message with its receipt.
    pub fn get(&self) -> Call<Message> {
        self.job.message(&self.id)
    }

    /// Waits for the final status of the message. A message that failed is not an error: look at its status.
    ///
    /// # Errors
    /// A request fails, or the message has not ended after this time ([`Error::WaitTimeout`]).
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Message, Error> {
        let (wait, client) = (Wait::new(timeout), &self.job.client);
        let mut begin = None;
        loop {
            let message = wait.apply(client, self.get()).await?;
            if message.finished_at.is_some() {
                return Ok(message);
            }
            wait.pause(begin, || format!("the message {} has not ended", self.id)).await?;
            begin = Some(Instant::now());
            // The server has no long poll for a message, so the one of the job shortens the wait.
            wait.apply(client, self.job.poll(wait.hold(Wait::LONGEST_MESSAGE_POLL))).await?;
        }
    }
}
