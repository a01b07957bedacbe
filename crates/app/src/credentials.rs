//! The watch of the credentials for code hosts: their ends, the permissions of apps, and suspended installations.
//!
//! Each process tests the credentials from time to time and keeps the results in memory, for its pages and its metrics.
//! A test costs one to three requests, so that nothing has to be stored.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt as _, stream};
use journeyman_core::code_host::CodeHostId;
use journeyman_core::code_host::expiry::{CredentialOwner, Expiry, WatchedCredential, watched};
use journeyman_core::finding::Finding;
use journeyman_core::ports::{CredentialTotals, ForgeError};
use journeyman_core::project::{CODE_HOST_TOKEN, Project};
use journeyman_core::time::Timestamp;

use crate::{Error, UseCases};

/// The maximum number of credentials of projects that are tested at the same time.
const CONCURRENT: usize = 4;

/// The results of the last tests of this process, by the owner of the credential.
#[derive(Default)]
pub(crate) struct Watched(Mutex<BTreeMap<CredentialOwner, WatchedCredential>>);

impl UseCases {
    /// Tests the credentials of all code hosts, and of the projects that have their own. A code host that does not answer
    /// leaves the earlier result.
    ///
    /// # Errors
    /// The store failed.
    pub async fn watch_credentials(&self) -> Result<(), Error> {
        let mut owners = Vec::new();
        for described in self.parts().code_hosts.code_hosts().await? {
            if described.host.access.is_none() {
                continue;
            }
            let (id, version) = (described.host.id, described.host.version);
            if let Some(findings) = self.parts().code_hosts.check_host(&id).await? {
                self.record_findings(&id, version, findings);
            }
            owners.push(CredentialOwner::Host(id));
        }
        let projects = self.parts().store.projects().await?;
        let own = projects.iter().filter(|project| project.secret_names.iter().any(|name| name == CODE_HOST_TOKEN));
        let tests: Vec<_> = own.map(|project| self.test_credential(project)).collect();
        let tested: Vec<Option<CredentialOwner>> = stream::iter(tests).buffered(CONCURRENT).collect().await;
        owners.extend(tested.into_iter().flatten());
        self.watched().retain(|owner, _| owners.contains(owner));
        Ok(())
    }

    /// Keeps the findings about the credential of a code host.
    pub(crate) fn record_findings(&self, id: &CodeHostId, version: u64, findings: Vec<Finding>) {
        let (expires_at, problems) = watched(findings);
        self.record(CredentialOwner::Host(id.clone()), version, (expires_at, problems));
    }

    /// Tests the credential of a project. Returns its owner, unless the project is on no code host.
    async fn test_credential(&self, project: &Project) -> Option<CredentialOwner> {
        let host = self.parts().forges.code_host(project).await.ok()??;
        let owner = CredentialOwner::Project(project.id.clone(), host.id);
        let asked = match self.parts().forges.of(project).await {
            Ok(forge) => forge.credential_expiry().await,
            Err(error) => Err(error),
        };
        let result = match asked {
            Ok(Expiry::At(at)) => (Some(at), Vec::new()),
            Ok(Expiry::Never | Expiry::Unknown) => (None, Vec::new()),
            Err(error @ ForgeError::Credential(_)) => {
                let text = format!("{error}; replace the token of the project");
                (None, vec![Finding::failure("credential", text)])
            }
            // Other errors say nothing about the credential.
            Err(_) => return Some(owner),
        };
        self.record(owner.clone(), project.version, result);
        Some(owner)
    }

    fn record(&self, owner: CredentialOwner, version: u64, (expires_at, problems): (Option<Timestamp>, Vec<Finding>)) {
        let tested_at = self.parts().engine.now();
        let credential = WatchedCredential { owner: owner.clone(), version, tested_at, expires_at, problems };
        self.watched().insert(owner, credential);
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, BTreeMap<CredentialOwner, WatchedCredential>> {
        self.0.watched.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the credentials that people must act on, each with the findings that say how. A credential that was
    /// changed after its test is not among them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn credential_warnings(&self) -> Result<Vec<(CredentialOwner, Vec<Finding>)>, Error> {
        let now = self.parts().engine.now();
        let all: Vec<WatchedCredential> = self.watched().values().cloned().collect();
        let with_warnings = |one: WatchedCredential| {
            let warnings = one.warnings(now);
            (one, warnings)
        };
        let mut found: Vec<(WatchedCredential, Vec<Finding>)> = all.into_iter().map(with_warnings).collect();
        found.retain(|(_, warnings)| !warnings.is_empty());
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let hosts = self.parts().code_hosts.code_hosts().await?;
        let mut current = Vec::new();
        for (credential, warnings) in found {
            let version = match &credential.owner {
                CredentialOwner::Host(id) => hosts.iter().find(|one| one.host.id == *id).map(|one| one.host.version),
                CredentialOwner::Project(id, _) => {
                    self.parts().store.project(id.clone()).await?.map(|project| project.version)
                }
            };
            if version == Some(credential.version) {
                current.push((credential.owner, warnings));
            }
        }
        Ok(current)
    }

    /// Returns the numbers of the watched credentials, for metrics.
    #[must_use]
    pub fn credential_totals(&self) -> Vec<CredentialTotals> {
        let mut totals: BTreeMap<(CodeHostId, bool), CredentialTotals> = BTreeMap::new();
        for credential in self.watched().values() {
            let of_project = matches!(credential.owner, CredentialOwner::Project(..));
            let host = credential.owner.host();
            let total = totals.entry((host.clone(), of_project)).or_insert_with(|| CredentialTotals {
                host: host.to_string(),
                of_project,
                first_expiry: None,
                problems: 0,
            });
            total.first_expiry = [total.first_expiry, credential.expires_at].into_iter().flatten().min();
            total.problems += u64::from(!credential.problems.is_empty());
        }
        totals.into_values().collect()
    }
}
