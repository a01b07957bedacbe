//! The wire format of users and their links.

use journeyman_app as app;
use journeyman_core::time::Timestamp;
use journeyman_core::{decision, user};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The role of a user, which decides what the user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, including the management of projects, all keys, users, and the audit log.
    Administrator,
    /// Work with the jobs and pull requests of all projects, and creation of keys that are limited to projects.
    Member,
    /// Reading projects, jobs and pull requests.
    Viewer,
}

impl From<Role> for user::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Administrator => Self::Administrator,
            Role::Member => Self::Member,
            Role::Viewer => Self::Viewer,
        }
    }
}

impl From<user::Role> for Role {
    fn from(role: user::Role) -> Self {
        match role {
            user::Role::Administrator => Self::Administrator,
            user::Role::Member => Self::Member,
            user::Role::Viewer => Self::Viewer,
        }
    }
}

/// A user of the dashboard.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The ID of the user.
    #[schema(example = "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
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
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The time of the last sign-in; `null` if there was none.
    #[schema(required, format = DateTime)]
    pub signed_in_at: Option<String>,
    /// The time at which the user was disabled; `null` if the user may sign in.
    #[schema(required, format = DateTime)]
    pub disabled_at: Option<String>,
}

impl From<user::User> for User {
    fn from(user: user::User) -> Self {
        let text = |time: Option<Timestamp>| time.map(|at| at.to_string());
        Self {
            id: user.id.to_string(),
            name: user.name,
            role: user.role.into(),
            has_password: user.password.is_some(),
            has_identity: user.identity.is_some(),
            created_at: user.created_at.to_string(),
            signed_in_at: text(user.signed_in_at),
            disabled_at: text(user.disabled_at),
        }
    }
}

/// A page of users.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserList {
    /// The users, sorted by name.
    pub users: Vec<User>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// A link with which a user sets a password once, and so can sign in. A newer link of the user replaces it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserLink {
    /// The URL. Send it through a channel that only the user can read: it cannot be read again.
    pub url: String,
    /// The time from which the link is refused.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl From<app::CreatedLink> for UserLink {
    fn from(link: app::CreatedLink) -> Self {
        Self { url: link.url, expires_at: link.expires_at.to_string() }
    }
}

/// A user with a link to set a password, which only the response to the creation contains.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedUser {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// The link.
    pub link: UserLink,
}

impl From<app::CreatedUser> for CreatedUser {
    fn from(created: app::CreatedUser) -> Self {
        Self { user: created.user.into(), link: created.link.into() }
    }
}

/// A user to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateUser {
    /// The name to sign in with, such as an email address: letters, digits, and `.`, `_`, `-`, `@` and `+`.
    #[schema(min_length = 1, max_length = 100)]
    pub(crate) name: String,
    /// The role of the user; by default, `member`.
    pub(crate) role: Option<Role>,
}

/// Changes of a user. Fields that are left out stay as they are.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeUser {
    /// The role of the user. Keys of the user that exceed the role are revoked.
    role: Option<Role>,
    /// `true` ends the sessions of the user, deletes the links, and revokes the keys; `false` lets the user sign in
    /// again.
    disabled: Option<bool>,
    /// `false` disconnects the user from the OpenID provider, and ends the sessions of the user. Only the user can
    /// connect an account.
    has_identity: Option<bool>,
}

impl From<ChangeUser> for decision::user::UserChanges {
    fn from(changes: ChangeUser) -> Self {
        let ChangeUser { role, disabled, has_identity } = changes;
        Self { role: role.map(user::Role::from), disabled, has_identity, has_second_factor: None }
    }
}
