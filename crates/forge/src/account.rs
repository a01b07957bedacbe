//! The owners of credentials, for the test of a code host.

use journeyman_core::hook::HostUser;

/// The owner of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Account {
    /// A user.
    User(HostUser),
    /// The credential has no user, or may not read it, so only a repository can show whether it is valid.
    Unnamed,
    /// A GitHub App.
    App(AppAccount),
}

/// A GitHub App, as GitHub describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppAccount {
    /// The name in URLs.
    pub(crate) slug: String,
    /// The permissions that the service needs and the app lacks, such as `contents: write`.
    pub(crate) missing: Vec<String>,
    /// The users and organizations that have installed the app.
    pub(crate) installed_by: Vec<String>,
    /// Those of them that have not granted all permissions that the service needs, each with what is missing.
    pub(crate) granted_less: Vec<(String, Vec<String>)>,
    /// The accounts that have suspended the App.
    pub(crate) suspended_by: Vec<String>,
}
