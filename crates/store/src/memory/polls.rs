//! The schedule of polls.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, PullState};
use journeyman_core::ids::ProjectId;
use journeyman_core::poll::{LONGEST_DELAY, POLLED, Poll};
use journeyman_core::ports::{PollStore, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;

use super::MemoryStore;

#[async_trait]
impl PollStore for MemoryStore {
    async fn polls(&self) -> Result<Vec<Poll>, StoreError> {
        Ok(self.tables().polls.values().cloned().collect())
    }

    async fn poll_of(&self, project: ProjectId) -> Result<Option<Poll>, StoreError> {
        Ok(self.tables().polls.get(&project).cloned())
    }

    async fn polled_hosts(&self) -> Result<Vec<HostName>, StoreError> {
        let hosts: BTreeSet<HostName> = self.tables().polls.values().map(|poll| poll.host.clone()).collect();
        Ok(hosts.into_iter().collect())
    }

    async fn due_polls(&self, host: HostName, now: Timestamp, limit: usize) -> Result<Vec<Poll>, StoreError> {
        let tables = self.tables();
        let is_due = |poll: &&Poll| poll.host == host && (poll.next_at <= now || poll.next_at > now + LONGEST_DELAY);
        let mut due: Vec<Poll> = tables.polls.values().filter(is_due).cloned().collect();
        due.sort_by(|one, other| (one.next_at, &one.project).cmp(&(other.next_at, &other.project)));
        due.truncate(limit);
        Ok(due)
    }

    async fn put_poll(&self, poll: Poll) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let stored = tables.polls.get(&poll.project).map_or(0, |stored| stored.version);
        let is_next = poll.version == stored + 1;
        if is_next {
            tables.polls.insert(poll.project.clone(), poll);
        }
        Ok(is_next)
    }

    async fn remove_poll(&self, project: ProjectId) -> Result<(), StoreError> {
        self.tables().polls.remove(&project);
        Ok(())
    }

    async fn indexed_pulls_in(&self, project: ProjectId) -> Result<Vec<IndexedPull>, StoreError> {
        let tables = self.tables();
        let mut found: Vec<_> = tables.job_pulls.iter().filter(|pull| pull.project == project).cloned().collect();
        found.sort_by_key(|pull| (pull.created_at, pull.number));
        Ok(found)
    }

    async fn open_pulls(&self) -> Result<Vec<(ProjectId, u32)>, StoreError> {
        let mut counts = BTreeMap::new();
        for pull in self.tables().job_pulls.iter().filter(|pull| pull.state == PullState::Open) {
            *counts.entry(pull.project.clone()).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    async fn last_hook_at(&self, project: ProjectId) -> Result<Option<Timestamp>, StoreError> {
        let tables = self.tables();
        let mut events = tables.inbox.iter().rev().map(|row| &row.event);
        let newest = events.find(|event| event.project.as_ref() == Some(&project) && event.event != POLLED);
        Ok(newest.map(|event| event.received_at))
    }
}
