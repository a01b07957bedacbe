//! The caller of a use case, and its permissions.

use std::net::IpAddr;
use std::sync::Arc;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::Change;
use journeyman_core::decision::user::gives_administration;
use journeyman_core::ids::{KeyId, ProjectId, UserId};
use journeyman_core::key::{ApiKey, Refused, Scope};
use journeyman_core::message::Origin;
use journeyman_core::refusal::{self, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_core::trace::TraceParent;
use journeyman_core::user::{Role, User};

use crate::{Error, RefusalKind};

/// The caller of a use case.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key or person.
    pub actor: Actor,
    /// The IP address that the request came from.
    pub address: Option<IpAddr>,
    /// The origin of the caller's messages.
    pub origin: Origin,
    /// The trace context of the request.
    pub traceparent: Option<TraceParent>,
}

/// The key or person on whose behalf a use case runs.
#[derive(Debug, Clone)]
pub enum Actor {
    /// An API key.
    Key(Arc<ApiKey>),
    /// A signed-in user of the dashboard.
    User(Arc<User>),
    /// The command line, which a person with access to the database uses.
    CommandLine,
}

impl Caller {
    /// Returns the caller of the command line, who may do everything.
    #[must_use]
    pub const fn command_line() -> Self {
        Self { actor: Actor::CommandLine, address: None, origin: Origin::Api, traceparent: None }
    }

    /// Returns a signed-in user.
    #[must_use]
    pub const fn user(user: Arc<User>, address: Option<IpAddr>) -> Self {
        Self { actor: Actor::User(user), address, origin: Origin::Dashboard, traceparent: None }
    }

    /// Returns the name that other users see.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.actor {
            Actor::Key(key) => &key.name,
            Actor::User(user) => &user.name,
            Actor::CommandLine => "cli",
        }
    }

    /// Returns the ID that audit entries and new keys record.
    #[must_use]
    pub fn id(&self) -> String {
        match &self.actor {
            Actor::Key(key) => key.id.to_string(),
            Actor::User(user) => user.id.to_string(),
            Actor::CommandLine => "cli".to_owned(),
        }
    }

    /// Returns the user whose rights the caller has, if there is one.
    #[must_use]
    pub fn owner(&self) -> Option<UserId> {
        match &self.actor {
            Actor::Key(key) => key.owner,
            Actor::User(user) => Some(user.id),
            Actor::CommandLine => None,
        }
    }

    /// Returns the API key of the caller.
    #[must_use]
    pub fn key(&self) -> Option<KeyId> {
        match &self.actor {
            Actor::Key(key) => Some(key.id),
            Actor::User(_) | Actor::CommandLine => None,
        }
    }

    /// Returns whether the caller may see a project.
    #[must_use]
    pub fn sees(&self, project: &ProjectId) -> bool {
        match &self.actor {
            Actor::Key(key) => key.sees(project),
            Actor::User(_) | Actor::CommandLine => true,
        }
    }

    /// Returns the only projects that the caller may see; `None` means all projects.
    #[must_use]
    pub fn projects(&self) -> Option<&[ProjectId]> {
        match &self.actor {
            Actor::Key(key) => key.projects.as_deref(),
            Actor::User(_) | Actor::CommandLine => None,
        }
    }

    /// Limits a selection of projects to those that the caller may see. `None` means all projects.
    #[must_use]
    pub fn visible(&self, projects: Option<Vec<ProjectId>>) -> Option<Vec<ProjectId>> {
        match (projects, self.projects()) {
            (None, visible) => visible.map(<[_]>::to_vec),
            (Some(mut projects), _) => {
                projects.retain(|project| self.sees(project));
                Some(projects)
            }
        }
    }

    /// Returns whether the caller may manage projects and all keys.
    #[must_use]
    pub fn is_administrator(&self) -> bool {
        match &self.actor {
            Actor::Key(key) => key.projects.is_none(),
            Actor::User(user) => user.role == Role::Administrator,
            Actor::CommandLine => true,
        }
    }

    /// Checks that the caller may carry out the operations of a scope.
    ///
    /// # Errors
    /// Returns [`RefusalKind::ScopeMissing`] if the caller may not.
    pub fn needs(&self, scope: Scope) -> Result<(), Error> {
        let text = match &self.actor {
            Actor::Key(key) if !key.allows(scope) => Refused::Scope(scope).to_string(),
            Actor::User(user) if user.role.scope() < scope => {
                "your role is read-only; ask an administrator for the role member to make changes".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Error::refused(RefusalKind::ScopeMissing, text))
    }

    /// Checks that the caller may manage projects and all keys. A key that is limited to some projects must not: by
    /// creating a key, or by changing the repository of a project, it could get access to projects that it cannot see.
    ///
    /// # Errors
    /// Returns [`RefusalKind::ScopeMissing`] if the caller lacks the scope `write`, and
    /// [`RefusalKind::NotAdministrator`] if the caller is not an administrator.
    pub fn needs_administrator(&self) -> Result<(), Error> {
        self.needs(Scope::Write)?;
        if self.is_administrator() {
            return Ok(());
        }
        let text = match self.actor {
            Actor::Key(_) => {
                "this API key is limited to some projects; managing keys and projects requires a key for all projects"
            }
            _ => "only an administrator may do this",
        };
        Err(Error::refused(RefusalKind::NotAdministrator, text))
    }

    /// Checks that the caller may give others access that has no limits of a key: to users, links and trusts. A key that
    /// may be used only from some addresses cannot, because that access may be used from any.
    ///
    /// # Errors
    /// Returns the errors of [`Caller::needs_administrator`], and [`RefusalKind::NotAdministrator`] for such a key.
    pub fn needs_unlimited_administrator(&self) -> Result<(), Error> {
        self.needs_administrator()?;
        match &self.actor {
            Actor::Key(key) if key.allowed_ips.is_some() => {
                let text = "this API key may be used only from some addresses (allowedIps); managing users and trusts \
                            requires a key without that limit, because they can be used from any address";
                Err(Error::refused(RefusalKind::NotAdministrator, text))
            }
            _ => Ok(()),
        }
    }

    /// Returns a decision that refuses to make administrators if the caller is a key that expires. `user_of` returns the
    /// user in the locked rows.
    pub(crate) fn within_expiry<L>(
        &self,
        user_of: fn(&L) -> Option<&User>,
        mut decide: impl FnMut(&L) -> Result<Change, refusal::Refusal> + Send + 'static,
    ) -> impl FnMut(&L) -> Result<Change, refusal::Refusal> + Send + 'static
    where
        L: 'static,
    {
        let expires = matches!(&self.actor, Actor::Key(key) if key.expires_at.is_some());
        move |locked| {
            let change = decide(locked)?;
            if expires && gives_administration(user_of(locked), &change) {
                let detail = "this API key expires (expiresAt), and what it creates ends with it; an administrator is \
                              made, enabled or given a link with a key that does not expire, on the pages, or by \
                              journeyman user";
                return Err(refusal::Refusal::new(refusal::RefusalKind::Forbidden, ResourceKind::Key, detail));
            }
            Ok(change)
        }
    }

    /// Checks that the caller may read what only administrators see, which does not need the scope `write`.
    ///
    /// # Errors
    /// Returns the errors of [`Caller::needs_administrator`] if the caller is not an administrator.
    pub fn needs_administrator_to_read(&self) -> Result<(), Error> {
        if self.is_administrator() { Ok(()) } else { self.needs_administrator() }
    }

    /// Checks that the caller may see a project.
    ///
    /// # Errors
    /// Returns [`RefusalKind::ProjectNotFound`] if the caller cannot see it, the same as if it did not exist.
    pub fn needs_project(&self, project: &ProjectId) -> Result<(), Error> {
        if self.sees(project) { Ok(()) } else { Err(Error::project_not_found()) }
    }

    /// Returns an audit entry about an action of the caller.
    #[must_use]
    pub fn audit(&self, at: Timestamp, action: &str, subject: impl ToString) -> AuditEntry {
        AuditEntry {
            at,
            actor: self.id(),
            action: action.to_owned(),
            subject: subject.to_string(),
            address: self.address.map(|address| address.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::user::Role;
    use uuid::Uuid;

    use super::*;

    fn user(role: Role) -> Caller {
        let id = UserId::from_uuid(Uuid::from_u128(1));
        let user = User {
            id,
            name: "ada".to_owned(),
            role,
            password: None,
            identity: None,
            second_factor: None,
            passkeys: Default::default(),
            created_at: Timestamp::default(),
            signed_in_at: None,
            disabled_at: None,
            version: 1,
        };
        Caller::user(Arc::new(user), None)
    }

    #[test]
    fn what_only_administrators_see_is_refused_to_others() {
        let kind = |caller: Caller| match caller.needs_administrator_to_read() {
            Err(Error::Refused(refusal)) => Some(refusal.kind),
            _ => None,
        };
        assert!(user(Role::Administrator).needs_administrator_to_read().is_ok());
        assert!(Caller::command_line().needs_administrator_to_read().is_ok());
        assert_eq!(kind(user(Role::Member)), Some(RefusalKind::NotAdministrator));
        assert_eq!(kind(user(Role::Viewer)), Some(RefusalKind::ScopeMissing));
    }
}
