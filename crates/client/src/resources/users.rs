//! Users of the dashboard.

use reqwest::Method;

use crate::call::Call;
use crate::client::Client;
use crate::models::{ChangeUser, CreateUser, CreatedUser, User, UserLink};
use crate::pager::Pager;

/// The operations on users.
#[derive(Debug, Clone)]
pub struct Users {
    pub(crate) client: Client,
}

impl Users {
    /// Lists the users, sorted by name, including disabled ones.
    pub fn list(&self) -> Pager<User> {
        self.client.list(&["v2", "users"], "users")
    }

    /// Creates a user. Only the result contains the link with which the user sets a password.
    pub fn create(&self, user: &CreateUser) -> Call<CreatedUser> {
        self.client.post(&["v2", "users"]).json(user)
    }

    /// Returns a user.
    pub fn get(&self, user: &str) -> Call<User> {
        self.client.get(&["v2", "users", user])
    }

    /// Gives a user another role, disables or enables the user, or disconnects the user from the OpenID provider. Keys that
    /// exceed the rights of the user are revoked.
    pub fn change(&self, user: &str, changes: &ChangeUser) -> Call<User> {
        self.client.call(Method::PATCH, &["v2", "users", user]).harmless().json(changes)
    }

    /// Creates a link with which a user sets a password, instead of earlier links. Only the result contains it.
    pub fn create_link(&self, user: &str) -> Call<UserLink> {
        self.client.post(&["v2", "users", user, "link"])
    }
}
