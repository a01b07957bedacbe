//! The objects of Git LFS of repositories: on code hosts, next to repositories at a path, and in the blob store for the
//! repositories of the built-in code host.
//!
//! Invariants:
//!
//! - Every downloaded file has the size and the hash of its pointer.
//! - The credential of a repository is sent only to the origin (scheme, host and port) of the repository's URL. Other
//!   servers that an LFS server names get only the headers that it names for them.
//! - The rule for the host of the repository ([`journeyman_core::ports::Reach`]) extends to no other origin: all others
//!   must be public, or in a network that the operator has allowed.
//! - Text of a server is only in the log of the service.
//! - No program runs: no `git-lfs`, no filter and no hook.
//!
//! | module | task |
//! |---|---|
//! | `http` | the batch API and the transfer `basic` |
//! | `serve` | the LFS server of the built-in code host |
//! | `wire` | the bodies of the batch API |
//! | `folder` | repositories at a path, as `git-lfs` treats them (`git lfs standalone-file`) |
//! | `hosted` | repositories of the built-in code host |
//! | `lock` | keeps objects from being removed while a client is told that they exist |
//! | `upkeep` | measures the objects of the built-in code host, and removes those that nothing names |
//! | `keeper` | copies objects for imports, and removes those of removed repositories |

mod disk;
mod file;
mod folder;
mod hosted;
mod http;
mod keeper;
mod lock;
mod serve;
mod upkeep;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::lfs::Pointer;
use journeyman_core::ports::{Blobs, LfsError, LfsFailure, LfsObjects, LfsUpload, Remote};
use journeyman_core::time::Clock;
use journeyman_git::{Failure, Git};
use journeyman_net::{Client, Outbound, Policy};
use url::Url;

pub use keeper::Keeper;
pub use serve::{Folders, LfsHost};

use self::folder::ObjectFolder;
use self::hosted::Hosted;
use self::http::Server;

/// The delay before a failed request is repeated for the first time. It doubles each time.
const PAUSE: Duration = Duration::from_millis(500);

/// The objects of all repositories. Cheap to clone.
#[derive(Clone)]
pub struct Lfs {
    git: Git,
    blobs: Arc<dyn Blobs>,
    clock: Arc<dyn Clock>,
    outbound: Outbound,
    /// The client for servers that an LFS server names.
    others: Client,
    /// The clients for the servers of repositories, by the policies for them.
    clients: Clients,
    pause: Duration,
}

impl Lfs {
    /// Creates the client. `git` finds repositories at paths, and `blobs` has the objects of the built-in code host.
    #[must_use]
    pub fn new(git: Git, blobs: Arc<dyn Blobs>, clock: Arc<dyn Clock>) -> Self {
        let outbound = Outbound::default();
        let (others, clients) = (outbound.client(outbound.public()), Clients::new(&outbound));
        Self { git, blobs, clock, outbound, others, clients, pause: PAUSE }
    }

    /// Connects to servers with these settings.
    #[must_use]
    pub fn with_outbound(self, outbound: Outbound) -> Self {
        let (others, clients) = (outbound.client(outbound.public()), Clients::new(&outbound));
        Self { outbound, others, clients, ..self }
    }

    /// Returns a client that waits this long before it repeats a failed request for the first time.
    #[must_use]
    pub fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Returns the location of the objects of a remote.
    async fn location<'a>(&'a self, remote: &'a Remote) -> Result<ObjectLocation<'a>, LfsError> {
        if remote.is_ours {
            let (git_dir, now) = (Path::new(&remote.url), self.clock.now());
            return Ok(ObjectLocation::Hosted(Hosted { blobs: &*self.blobs, git_dir, now }));
        }
        if remote.url.starts_with('/') || remote.url.starts_with("file://") {
            let route = self.git.route(remote).await.map_err(|error| match error.failure() {
                Failure::NotUsed | Failure::NotFound => LfsError::Unsupported(error.to_string()),
                _ => LfsError::Failed(error.to_string()),
            })?;
            return Ok(ObjectLocation::Folder(ObjectFolder::new(route.address().into())));
        }
        if remote.url.starts_with("https://") || remote.url.starts_with("http://") {
            let url = Url::parse(&endpoint(&remote.url));
            let endpoint = url.map_err(|error| LfsError::Unsupported(format!("the URL is malformed: {error}")))?;
            let client = self.clients.of(&self.outbound.policy_of_url(remote.reach, &remote.url));
            let (others, credential, pause) = (&self.others, remote.credential.as_ref(), self.pause);
            return Ok(ObjectLocation::Server(Server { client, others, endpoint, credential, pause }));
        }
        let text = "the service uses Git LFS only over HTTP; give the project the https:// address of its repository";
        Err(LfsError::Unsupported(text.to_owned()))
    }
}

/// The HTTP clients for the servers of repositories, one for each rule.
#[derive(Clone)]
struct Clients {
    any: Client,
    code_hosts: Client,
    loopback: Client,
    public: Client,
}

impl Clients {
    fn new(outbound: &Outbound) -> Self {
        let client = |policy| outbound.client(policy);
        Self {
            any: client(Policy::Any),
            code_hosts: client(Policy::CodeHosts),
            loopback: client(Policy::Loopback),
            public: client(outbound.public()),
        }
    }

    fn of(&self, policy: &Policy) -> &Client {
        match policy {
            Policy::Any => &self.any,
            Policy::CodeHosts => &self.code_hosts,
            Policy::Loopback => &self.loopback,
            Policy::Public(_) | Policy::PublicOrProxied(_) => &self.public,
        }
    }
}

/// The location of the objects of a remote.
enum ObjectLocation<'a> {
    Hosted(Hosted<'a>),
    Folder(ObjectFolder),
    Server(Server<'a>),
}

/// Returns the URL of the LFS server of a repository, as git-lfs finds it.
fn endpoint(repository: &str) -> String {
    let repository = repository.trim_end_matches('/');
    let ending = if repository.ends_with(".git") { "" } else { ".git" };
    format!("{repository}{ending}/info/lfs")
}

#[async_trait]
impl LfsObjects for Lfs {
    async fn download(&self, remote: &Remote, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        match self.location(remote).await? {
            ObjectLocation::Hosted(hosted) => hosted.download(objects, folder).await,
            ObjectLocation::Folder(found) => found.download(objects, folder).await,
            ObjectLocation::Server(server) => server.download(objects, folder).await,
        }
    }

    async fn missing(&self, remote: &Remote, branch: &str, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        match self.location(remote).await? {
            ObjectLocation::Hosted(hosted) => hosted.missing(objects).await,
            ObjectLocation::Folder(folder) => folder.missing(objects).await,
            ObjectLocation::Server(server) => server.missing(branch, objects).await,
        }
    }

    async fn upload(&self, remote: &Remote, branch: &str, objects: &[LfsUpload]) -> Result<(), LfsError> {
        match self.location(remote).await? {
            ObjectLocation::Hosted(hosted) => hosted.upload(objects).await,
            ObjectLocation::Folder(folder) => folder.upload(objects).await,
            ObjectLocation::Server(server) => server.upload(branch, objects).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_as_git_lfs_finds_it() {
        for (repository, expected) in [
            ("https://example.com/a/b", "https://example.com/a/b.git/info/lfs"),
            ("https://example.com/a/b.git", "https://example.com/a/b.git/info/lfs"),
            ("http://example.com:81/a/b/", "http://example.com:81/a/b.git/info/lfs"),
        ] {
            assert_eq!(endpoint(repository), expected);
        }
    }
}
