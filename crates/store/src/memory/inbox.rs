//! The inbox.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHostId, HostName, PullRepository};
use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::inbox::{Content, Decision, InboxEvent, InboxState, NewEvent, Next, Outcome};
use journeyman_core::outbox::{Backlog, LONGEST_DELAY};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::{Decided, InboxFilter, InboxStore, RECENT_EVENTS, StoreError};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};

/// A stored event.
#[derive(Debug)]
pub(super) struct InboxRow {
    pub(super) event: InboxEvent,
    subject: Option<String>,
    due_at: Option<Timestamp>,
}

impl InboxRow {
    fn is_due(&self, now: Timestamp, state: InboxState) -> bool {
        self.event.state == state && self.due_at.is_some_and(|at| at <= now || at > now + LONGEST_DELAY)
    }

    fn end(&mut self, state: InboxState, outcome: Outcome, detail: Option<String>) {
        (self.event.state, self.event.outcome, self.event.detail, self.due_at) = (state, Some(outcome), detail, None);
        if matches!(self.event.content, Some(Content::Raw(_))) {
            self.event.content = None;
        }
    }
}

#[async_trait]
impl InboxStore for MemoryStore {
    async fn receive(&self, event: NewEvent) -> Result<bool, StoreError> {
        Ok(self.tables().insert_event(event))
    }

    async fn claim_events(&self, now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let mut tables = self.tables();
        let due = tables.inbox.iter_mut().filter(|row| row.is_due(now, InboxState::Received)).take(limit);
        let claim = |row: &mut InboxRow| {
            row.due_at = Some(now + lease);
            row.event.attempts += 1;
            row.event.clone()
        };
        Ok(due.map(claim).collect())
    }

    async fn decide_event(&self, number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError> {
        let Decision { project, job, event, subject, next } = decision;
        let mut tables = self.tables();
        let is_it = |row: &InboxRow| {
            row.event.number == number && row.event.attempts == attempt && row.event.state == InboxState::Received
        };
        let Some(place) = tables.inbox.iter().position(is_it) else { return Ok(Decided::Lost) };
        let host = tables.inbox[place].event.host.clone();
        let own = project.clone().or_else(|| tables.inbox[place].event.project.clone());
        let is_same = |row: &InboxRow| {
            let is_other = row.event.number != number;
            is_other && row.event.host == host && row.event.project == own && row.subject == subject
        };
        let is_duplicate = subject.is_some() && tables.inbox.iter().any(is_same);
        let Some(row) = tables.inbox.get_mut(place) else { return Ok(Decided::Lost) };
        row.event.project = project.or_else(|| row.event.project.clone());
        row.event.job = job;
        if let Some(event) = event {
            row.event.content = Some(Content::Read(event));
        }
        if is_duplicate {
            row.end(InboxState::Ignored, Outcome::Duplicate, None);
            return Ok(Decided::Duplicate);
        }
        match next {
            Next::Ends { state, outcome, detail } => row.end(state, outcome, detail),
            Next::Waits(until) => (row.event.state, row.due_at) = (InboxState::Waiting, Some(until)),
            Next::Retries(at) => row.due_at = Some(at),
        }
        row.subject = subject;
        if let (InboxState::Waiting, Some(job), Some(until)) = (row.event.state, job, row.due_at) {
            tables.postpone(job, until);
        }
        Ok(Decided::Stored)
    }

    async fn jobs_with_due_events(&self, now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let tables = self.tables();
        let mut due: Vec<(Option<Timestamp>, JobId)> = Vec::new();
        for row in tables.inbox.iter().filter(|row| row.is_due(now, InboxState::Waiting)) {
            if let Some(job) = row.event.job.filter(|job| due.iter().all(|(_, known)| known != job)) {
                due.push((row.due_at, job));
            }
        }
        due.sort_unstable();
        Ok(due.into_iter().map(|(_, job)| job).take(limit).collect())
    }

    async fn waiting_events(&self, job: JobId) -> Result<Vec<InboxEvent>, StoreError> {
        let tables = self.tables();
        let waits = |row: &&InboxRow| row.event.job == Some(job) && row.event.state == InboxState::Waiting;
        Ok(tables.inbox.iter().filter(waits).map(|row| row.event.clone()).collect())
    }

    async fn postpone_events(&self, job: JobId, until: Timestamp) -> Result<(), StoreError> {
        self.tables().postpone(job, until);
        Ok(())
    }

    async fn end_events(
        &self,
        numbers: Vec<u64>,
        state: InboxState,
        outcome: Outcome,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_open = |row: &&mut InboxRow| {
            numbers.contains(&row.event.number) && matches!(row.event.state, InboxState::Received | InboxState::Waiting)
        };
        for row in tables.inbox.iter_mut().filter(is_open) {
            row.end(state, outcome, detail.clone());
        }
        Ok(())
    }

    async fn events_about(&self, host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError> {
        let prefix = format!("{key}/");
        let is_it = |row: &&InboxRow| {
            row.event.host == host && row.subject.as_ref().is_some_and(|subject| subject.starts_with(&prefix))
        };
        Ok(self.tables().inbox.iter().filter(is_it).map(|row| row.event.clone()).collect())
    }

    async fn inbox_of_message(&self, message: MessageId) -> Result<Vec<InboxEvent>, StoreError> {
        let tables = self.tables();
        let is_it = |row: &&InboxRow| row.event.message == Some(message);
        Ok(tables.inbox.iter().filter(is_it).map(|row| row.event.clone()).collect())
    }

    async fn inbox(&self, filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError> {
        let InboxFilter { project, state, outcome, before, limit } = filter;
        let is_it = |event: &&InboxEvent| {
            (project.is_none() || event.project == project)
                && state.is_none_or(|state| event.state == state)
                && (outcome.is_none() || event.outcome == outcome)
                && before.is_none_or(|before| event.number < before)
        };
        let tables = self.tables();
        Ok(tables.inbox.iter().rev().map(|row| &row.event).filter(is_it).take(limit).cloned().collect())
    }

    async fn unclaimed_events(&self, limit: usize) -> Result<Vec<InboxEvent>, StoreError> {
        let tables = self.tables();
        let unclaimed = tables.recent_events().filter(|event| event.outcome == Some(Outcome::NoProject));
        Ok(unclaimed.take(limit).cloned().collect())
    }

    async fn last_event_of(&self, host: CodeHostId) -> Result<Option<Timestamp>, StoreError> {
        let tables = self.tables();
        let is_hook = |event: &&InboxEvent| event.code_host.as_ref() == Some(&host) && event.event != POLLED;
        let mut of_host = tables.recent_events().filter(is_hook);
        Ok(of_host.next().map(|event| event.received_at))
    }

    async fn next_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.tables().inbox.iter().filter_map(|row| row.due_at).min())
    }

    async fn inbox_backlog(&self) -> Result<Backlog, StoreError> {
        let tables = self.tables();
        let open = || tables.inbox.iter().filter(|row| row.due_at.is_some()).map(|row| &row.event);
        Ok(Backlog {
            tasks: open().count() as u64,
            retried: open().filter(|event| event.attempts > 1).count() as u64,
            oldest: open().map(|event| event.received_at).min(),
        })
    }

    async fn job_of_issue(&self, repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError> {
        Ok(self.tables().job_issues.get(&(repository.host.0, repository.id, number)).copied())
    }
}

impl Tables {
    /// Returns the newest events, newest first.
    fn recent_events(&self) -> impl Iterator<Item = &InboxEvent> {
        let newest = self.inbox.last().map_or(0, |row| row.event.number);
        let is_recent = move |event: &&InboxEvent| event.number + RECENT_EVENTS > newest;
        self.inbox.iter().rev().map(|row| &row.event).take_while(is_recent)
    }

    /// Stores an event, which is due at once. Returns false if the delivery is known.
    pub(super) fn insert_event(&mut self, new: NewEvent) -> bool {
        let NewEvent { host, code_host, project, delivery, event, content, at } = new;
        if self.inbox.iter().any(|row| row.event.host == host && row.event.delivery == delivery) {
            return false;
        }
        self.last_event += 1;
        let number = self.last_event;
        let event = InboxEvent {
            number,
            host,
            code_host,
            project,
            delivery,
            event,
            received_at: at,
            state: InboxState::Received,
            outcome: None,
            detail: None,
            content: Some(content),
            job: None,
            message: None,
            attempts: 0,
        };
        self.inbox.push(InboxRow { event, subject: None, due_at: Some(at) });
        true
    }

    /// Removes up to `limit` events that have ended and did not arrive after `end`, and returns their number.
    pub(super) fn remove_events(&mut self, end: i64, limit: usize) -> usize {
        let has_ended = |row: &&InboxRow| row.due_at.is_none() && row.event.received_at.as_micros() <= end;
        let old: Vec<u64> = self.inbox.iter().filter(has_ended).map(|row| row.event.number).take(limit).collect();
        self.inbox.retain(|row| !old.contains(&row.event.number));
        old.len()
    }

    fn postpone(&mut self, job: JobId, until: Timestamp) {
        let waits = |row: &&mut InboxRow| row.event.job == Some(job) && row.event.state == InboxState::Waiting;
        for row in self.inbox.iter_mut().filter(waits) {
            row.due_at = Some(until);
        }
    }

    /// Marks events as carried out.
    pub(super) fn events_done(&mut self, numbers: &[u64], outcome: Outcome, job: JobId, message: MessageId) {
        for row in self.inbox.iter_mut().filter(|row| numbers.contains(&row.event.number)) {
            row.end(InboxState::Done, outcome, None);
            (row.event.job, row.event.message) = (Some(job), Some(message));
        }
    }
}
