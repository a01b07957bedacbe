//! A git remote without pull requests, to which branches are only pushed.

use async_trait::async_trait;
use journeyman_core::job::Pull;
use journeyman_core::ports::{Credential, Forge, ForgeError, Remote};
use journeyman_core::project::SecretValue;
use journeyman_core::pull::{NewPull, PullState};
use journeyman_core::run::{Reason, ReasonCode};

/// The default user name for a token; code hosts accept any.
const USERNAME: &str = "x-access-token";

/// A remote without a code host that opens pull requests.
pub(crate) struct PlainRemote {
    remote: Remote,
}

impl PlainRemote {
    pub(crate) fn new(url: String, username: Option<String>, token: Option<SecretValue>) -> Self {
        let credential = token.map(|SecretValue(password)| {
            let username = username.unwrap_or_else(|| USERNAME.to_owned());
            Credential { username, password }
        });
        Self { remote: Remote { url, credential, is_ours: false } }
    }

    /// Returns the remote of a repository of the built-in host, whose pull requests are not used.
    pub(crate) const fn ours(url: String) -> Self {
        Self { remote: Remote { url, credential: None, is_ours: true } }
    }

    /// Returns the remote.
    pub(crate) fn into_remote(self) -> Remote {
        self.remote
    }

    fn no_pulls(&self) -> ForgeError {
        let text = format!(
            "the branch was pushed, but {} is on no code host that Journeyman supports, so no pull request was opened; \
             open one by hand, or use a repository of the built-in code host (local:<name>)",
            self.remote.url
        );
        ForgeError::NoPulls(Reason::new(ReasonCode::NoCodeHost, text))
    }
}

#[async_trait]
impl Forge for PlainRemote {
    async fn remote(&self) -> Result<Remote, ForgeError> {
        Ok(self.remote.clone())
    }

    async fn find_open_pull(&self, _head: &str) -> Result<Option<Pull>, ForgeError> {
        Err(self.no_pulls())
    }

    async fn open_pull(&self, _new: &NewPull) -> Result<Option<Pull>, ForgeError> {
        Err(self.no_pulls())
    }

    async fn pull_state(&self, _number: u64) -> Result<Option<PullState>, ForgeError> {
        Ok(None)
    }
}
