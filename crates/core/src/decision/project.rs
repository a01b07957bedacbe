//! Decisions on the creation, change and deletion of projects.

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::ids::ProjectId;
use crate::project::{Address, CODE_HOST_TOKEN, Project, SecretChanges, check, parse_address};
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::version::{FIRST_VERSION, Precondition};

/// A project, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectToChange(pub ProjectId);

/// The locked rows of [`ProjectToChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedProject {
    /// The project.
    pub project: Option<Project>,
    /// The base of the current epoch ([`crate::epoch`]), which the version of a new project is greater than.
    pub epoch: u64,
}

/// A project and its jobs: no job can be created until the decision is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectToDelete(pub ProjectId);

/// The locked rows of [`ProjectToDelete`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedProjectWithJobs {
    /// The project.
    pub project: Option<Project>,
    /// `true` if the project has active jobs.
    pub has_active_jobs: bool,
    /// `true` if the project was deleted in the last 30 days.
    pub was_deleted: bool,
}

/// A proposed project, and the changes to its secrets.
pub type Proposal = (Project, SecretChanges);

/// Returns the refusal for a project that exists already.
#[must_use]
pub fn exists() -> Refusal {
    Refusal::new(RefusalKind::Exists, ResourceKind::Project, "a project with this ID already exists")
}

/// Creates a project.
///
/// # Errors
/// Returns an error if a project with this ID exists.
pub fn create(state: &LockedProject, (project, secrets): Proposal, audit: AuditEntry) -> Result<Change, Refusal> {
    if state.project.is_some() {
        return Err(exists());
    }
    let project = Project { version: state.epoch + FIRST_VERSION, secret_names: names_after(&[], &secrets), ..project };
    Ok(Change::new([Row::Project(Box::new(project), secrets)], audit))
}

/// Changes a project. `edit` makes the proposal from the locked project, so that concurrent changes of different fields
/// are all kept. `checked_repository` is the repository that the caller has checked and prepared.
///
/// # Errors
/// Returns an error if the project does not exist or has another version, if the edit is not valid, or if the
/// repository was changed since it was checked.
pub fn change(
    state: &LockedProject,
    precondition: &Precondition,
    edit: impl FnOnce(Project) -> Result<Proposal, String>,
    checked_repository: &str,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let current = state.project.as_ref().ok_or_else(|| Refusal::not_found(ResourceKind::Project))?;
    precondition.check(ResourceKind::Project, current.version)?;
    let (proposed, secrets) = edit(current.clone()).map_err(invalid)?;
    check_change(current, &proposed, &secrets).map_err(invalid)?;
    if proposed.repository != checked_repository {
        return Err(Refusal::new(
            RefusalKind::Changed,
            ResourceKind::Project,
            "the project was changed at the same time; send the request again",
        ));
    }
    let secret_names = names_after(&current.secret_names, &secrets);
    let proposed = Project { version: current.version + 1, secret_names, ..proposed };
    Ok(Change::new([Row::Project(Box::new(proposed), secrets)], audit))
}

/// Checks a proposed change of a project.
///
/// # Errors
/// Returns a sentence that names the invalid field.
pub fn check_change(current: &Project, proposed: &Project, secrets: &SecretChanges) -> Result<(), String> {
    let has_token = current.secret_names.iter().any(|name| name == CODE_HOST_TOKEN);
    let moves = authority(&proposed.repository) != authority(&current.repository);
    if has_token && moves && !secrets.contains_key(CODE_HOST_TOKEN) {
        // The token is never shown to users. If it were sent to another host, the owner of that host could read it.
        return Err(
            "repository: the stored token must not be sent to another host; set codeHost.token, or null to remove it"
                .to_owned(),
        );
    }
    check::check(proposed, secrets).map_err(|error| error.to_string())
}

/// Deletes a project with its jobs. Its repository on the built-in code host is removed afterward, unless another project
/// uses it.
///
/// # Errors
/// Returns an error if the project does not exist, has another version, or has active jobs.
pub fn delete(
    state: &LockedProjectWithJobs,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let Some(project) = &state.project else {
        return if state.was_deleted { Ok(Change::nothing()) } else { Err(Refusal::not_found(ResourceKind::Project)) };
    };
    precondition.check(ResourceKind::Project, project.version)?;
    if state.has_active_jobs {
        return Err(Refusal::new(
            RefusalKind::Busy,
            ResourceKind::Project,
            "the project has active jobs; cancel or archive them first",
        ));
    }
    let repository = match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Some(name),
        _ => None,
    };
    let deleted = Row::ProjectDeleted { id: project.id.clone(), repository, at: audit.at };
    Ok(Change::new([deleted], audit))
}

fn invalid(detail: String) -> Refusal {
    Refusal::invalid(ResourceKind::Project, detail)
}

/// Returns the names of a project's secrets after the changes, sorted.
fn names_after(names: &[String], changes: &SecretChanges) -> Vec<String> {
    let kept = names.iter().filter(|name| !changes.contains_key(*name));
    let set = changes.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
    let mut names: Vec<String> = kept.chain(set).cloned().collect();
    names.sort();
    names
}

/// Returns the part of a repository's address that receives its credential: everything before the path.
fn authority(repository: &str) -> &str {
    let Some((scheme, rest)) = repository.split_once("://") else {
        return repository.split(':').next().unwrap_or_default();
    };
    let end = rest.find('/').unwrap_or(rest.len());
    &repository[..scheme.len() + 3 + end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{DEFAULT_AGENT, DEFAULT_MODEL, Settings};
    use crate::secret::SecretValue;
    use crate::time::Timestamp;

    fn shop() -> Project {
        Project {
            id: "shop".parse().expect("an ID"),
            repository: "https://git.example.com/a.git".to_owned(),
            reference: None,
            agent: DEFAULT_AGENT.to_owned(),
            model: DEFAULT_MODEL.to_owned(),
            created_at: Timestamp::default(),
            settings: Settings::default(),
            secret_names: vec![CODE_HOST_TOKEN.to_owned()],
            version: 7,
            identity: None,
        }
    }

    fn state() -> LockedProject {
        LockedProject { project: Some(shop()), ..LockedProject::default() }
    }

    fn audit() -> AuditEntry {
        let at = Timestamp::default();
        AuditEntry { at, actor: "cli".into(), action: "x".into(), subject: "shop".into(), address: None }
    }

    fn with_model(project: Project) -> Result<Proposal, String> {
        Ok((Project { model: "a/b".to_owned(), ..project }, SecretChanges::new()))
    }

    #[test]
    fn a_change_is_applied_to_the_locked_row_and_raises_the_version() {
        let repository = shop().repository;
        let changed = change(&state(), &Precondition::Version(vec![6, 7]), with_model, &repository, audit());
        let changed = changed.expect("a change");
        let project = changed.project().expect("a project");
        assert_eq!((project.version, project.model.as_str(), changed.audit.len()), (8, "a/b", 1));
    }

    #[test]
    fn a_change_is_refused_for_a_missing_or_changed_project() {
        let repository = shop().repository;
        let refused = |state: &LockedProject, precondition, repository: &str| {
            change(state, &precondition, with_model, repository, audit()).expect_err("a refusal")
        };
        assert_eq!(
            refused(&LockedProject::default(), Precondition::None, &repository),
            Refusal::not_found(ResourceKind::Project)
        );
        let mismatch = Refusal::version_mismatch(ResourceKind::Project);
        assert_eq!(refused(&state(), Precondition::Version(vec![6]), &repository), mismatch);
        assert_eq!(refused(&state(), Precondition::Version(vec![]), &repository), mismatch);
        assert_eq!(
            refused(&state(), Precondition::None, "local:shop"),
            Refusal::new(
                RefusalKind::Changed,
                ResourceKind::Project,
                "the project was changed at the same time; send the request again"
            )
        );
    }

    #[test]
    fn the_token_of_a_code_host_is_not_sent_to_another_host() {
        let token = |value: Option<&str>| {
            let value = value.map(|value| SecretValue(value.to_owned()));
            SecretChanges::from([(CODE_HOST_TOKEN.to_owned(), value)])
        };
        for (repository, secrets, is_accepted) in [
            ("https://git.example.com/b.git", SecretChanges::new(), true),
            ("https://git.example.com.evil.example/a.git", SecretChanges::new(), false),
            ("https://evil.example/a.git", SecretChanges::new(), false),
            ("http://git.example.com/a.git", SecretChanges::new(), false),
            ("https://evil.example/a.git", token(None), true),
            ("https://evil.example/a.git", token(Some("new")), true),
        ] {
            let proposed = Project { repository: repository.to_owned(), ..shop() };
            assert_eq!(check_change(&shop(), &proposed, &secrets).is_ok(), is_accepted, "{repository}");
        }
    }

    #[test]
    fn a_project_is_created_once_and_deleted_only_without_active_jobs() {
        let create = |state: &LockedProject| create(state, (shop(), SecretChanges::new()), audit());
        assert_eq!(
            create(&state()),
            Err(Refusal::new(RefusalKind::Exists, ResourceKind::Project, "a project with this ID already exists"))
        );
        let created = create(&LockedProject::default()).expect("a project");
        assert_eq!(created.project().map(|project| project.version), Some(1));
        let rest = LockedProjectWithJobs { project: Some(shop()), ..LockedProjectWithJobs::default() };
        let busy = LockedProjectWithJobs { has_active_jobs: true, ..rest.clone() };
        assert_eq!(
            delete(&busy, &Precondition::None, audit()),
            Err(Refusal::new(
                RefusalKind::Busy,
                ResourceKind::Project,
                "the project has active jobs; cancel or archive them first"
            ))
        );
        assert!(delete(&rest, &Precondition::None, audit()).is_ok());
        assert!(delete(&rest, &Precondition::Version(vec![1]), audit()).is_err());
    }
}
