//! Users of the dashboard.

use serde::{Deserialize, Serialize};

use super::values::Secret;

open_enum! {
    /// The role of a user, which decides what the user may do.
    Role {
        /// The user may do everything, including the management of users.
        Administrator = "administrator",
        /// The user may work with the jobs and pull requests of all projects.
        Member = "member",
        /// The user may read projects, jobs and pull requests.
        Viewer = "viewer",
    }
}

/// A user of the dashboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct User {
    /// The ID of the user.
    pub id: String,
    /// The name to sign in with, in lower case, which no other user has.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    /// `true` if the user has set a password.
    pub has_password: bool,
    /// `true` if the user can sign in through the OpenID provider.
    pub has_identity: bool,
    /// The time of creation.
    pub created_at: String,
    /// The time of the last sign-in; `None` if there was none.
    pub signed_in_at: Option<String>,
    /// The time at which the user was disabled; `None` if the user may sign in.
    pub disabled_at: Option<String>,
}

/// A link with which a user sets a password once. A newer link of the user replaces it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserLink {
    /// The URL. Send it through a channel that only the user can read: it cannot be read again.
    pub url: Secret,
    /// The time from which the link is refused.
    pub expires_at: String,
}

/// A user with a link to set a password, which only the response to the creation contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreatedUser {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// The link.
    pub link: UserLink,
}

/// A user to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateUser {
    /// The name to sign in with, such as an email address: letters, digits, and `.`, `_`, `-`, `@` and `+`.
    pub name: String,
    /// The role of the user; by default, [`Role::Member`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

impl CreateUser {
    /// Returns the request with its required fields.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: None }
    }

    /// Sets `role`.
    #[must_use]
    pub fn role(mut self, value: Role) -> Self {
        self.role = Some(value);
        self
    }
}

/// The changes of a user. Fields that are not given stay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeUser {
    /// The role of the user. Keys of the user that exceed the role are revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// `true` ends the sessions of the user, deletes the links, and revokes the keys; `false` lets the user sign in
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// `false` disconnects the user from the OpenID provider, and ends the sessions of the user. Only the user can
    /// connect an account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_identity: Option<bool>,
}

impl ChangeUser {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `role`.
    #[must_use]
    pub fn role(mut self, value: Role) -> Self {
        self.role = Some(value);
        self
    }

    /// Sets `disabled`.
    #[must_use]
    pub fn disabled(mut self, value: bool) -> Self {
        self.disabled = Some(value);
        self
    }

    /// Sets `has_identity`.
    #[must_use]
    pub fn has_identity(mut self, value: bool) -> Self {
        self.has_identity = Some(value);
        self
    }
}
