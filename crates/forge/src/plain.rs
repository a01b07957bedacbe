//! A git remote without pull requests, to which branches are only pushed.

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, HostName, HostRepository};
use journeyman_core::ports::{Checks, CreatedPull, Credential, Discussion, Forge, ForgeError, Reach, Remote};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::secret::SecretValue;

/// The default user name for a token; code hosts accept any.
const USERNAME: &str = "x-access-token";

/// A remote without a code host that opens pull requests.
pub(crate) struct PlainRemote {
    remote: Remote,
    /// The known code host for which there is no credential.
    host: Option<String>,
}

impl PlainRemote {
    pub(crate) fn new(url: String, reach: Reach, username: Option<String>, token: Option<SecretValue>) -> Self {
        let credential = token.map(|SecretValue(password)| {
            let username = username.unwrap_or_else(|| USERNAME.to_owned());
            Credential { username, password }
        });
        Self { remote: Remote { url, credential, is_ours: false, reach }, host: None }
    }

    /// Returns the remote of a repository of the built-in host, whose pull requests are not used.
    pub(crate) const fn ours(url: String) -> Self {
        Self { remote: Remote { url, credential: None, is_ours: true, reach: Reach::Public }, host: None }
    }

    /// Returns a repository on a known code host without a credential for its interface.
    pub(crate) fn without_credential(url: String, reach: Reach, host: &CodeHost) -> Self {
        let host = Some(format!("{} ({})", host.url, host.kind.product()));
        Self { remote: Remote { url, credential: None, is_ours: false, reach }, host }
    }

    fn no_pulls(&self) -> ForgeError {
        let text = match &self.host {
            Some(host) => format!(
                "the branch was pushed, but there is no credential for {host}, so no pull request was opened. Give the \
                 project a token, or add the code host on the page System"
            ),
            None => format!(
                "the branch was pushed, but the code host of {} is not known, so no pull request was opened. Add the \
                 code host on the page System, set codeHost.kind of the project, or open the pull request by hand",
                self.remote.url
            ),
        };
        ForgeError::NoPulls(Reason::new(ReasonCode::NoCodeHost, text))
    }
}

#[async_trait]
impl Forge for PlainRemote {
    fn host(&self) -> HostName {
        HostName(self.remote.url.clone())
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        Ok(self.remote.clone())
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        Err(self.no_pulls())
    }

    async fn find_pulls(&self, _head: &str) -> Result<Vec<HostPull>, ForgeError> {
        Err(self.no_pulls())
    }

    async fn create_pull(&self, _new: &NewPull) -> Result<CreatedPull, ForgeError> {
        Err(self.no_pulls())
    }

    async fn pull(&self, _number: u64) -> Result<Option<HostPull>, ForgeError> {
        Ok(None)
    }

    async fn update_pull(&self, _number: u64, _change: &PullChange) -> Result<(), ForgeError> {
        Err(self.no_pulls())
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        None
    }

    fn checks(&self) -> Option<&dyn Checks> {
        None
    }
}
