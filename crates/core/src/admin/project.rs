//! Decisions on the creation, change and deletion of projects.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::project::{Address, CODE_HOST_TOKEN, Project, SecretChanges, check, parse_address};

/// A proposed project, and the changes to its secrets.
pub type Proposal = (Project, SecretChanges);

/// Creates a project.
///
/// # Errors
/// Returns an error if a project with this ID exists.
pub fn create(
    state: &AdminState,
    (project, secrets): Proposal,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    if state.project.is_some() {
        return Err(AdminRefusal::ProjectExists);
    }
    let project = Project { version: state.first_version(), secret_names: names_after(&[], &secrets), ..project };
    Ok(AdminChange::new([AdminRow::Project(Box::new(project), secrets)], audit))
}

/// Changes a project. `edit` makes the proposal from the locked project, so that concurrent changes of different fields
/// are all kept. `checked_repository` is the repository that the caller has checked and prepared.
///
/// # Errors
/// Returns an error if the project does not exist or has another version, if the edit is not valid, or if the
/// repository was changed since it was checked.
pub fn change(
    state: &AdminState,
    precondition: &Precondition,
    edit: impl FnOnce(Project) -> Result<Proposal, String>,
    checked_repository: &str,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let current = state.project.as_ref().ok_or(AdminRefusal::NoProject)?;
    precondition.check(current.version)?;
    let (proposed, secrets) = edit(current.clone()).map_err(AdminRefusal::InvalidProject)?;
    check_change(current, &proposed, &secrets).map_err(AdminRefusal::InvalidProject)?;
    if proposed.repository != checked_repository {
        return Err(AdminRefusal::ProjectChanged);
    }
    let secret_names = names_after(&current.secret_names, &secrets);
    let proposed = Project { version: current.version + 1, secret_names, ..proposed };
    Ok(AdminChange::new([AdminRow::Project(Box::new(proposed), secrets)], audit))
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
    check(proposed, secrets).map_err(|error| error.to_string())
}

/// Deletes a project with its jobs. Its repository on the built-in code host is removed afterward, unless another project
/// uses it.
///
/// # Errors
/// Returns an error if the project does not exist, has another version, or has active jobs.
pub fn delete(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(project) = &state.project else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoProject) };
    };
    precondition.check(project.version)?;
    if state.has_active_jobs {
        return Err(AdminRefusal::ProjectBusy);
    }
    let repository = match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Some(name),
        _ => None,
    };
    let deleted = AdminRow::ProjectDeleted { id: project.id.clone(), repository, at: audit.at };
    Ok(AdminChange::new([deleted], audit))
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

    fn state() -> AdminState {
        AdminState { project: Some(shop()), ..AdminState::default() }
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
        let refused = |state: &AdminState, precondition, repository: &str| {
            change(state, &precondition, with_model, repository, audit()).expect_err("a refusal")
        };
        assert_eq!(refused(&AdminState::default(), Precondition::None, &repository), AdminRefusal::NoProject);
        let mismatch = AdminRefusal::VersionMismatch { current: 7 };
        assert_eq!(refused(&state(), Precondition::Version(vec![6]), &repository), mismatch);
        assert_eq!(refused(&state(), Precondition::Version(vec![]), &repository), mismatch);
        assert_eq!(refused(&state(), Precondition::None, "local:shop"), AdminRefusal::ProjectChanged);
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
        let create = |state: &AdminState| create(state, (shop(), SecretChanges::new()), audit());
        assert_eq!(create(&state()), Err(AdminRefusal::ProjectExists));
        let created = create(&AdminState::default()).expect("a project");
        assert_eq!(created.project().map(|project| project.version), Some(1));
        let busy = AdminState { has_active_jobs: true, ..state() };
        assert_eq!(delete(&busy, &Precondition::None, audit()), Err(AdminRefusal::ProjectBusy));
        assert!(delete(&state(), &Precondition::None, audit()).is_ok());
        assert!(delete(&state(), &Precondition::Version(vec![1]), audit()).is_err());
    }
}
