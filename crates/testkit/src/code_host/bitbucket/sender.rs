//! The senders of requests, and their rights.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::code_host::state::{Repository, State, Token, User};
use crate::code_host::{ApiRequest, Reply};

/// The sender of a request.
pub(super) struct Sender {
    pub(super) user: User,
    pub(super) token: Token,
    /// `true` for an access token.
    pub(super) is_access_token: bool,
}

impl Sender {
    /// Finds the sender of a request; `None` if the credential is not valid.
    pub(super) fn of(state: &State, call: &ApiRequest) -> Option<Self> {
        let value = call.headers.get("authorization")?.to_str().ok()?;
        let (kind, text) = value.split_once(' ')?;
        let basic = match kind {
            "Basic" => Some(String::from_utf8(STANDARD.decode(text).ok()?).ok()?),
            "Bearer" => None,
            _ => return None,
        };
        let (user, token) = state.signed_in(call.token().as_deref())?;
        let is_access_token = basic.is_none();
        // The name of an API token's user is the email address. Access tokens have none.
        let is_valid = match basic.as_deref().and_then(|basic| basic.split_once(':')) {
            Some((email, _)) => email.contains('@') && token.repository.is_none() && !user.is_bot,
            None => is_access_token,
        };
        is_valid.then_some(Self { user, token, is_access_token })
    }

    /// Returns whether the token may read accounts: its own user, and the members of workspaces.
    pub(super) fn reads_accounts(&self) -> bool {
        !self.is_access_token || (self.token.repository.is_none() && !self.user.is_bot)
    }

    /// Returns whether the token may administer a repository.
    pub(super) fn administers(&self, repository: &Repository) -> bool {
        let is_admin = repository.permissions.get(&self.user.id) == Some(&"admin");
        self.token.can_write && (self.is_access_token || is_admin)
    }

    /// Returns whether the token may push to a repository.
    pub(super) fn pushes(&self, repository: &Repository) -> bool {
        let may = matches!(repository.permissions.get(&self.user.id), Some(&("admin" | "write")));
        self.token.can_write && (self.is_access_token || may)
    }

    pub(super) fn scopes(&self) -> &'static str {
        match (self.is_access_token, self.token.can_write) {
            (true, true) => "repository:admin, repository:write, pullrequest:write, pipeline",
            (true, false) => "repository, pullrequest, pipeline",
            (false, true) => {
                "read:user:bitbucket, read:workspace:bitbucket, admin:repository:bitbucket, write:repository:bitbucket, \
                 write:pullrequest:bitbucket, read:pipeline:bitbucket"
            }
            (false, false) => {
                "read:user:bitbucket, read:workspace:bitbucket, read:repository:bitbucket, \
                 read:pullrequest:bitbucket, read:pipeline:bitbucket"
            }
        }
    }

    /// Refuses a request because of a missing scope.
    pub(super) fn lacks(&self, scope: &str) -> Reply {
        let granted: Vec<&str> = self.scopes().split(", ").collect();
        let message = "Your credentials lack one or more required privilege scopes.";
        let detail = json!({"required": [scope], "granted": granted});
        Reply::json(403, &json!({"type": "error", "error": {"message": message, "detail": detail}}))
    }
}
