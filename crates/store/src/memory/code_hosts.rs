//! Code hosts, locks, and the index of pull requests.

use std::cmp::Reverse;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{
    CodeHost, CodeHostId, HostName, HostSecret, HostSecretChanges, HostSecrets, PullRef, PullRepository, PullState,
};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::ports::{CodeHostStore, LockStore, PullCounts, PullCursor, PullFilter, PullIndex, StoreError};
use journeyman_core::pull::IndexedPull;
use journeyman_core::time::Timestamp;
use uuid::Uuid;

use super::{MemoryStore, Tables};

#[async_trait]
impl CodeHostStore for MemoryStore {
    async fn code_hosts(&self) -> Result<Vec<CodeHost>, StoreError> {
        Ok(self.tables().code_hosts.values().cloned().collect())
    }

    async fn code_host_secrets(&self, id: CodeHostId) -> Result<HostSecrets, StoreError> {
        let tables = self.tables();
        let secret = |name| tables.code_host_secrets.get(&(id.clone(), name)).cloned();
        Ok(HostSecrets {
            token: secret(HostSecret::Token),
            private_key: secret(HostSecret::PrivateKey),
            webhook: secret(HostSecret::Webhook),
        })
    }
}

#[async_trait]
impl PullIndex for MemoryStore {
    async fn indexed_pull(&self, repository: PullRepository, number: u64) -> Result<Option<IndexedPull>, StoreError> {
        let is_it = |pull: &&IndexedPull| pull.repository == repository && pull.number == number;
        Ok(self.tables().job_pulls.iter().find(is_it).cloned())
    }

    async fn indexed_pulls_of(&self, jobs: Vec<JobId>) -> Result<Vec<IndexedPull>, StoreError> {
        Ok(self.tables().pulls_of(&jobs))
    }

    async fn remote_pulls(&self, filter: PullFilter) -> Result<Vec<IndexedPull>, StoreError> {
        let place = |pull: &IndexedPull| PullCursor { created_at: pull.created_at, number: pull.number };
        let tables = self.tables();
        let of_state = tables.remote_pulls(&filter.project).filter(|pull| pull.state == filter.state);
        let after = of_state.filter(|pull| filter.after.is_none_or(|after| place(pull) < after));
        let mut found: Vec<_> = after.cloned().collect();
        found.sort_by_key(|pull| Reverse(place(pull)));
        found.truncate(filter.limit);
        Ok(found)
    }

    async fn count_remote_pulls(&self, project: ProjectId) -> Result<PullCounts, StoreError> {
        let mut counts = PullCounts::default();
        self.tables().remote_pulls(&project).for_each(|pull| counts.add(pull.state, 1));
        Ok(counts)
    }
}

#[async_trait]
impl LockStore for MemoryStore {
    async fn lock(&self, name: String, holder: Uuid, now: Timestamp, time: Duration) -> Result<bool, StoreError> {
        let until = now + time;
        let mut tables = self.tables();
        let locked = tables.locks.get(&name);
        if locked.is_some_and(|(other, end)| *other != holder && *end > now && *end <= until) {
            return Ok(false);
        }
        tables.locks.insert(name, (holder, until));
        Ok(true)
    }

    async fn unlock(&self, name: String, holder: Uuid) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.locks.get(&name).is_some_and(|(other, _)| *other == holder) {
            tables.locks.remove(&name);
        }
        Ok(())
    }
}

impl Tables {
    /// Returns the pull requests of these jobs, oldest first.
    pub(super) fn pulls_of(&self, jobs: &[JobId]) -> Vec<IndexedPull> {
        let mut found: Vec<_> = self.job_pulls.iter().filter(|pull| jobs.contains(&pull.job)).cloned().collect();
        found.sort_by_key(|pull| (pull.created_at, pull.number));
        found
    }

    fn remote_pulls(&self, project: &ProjectId) -> impl Iterator<Item = &IndexedPull> {
        self.job_pulls.iter().filter(move |pull| pull.project == *project && pull.repository.host != HostName::local())
    }

    pub(super) fn put_code_host(&mut self, host: CodeHost, secrets: HostSecretChanges) {
        for (name, value) in secrets {
            match value {
                Some(value) => self.code_host_secrets.insert((host.id.clone(), name), value),
                None => self.code_host_secrets.remove(&(host.id.clone(), name)),
            };
        }
        self.code_hosts.insert(host.id.clone(), host);
    }

    pub(super) fn remove_code_host(&mut self, id: &CodeHostId) {
        self.code_hosts.remove(id);
        self.code_host_secrets.retain(|(host, _), _| host != id);
    }

    /// Stores a pull request in the index, and ends other open ones of its branch.
    pub(super) fn put_pull(&mut self, pull: &IndexedPull) {
        for other in self.job_pulls.iter_mut().filter(|other| pull.state == PullState::Open && is_rival(other, pull)) {
            (other.state, other.ended_at) = (PullState::Closed, Some(pull.created_at));
        }
        let is_it = |other: &&mut IndexedPull| other.repository == pull.repository && other.number == pull.number;
        match self.job_pulls.iter_mut().find(is_it) {
            Some(known) => {
                let title = pull.title.clone().or_else(|| known.title.take());
                let ended_at = if known.state == pull.state { known.ended_at } else { pull.ended_at };
                *known = IndexedPull { title, ended_at, created_at: known.created_at, ..pull.clone() };
            }
            None => self.job_pulls.push(pull.clone()),
        }
        if pull.state == PullState::Open {
            self.wake_comparison(&pull.project);
        }
    }

    /// Stores the state of a pull request. If another one of the same branch is open, this one stays ended.
    pub(super) fn set_pull_state(&mut self, pull: &PullRef, state: PullState, at: Timestamp) {
        let is_it = |known: &&IndexedPull| known.repository == pull.repository && known.number == pull.number;
        let Some(known) = self.job_pulls.iter().find(is_it).cloned() else { return };
        if state != PullState::Open || !self.job_pulls.iter().any(|other| is_rival(other, &known)) {
            let ended_at = (state != PullState::Open).then_some(at);
            self.put_pull(&IndexedPull { state, ended_at, ..known });
        }
    }
}

/// Returns whether another pull request of the same branch is open.
fn is_rival(other: &IndexedPull, pull: &IndexedPull) -> bool {
    other.repository == pull.repository
        && other.head == pull.head
        && other.state == PullState::Open
        && other.number != pull.number
}
