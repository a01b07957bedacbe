//! Receives events of code hosts, and turns them into messages and jobs.

mod batch;
mod context;
mod conversation;
mod decide;
mod doubts;
mod issues;
mod new_jobs;
mod permissions;
mod pull_jobs;
mod refusal;
mod threads;
mod versions;

use futures::future::join_all;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostName};
use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::ids::ProjectId;
use journeyman_core::inbox::{
    Content, Decision, INBOX_LEASE, INBOX_LIMIT, InboxEvent, InboxState, MAX_ATTEMPTS, MOST_BYTES, NewEvent, Next,
    Outcome,
};
use journeyman_core::ports::{HookRefusal, InboxFilter, RawHook, StoreError};
use journeyman_core::retry::backoff;

use crate::{Caller, Error, UseCases};

/// The maximum number of events that a process reads at the same time.
const BATCH: usize = 16;

/// The maximum number of jobs whose events become messages at the same time.
const JOBS: usize = 16;

/// The result of [`UseCases::receive_hook`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The webhook was stored.
    Stored,
    /// A webhook with the same ID was stored before.
    Known,
}

impl UseCases {
    /// Checks a webhook of a code host before its body has arrived.
    ///
    /// # Errors
    /// The webhook would be refused, whatever its body is.
    pub async fn check_hook_head(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: &RawHook,
    ) -> Result<(), HookRefusal> {
        self.parts().hooks.check_head(host, project, hook).await
    }

    /// Stores a webhook of a code host. It is carried out later, also if this process ends now.
    ///
    /// # Errors
    /// The code host or the project does not exist, the signature is wrong, or the store failed.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "receive_hook", %host))]
    pub async fn receive_hook(
        &self,
        host: &CodeHostId,
        project: Option<&ProjectId>,
        hook: RawHook,
    ) -> Result<Received, HookRefusal> {
        debug_assert!(hook.body.len() <= MOST_BYTES, "the interface limits the size");
        let verified = self.parts().hooks.verify(host, project, &hook).await?;
        let event = NewEvent {
            host: verified.host.name(),
            code_host: Some(verified.host.id),
            project: project.cloned(),
            // A sender who knows the secret of a project must not use up the IDs of other events.
            delivery: match project {
                Some(project) => format!("project/{project}/{}", verified.delivery),
                None => verified.delivery,
            },
            event: verified.event,
            content: Content::Raw(hook.body),
            at: self.parts().engine.now(),
        };
        let stored = self.parts().store.receive(event).await;
        let is_new = stored.map_err(|error| HookRefusal::Unavailable(error.to_string()))?;
        self.wake_inbox();
        Ok(if is_new { Received::Stored } else { Received::Known })
    }

    /// Returns events of the inbox, newest first.
    ///
    /// # Errors
    /// The caller may not see the project, or is not an administrator and names none; or the store failed.
    pub async fn inbox(&self, caller: &Caller, filter: InboxFilter) -> Result<Vec<InboxEvent>, Error> {
        match &filter.project {
            Some(project) => {
                self.known_project(caller, project).await?;
            }
            None => caller.needs_administrator()?,
        }
        Ok(self.parts().store.inbox(filter).await?)
    }

    /// Returns the code host of an event; `None` for the built-in one, and if the code host was removed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn code_host_of(&self, event: &InboxEvent) -> Result<Option<CodeHost>, Error> {
        let Some(id) = &event.code_host else { return Ok(None) };
        Ok(self.parts().hooks.host(id, event.project.as_ref()).await?)
    }

    pub(crate) fn wake_inbox(&self) {
        self.0.wake.notify_one();
    }

    /// Carries out the inbox until the future is dropped: at once when this process receives an event, and when an event
    /// is due. Any number of processes may do so at the same time.
    pub async fn carry_out_inbox(&self) {
        loop {
            let wait = match self.carry_out_due_events().await {
                Ok(0) => self.inbox_wait().await,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the inbox could not be read");
                    LONGEST_WAIT
                }
            };
            let _ = tokio::time::timeout(wait, self.0.wake.notified()).await;
        }
    }

    /// Returns the time until the next event of this or another process may be due.
    async fn inbox_wait(&self) -> std::time::Duration {
        let now = self.parts().engine.now();
        match self.parts().store.next_event_at().await {
            Ok(Some(next)) if next > now => next.since(now).min(LONGEST_WAIT),
            // Another process has claimed it just now.
            Ok(Some(_)) => SHORTEST_WAIT,
            Ok(None) | Err(_) => LONGEST_WAIT,
        }
    }

    /// Carries out the events that are due, and returns their number. If it is positive, more may be due.
    ///
    /// Comments of the same conversation are decided one after the other, so that the first one that asks for work is
    /// the first message of a new job. The others are decided at the same time.
    ///
    /// # Errors
    /// The store failed. Claimed events are due again when their lease expires.
    pub async fn carry_out_due_events(&self) -> Result<usize, StoreError> {
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let events = store.claim_events(now, INBOX_LEASE, BATCH).await?;
        let count = events.len();
        let conversations = by_conversation(join_all(events.into_iter().map(|event| self.with_content(event))).await);
        let ends = join_all(conversations.iter().map(|events| self.carry_out_conversation(events))).await;
        ends.into_iter().collect::<Result<(), StoreError>>()?;
        let jobs = store.jobs_with_due_events(now, JOBS).await?;
        let sent = join_all(jobs.iter().map(|job| self.send_batch(*job))).await;
        let sent = sent.into_iter().collect::<Result<Vec<bool>, StoreError>>()?;
        Ok(count + sent.into_iter().filter(|sent| *sent).count())
    }

    /// Parses the content of a claimed event.
    async fn with_content(&self, event: InboxEvent) -> ClaimedEvent {
        let content = self.read(&event).await;
        ClaimedEvent { event, content }
    }

    /// Decides about the claimed events of a conversation in their order. Those for which the lease leaves no time are due
    /// again when it expires.
    async fn carry_out_conversation(&self, events: &[ClaimedEvent]) -> Result<(), StoreError> {
        let carried_out = async {
            for claimed in events {
                self.carry_out_event(claimed).await?;
            }
            Ok(())
        };
        tokio::time::timeout(INBOX_LEASE, carried_out).await.unwrap_or(Ok(()))
    }

    async fn carry_out_event(&self, ClaimedEvent { event, content }: &ClaimedEvent) -> Result<(), StoreError> {
        let decided = match content {
            Ok(content) => match tokio::time::timeout(INBOX_LIMIT, self.decide(event, content)).await {
                Ok(decided) => decided,
                Err(_) => Err(Problem::timeout()),
            },
            Err(problem) => Err(problem.clone()),
        };
        let decision = decided.unwrap_or_else(|problem| {
            let (project, job, read) = (event.project.clone(), event.job, event.read().cloned().map(Box::new));
            let next = self.next_attempt(event, problem);
            Decision { project, job, event: read, subject: None, next }
        });
        self.parts().store.decide_event(event.number, event.attempts, decision).await?;
        Ok(())
    }

    fn next_attempt(&self, event: &InboxEvent, problem: Problem) -> Next {
        let now = self.parts().engine.now();
        tracing::warn!(event = event.number, attempt = event.attempts, error = %problem.0, "an event of the inbox failed");
        if event.attempts >= MAX_ATTEMPTS {
            return Next::Ends { state: InboxState::Failed, outcome: Outcome::GivenUp, detail: Some(problem.0) };
        }
        Next::Retries(now + backoff(event.attempts, self.permille()))
    }

    /// Returns a random number below 1000.
    pub(crate) fn permille(&self) -> u32 {
        let mut bytes = [0; 4];
        self.parts().ids.fill(&mut bytes);
        u32::from_le_bytes(bytes) % 1000
    }
}

/// The longest time between two looks at the inbox. Events that other processes have received become visible to this one
/// after this time.
const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The shortest time between two looks.
const SHORTEST_WAIT: std::time::Duration = std::time::Duration::from_millis(50);

/// A claimed event with its content.
struct ClaimedEvent {
    event: InboxEvent,
    content: Result<ReadContent, Problem>,
}

impl ClaimedEvent {
    /// Returns the conversation that the event is a comment in: the code host, the path of the repository, and the number
    /// of the pull request or issue.
    fn conversation(&self) -> Option<(&HostName, &str, u64)> {
        let Ok(Ok(read)) = &self.content else { return None };
        let number = match &read.content {
            HookContent::Comment { number, .. } | HookContent::Review { number, .. } => *number,
            HookContent::Issue { issue, .. } => issue.number,
            _ => return None,
        };
        Some((&self.event.host, &read.repository.as_ref()?.path, number))
    }
}

/// Returns the events in groups: those of each conversation in their order, and each other event for itself.
fn by_conversation(events: Vec<ClaimedEvent>) -> Vec<Vec<ClaimedEvent>> {
    let mut groups: Vec<Vec<ClaimedEvent>> = Vec::new();
    for event in events {
        let conversation = event.conversation();
        let known = groups.iter_mut().find(|group| {
            conversation.is_some() && group.first().is_some_and(|first| first.conversation() == conversation)
        });
        match known {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
    }
    groups
}

/// The parsed content of an event, or the reason why it cannot be parsed.
type ReadContent = Result<HookEvent, String>;

/// A failure that may pass: of the code host, or of the store.
#[derive(Debug, Clone)]
pub(crate) struct Problem(pub(crate) String);

impl Problem {
    pub(crate) fn timeout() -> Self {
        Self(format!("the code host did not answer within {} s", INBOX_LIMIT.as_secs()))
    }
}

impl<E: std::error::Error> From<E> for Problem {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
