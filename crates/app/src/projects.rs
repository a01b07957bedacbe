//! Use cases about projects.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use journeyman_core::decision::project::{ProjectToChange, ProjectToDelete, Proposal, check_change};
use journeyman_core::decision::{self, Once};
use journeyman_core::finding::{Finding, first_failure};
use journeyman_core::hosted_storage::{HostedStorage, StorageRecord};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{Administered, ForgeError, ReachedServers};
use journeyman_core::project::{Host, Project, RestrictedHost, SandboxSettings, SecretChanges, repository_host};
use journeyman_core::refusal::{self, ResourceKind};
use journeyman_core::version::Precondition;

use crate::{Answered, Caller, Error, Idempotency, RefusalKind, UseCases, claim};

/// Makes a proposal from the current project. It may be called several times, with a newer project each time.
pub type ProjectEdit = Box<dyn Fn(Project) -> Result<Proposal, String> + Send + Sync>;

/// The maximum number of attempts to change a project that other requests change at the same time.
const ATTEMPTS: u32 = 5;

impl UseCases {
    /// Returns the projects that the caller may see, by ID.
    ///
    /// # Errors
    /// The store failed.
    pub async fn projects(&self, caller: &Caller) -> Result<Vec<Project>, Error> {
        let mut projects = self.parts().store.projects().await?;
        projects.retain(|project| caller.sees(&project.id));
        Ok(projects)
    }

    /// Returns the projects that the caller may see with an ID after `after`, by ID, at most `limit`.
    ///
    /// # Errors
    /// The store failed.
    pub async fn projects_after(
        &self,
        caller: &Caller,
        after: Option<ProjectId>,
        limit: usize,
    ) -> Result<Vec<Project>, Error> {
        let store = &self.parts().store;
        let Some(visible) = caller.projects() else { return Ok(store.projects_after(after, limit).await?) };
        let mut found = Vec::new();
        let visible: BTreeSet<&ProjectId> = visible.iter().collect();
        for id in visible.into_iter().filter(|id| after.as_ref().is_none_or(|after| *id > after)) {
            if found.len() == limit {
                break;
            }
            found.extend(store.project(id.clone()).await?);
        }
        Ok(found)
    }

    /// Returns a project from the store, not from the cache.
    ///
    /// # Errors
    /// The project does not exist or is not visible, or the store failed.
    pub async fn project(&self, caller: &Caller, id: &ProjectId) -> Result<Project, Error> {
        caller.needs_project(id)?;
        self.parts().store.project(id.clone()).await?.ok_or_else(Error::project_not_found)
    }

    /// Returns a project from a cache. The result may be up to a second old.
    ///
    /// # Errors
    /// Fails like [`UseCases::project`].
    pub async fn known_project(&self, caller: &Caller, id: &ProjectId) -> Result<Arc<Project>, Error> {
        caller.needs_project(id)?;
        let now = self.parts().engine.now();
        let found = self.known().project(&*self.parts().store, id.clone(), now).await?;
        found.ok_or_else(Error::project_not_found)
    }

    /// Creates a project, and its repository on the built-in code host if that does not exist. `answer` renders the
    /// answer that is stored for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, a field is not valid, the project exists, or the store failed.
    pub async fn create_project(
        &self,
        caller: &Caller,
        (new, secrets): Proposal,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&Project) -> String,
    ) -> Result<Answered<Project>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        self.check_new(&new)?;
        // If the project already exists, no repository must be prepared for it.
        if self.parts().store.project(new.id.clone()).await?.is_some() {
            // The same request may have created it a moment ago; its answer was stored in the same transaction.
            let answer = self.replay(claim.as_ref()).await?;
            return answer.map(Answered::Replayed).ok_or_else(|| Error::Admin(decision::project::exists()));
        }
        let host = self.admit(caller, &new.repository).await?;
        self.parts().forges.prepare(&new).await.map_err(not_prepared)?;
        let audit = self.audit(caller, "project.created", subject(&new.id, host.as_deref()));
        let id = new.id.clone();
        let proposal = (new, secrets);
        let preview =
            decision::project::create(&Default::default(), proposal.clone(), audit.clone()).map_err(Error::Admin)?;
        let preview = preview.project().cloned();
        let once = claim.zip(preview.as_ref().map(answer)).map(|(claim, answer)| Once { claim, answer });
        let decide = move |state: &_| decision::project::create(state, proposal.clone(), audit.clone());
        match self.administer(ProjectToChange(id), once, decide).await? {
            Administered::Replayed(answer) => Ok(Answered::Replayed(answer)),
            Administered::Done(change) => change.project().cloned().map(Answered::New).ok_or_else(no_row),
        }
    }

    /// Changes a project. Concurrent changes of different fields are all kept, because `edit` is applied to the locked
    /// row.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist or has another version, a field is not valid, or
    /// the store failed.
    pub async fn change_project(
        &self,
        caller: &Caller,
        id: &ProjectId,
        precondition: Precondition,
        edit: ProjectEdit,
    ) -> Result<Project, Error> {
        caller.needs_project(id)?;
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let edit: Arc<dyn Fn(Project) -> Result<Proposal, String> + Send + Sync> = Arc::from(edit);
        let mut attempt = 1;
        loop {
            match self.try_change(caller, id, &precondition, &edit).await {
                Err(Error::Admin(refusal)) if refusal.kind == refusal::RefusalKind::Changed && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Ok(project) => {
                    self.poll_soon(id).await?;
                    self.compare_soon(id).await?;
                    return Ok(project);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_change(
        &self,
        caller: &Caller,
        id: &ProjectId,
        precondition: &Precondition,
        edit: &Arc<dyn Fn(Project) -> Result<Proposal, String> + Send + Sync>,
    ) -> Result<Project, Error> {
        let current = self.parts().store.project(id.clone()).await?.ok_or_else(Error::project_not_found)?;
        precondition.check(ResourceKind::Project, current.version).map_err(Error::Admin)?;
        let (proposed, secrets) = edit(current.clone()).map_err(Error::invalid)?;
        self.check_edited(&current, &proposed, &secrets)?;
        // The new repository is checked and prepared before the transaction, which must not wait for the network. If
        // the edit of the locked project results in another repository, `change_project` makes another attempt.
        let mut host = None;
        if proposed.repository != current.repository {
            host = self.admit(caller, &proposed.repository).await?;
            self.parts().forges.prepare(&proposed).await.map_err(not_prepared)?;
        }
        let audit = self.audit(caller, "project.changed", subject(id, host.as_deref()));
        let (edit, precondition, repository) = (Arc::clone(edit), precondition.clone(), proposed.repository);
        let cases = self.clone();
        let decide = move |state: &_| {
            // The locked project may have another agent or another policy than the one that was checked.
            let checked_edit = |project: Project| {
                let (proposed, secrets) = edit(project.clone())?;
                cases.check_edited(&project, &proposed, &secrets).map_err(|error| error.to_string())?;
                Ok((proposed, secrets))
            };
            decision::project::change(state, &precondition, checked_edit, &repository, audit.clone())
        };
        match self.administer(ProjectToChange(id.clone()), None, decide).await? {
            Administered::Done(change) => change.project().cloned().ok_or_else(no_row),
            Administered::Replayed(_) => Err(no_row()),
        }
    }

    /// Returns the last measurement of the space that the repository of a project on the built-in code host takes; `None`
    /// if there is none, or the repository is elsewhere.
    pub async fn storage(&self, project: &Project) -> Option<StorageRecord> {
        self.parts().forges.storage(project).await
    }

    /// Returns the space that all repositories of the built-in code host take, according to their last measurements.
    ///
    /// # Errors
    /// The folder of the repositories cannot be read.
    pub async fn storage_of_all(&self) -> Result<HostedStorage, Error> {
        self.parts().forges.storage_of_all().await.map_err(|error| Error::Internal(error.to_string()))
    }

    /// Deletes a project with its jobs, their logs, and its secrets. Its repository on the built-in code host is removed
    /// afterward with its pull requests and objects, unless another project uses it. A repository elsewhere stays.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist, has another version or active jobs, or the store
    /// failed.
    pub async fn delete_project(
        &self,
        caller: &Caller,
        id: &ProjectId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        caller.needs_project(id)?;
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, "project.deleted", id);
        let decide = move |state: &_| decision::project::delete(state, &precondition, audit.clone());
        self.administer(ProjectToDelete(id.clone()), None, decide).await?;
        Ok(())
    }

    /// Tests whether jobs can work on the repository of a project to be created, and returns what was found. Stores
    /// nothing.
    ///
    /// # Errors
    /// Fails like [`UseCases::create_project`], and if the repository cannot be read or pushed to.
    pub async fn test_new_project(&self, caller: &Caller, (new, secrets): Proposal) -> Result<Vec<Finding>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        self.check_new(&new)?;
        if self.parts().store.project(new.id.clone()).await?.is_some() {
            return Err(Error::Admin(decision::project::exists()));
        }
        self.test(caller, &new, &secrets).await
    }

    /// Tests whether jobs can work on the repository of a project after a change, and returns what was found. Stores
    /// nothing of the change.
    ///
    /// # Errors
    /// Fails like [`UseCases::change_project`], and if the repository cannot be read or pushed to.
    pub async fn test_project(
        &self,
        caller: &Caller,
        id: &ProjectId,
        edit: ProjectEdit,
    ) -> Result<Vec<Finding>, Error> {
        caller.needs_project(id)?;
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let current = self.parts().store.project(id.clone()).await?.ok_or_else(Error::project_not_found)?;
        let (proposed, secrets) = edit(current.clone()).map_err(Error::invalid)?;
        check_change(&current, &proposed, &secrets).map_err(Error::invalid)?;
        let findings = self.test(caller, &proposed, &secrets).await?;
        if first_failure(&findings).is_none() {
            self.poll_soon(id).await?;
        }
        Ok(findings)
    }

    async fn test(&self, caller: &Caller, project: &Project, secrets: &SecretChanges) -> Result<Vec<Finding>, Error> {
        if let Some(host) = self.admit(caller, &project.repository).await? {
            // The test connects to the host, so the audit entry is written first.
            let audit = self.audit(caller, "repository.tested", subject(&project.id, Some(&host)));
            self.parts().store.note(audit).await?;
        }
        let unreadable = |reason: journeyman_core::run::Reason| {
            Error::refused(RefusalKind::RepositoryUnreadable(reason.code), reason.text)
        };
        let reached = ReachedServers::default();
        let tested = self.project_findings(project, secrets, &reached).await?;
        if let Some(reached) = reached.list() {
            let audit = self.audit(caller, "repository.reached", subject(&project.id, Some(&reached)));
            self.parts().store.note(audit).await?;
        }
        tested.map_err(unreadable)
    }

    fn check_new(&self, new: &Project) -> Result<(), Error> {
        self.check_agent(&new.agent, &new.settings.sandbox)
    }

    fn check_edited(&self, current: &Project, proposed: &Project, secrets: &SecretChanges) -> Result<(), Error> {
        check_change(current, proposed, secrets).map_err(Error::invalid)?;
        // Other fields can be changed even if the agent was removed from the configuration meanwhile.
        if proposed.agent != current.agent || proposed.settings.sandbox != current.settings.sandbox {
            self.check_agent(&proposed.agent, &proposed.settings.sandbox)?;
        }
        Ok(())
    }

    /// Refuses an agent that is not configured, or that does not ask for the permissions that the project refuses.
    pub(crate) fn check_agent(&self, agent: &str, sandbox: &SandboxSettings) -> Result<(), Error> {
        let agents = &self.parts().agents;
        let Some(spec) = agents.get(agent) else {
            let known = agents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!("agent: no agent {agent:?} is configured on this server; use one of {known}");
            return Err(Error::refused(RefusalKind::UnknownAgent, text));
        };
        spec.check_permissions(agent, sandbox)
            .map_err(|error| Error::refused(RefusalKind::UnsupportedPolicy, error.to_string()))
    }

    /// Checks the host of a new repository. Returns the host with its addresses for the audit log; `None` for a repository
    /// on this machine. Link-local addresses and metadata services of clouds are only for administrators.
    async fn admit(&self, caller: &Caller, repository: &str) -> Result<Option<String>, Error> {
        let Some(host) = repository_host(repository) else { return Ok(None) };
        let forges = &self.parts().forges;
        if let Some(found) = admitted(caller.is_administrator(), forges.restricted_host(repository).await)? {
            return Ok(Some(found.to_string()));
        }
        Ok(Some(match host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => named(&name, &forges.addresses(&name).await),
        }))
    }
}

fn admitted(is_administrator: bool, found: Option<RestrictedHost>) -> Result<Option<RestrictedHost>, Error> {
    match found {
        Some(host) if !is_administrator => Err(Error::refused(
            RefusalKind::RepositoryAddressRefused,
            format!(
                "the repository is at {host}; only an administrator may use such a host, because requests to it may \
                 expose credentials of the server. Use the repository's public address, or ask an administrator"
            ),
        )),
        found => Ok(found),
    }
}

/// Returns a name with its addresses.
fn named(name: &str, addresses: &[IpAddr]) -> String {
    let addresses: BTreeSet<String> = addresses.iter().map(|address| address.to_canonical().to_string()).collect();
    match addresses.into_iter().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => format!("{name}, which cannot be resolved"),
        addresses => format!("{name}, which has the address {addresses}"),
    }
}

/// Returns the subject of an audit entry about a project.
fn subject(project: &ProjectId, host: Option<&str>) -> String {
    match host {
        Some(host) => format!("{project} (repository at {host})"),
        None => project.to_string(),
    }
}

fn not_prepared(error: ForgeError) -> Error {
    Error::Internal(format!("a repository on the built-in code host could not be created: {error}"))
}

fn no_row() -> Error {
    Error::Internal("a change of a project stored no project".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(repository: &str) -> Option<RestrictedHost> {
        repository_host(repository).and_then(|host| host.restricted())
    }

    #[test]
    fn only_an_administrator_may_use_a_restricted_host_and_the_audit_log_names_it() {
        let metadata = restricted("http://0xa9fea9fe/x");
        assert_eq!(admitted(true, metadata.clone()), Ok(metadata.clone()));
        let Err(Error::Refused(refusal)) = admitted(false, metadata.clone()) else { panic!("the host was allowed") };
        assert_eq!(refusal.kind, RefusalKind::RepositoryAddressRefused);
        assert!(refusal.text.contains("169.254.169.254") && refusal.text.contains("administrator"), "{refusal}");
        assert_eq!(admitted(false, restricted("https://github.com/a/b")), Ok(None));
        let shop = "shop".parse().expect("an ID");
        let described = metadata.map(|host| host.to_string());
        let named = subject(&shop, described.as_deref());
        assert_eq!(named, "shop (repository at 169.254.169.254, a cloud metadata service)");
        assert_eq!(subject(&shop, None), "shop");
    }
}
