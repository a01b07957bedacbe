//! The role of a user.

use serde::{Deserialize, Serialize};

use crate::key::Scope;

/// The role of a user, which determines what the user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May do everything, including the management of projects, all keys, users, and the audit log.
    Administrator,
    /// May work with the jobs and pull requests of all projects, and may create keys, each limited to named projects.
    Member,
    /// May view projects, jobs and pull requests.
    Viewer,
}

impl Role {
    /// All roles, the most powerful first.
    pub const ALL: [Self; 3] = [Self::Administrator, Self::Member, Self::Viewer];

    /// Returns the name in the store and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::Member => "member",
            Self::Viewer => "viewer",
        }
    }

    /// Finds a role by its [`Role::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Returns the scope that an API key needs for the same access to jobs.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Administrator | Self::Member => Scope::Write,
            Self::Viewer => Scope::Read,
        }
    }
}
