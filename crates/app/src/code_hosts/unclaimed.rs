//! Repositories that send webhooks and that no project has.

use std::collections::BTreeSet;

use journeyman_core::code_host::{CodeHost, CodeHostId, RepositoryPath};
use journeyman_core::hook::{EventRepository, HookContent};
use journeyman_core::inbox::InboxEvent;
use journeyman_core::time::Timestamp;

use crate::{Caller, Error, UseCases};

/// The maximum number of events that are searched.
pub(super) const SEARCHED: usize = 1_000;

/// The maximum number of repositories that are returned.
const SHOWN: usize = 50;

/// A repository that sends webhooks and that no project has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclaimedRepository {
    /// The code host.
    pub code_host: CodeHostId,
    /// The path, such as `owner/name`.
    pub path: String,
    /// The URL to clone the repository, for a new project.
    pub url: String,
    /// The time of the newest webhook.
    pub last_event_at: Timestamp,
}

impl UseCases {
    /// Returns repositories that have sent webhooks and that no project has, those with the newest webhooks first.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn unclaimed_repositories(&self, caller: &Caller) -> Result<Vec<UnclaimedRepository>, Error> {
        let hosts: Vec<CodeHost> = self.code_hosts(caller).await?.into_iter().map(|described| described.host).collect();
        let projects = self.parts().store.projects().await?;
        let paths = projects.iter().flat_map(|project| hosts.iter().filter_map(|host| key(host, &project.repository)));
        let mut known: BTreeSet<(CodeHostId, String)> = paths.collect();
        let mut found = Vec::new();
        for event in self.parts().store.unclaimed_events(SEARCHED).await? {
            let Some(host) = hosts.iter().find(|host| host.name() == event.host) else { continue };
            for repository in repositories_of(&event) {
                let Some(path) = RepositoryPath::parse(&repository.path) else { continue };
                if known.insert((host.id.clone(), path.as_str().to_lowercase())) && found.len() < SHOWN {
                    found.push(UnclaimedRepository {
                        code_host: host.id.clone(),
                        url: host.clone_url(&path),
                        path: path.to_string(),
                        last_event_at: event.received_at,
                    });
                }
            }
        }
        Ok(found)
    }
}

fn key(host: &CodeHost, repository: &str) -> Option<(CodeHostId, String)> {
    host.path_of(repository).map(|path| (host.id.clone(), path.as_str().to_lowercase()))
}

/// Returns the repositories of an event: the one that it concerns, or those to which the service was given access.
pub(super) fn repositories_of(event: &InboxEvent) -> impl Iterator<Item = &EventRepository> {
    let read = event.read();
    let added = read.map(|read| match &read.content {
        HookContent::Access { added } => added.as_slice(),
        _ => &[],
    });
    read.and_then(|read| read.repository.as_ref()).into_iter().chain(added.unwrap_or_default())
}
