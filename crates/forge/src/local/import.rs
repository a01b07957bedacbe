//! Imports of repositories.
//!
//! Invariants:
//!
//! - The repository changes in one transaction of refs: before it, all objects are fetched and checked in a separate
//!   folder. An import that ends early changes nothing.
//! - A push that arrives first wins. Refs are only created, and none is if the repository has one that is not in the
//!   import.
//! - Only branches, tags, the name of the default branch, and objects of Git LFS are taken over: no other refs, no hooks,
//!   no configuration. What of them cannot be copied is told.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::branch;
use journeyman_core::ports::{ForgeError, ImportFailed, ImportedObjects, LfsError, Reach, ReachedServers, Remote};
use journeyman_core::project::{Host, repository_host};
use journeyman_git::{Failure, Folders, Git, GitError, Output, Route, Service, UNSYNCED_REFS, pairs};

use super::{LocalHost, blocking};

/// The time limit of a fetch, as for the mirrors of repositories on other hosts.
const FETCH_TIMEOUT: Duration = Duration::from_secs(1800);

/// The branches and tags, and nothing else. Without `+`, a fetch changes no branch that has other commits.
const REFSPECS: [&str; 2] = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];

/// The maximum number of characters of an error of git in a cause.
const MAX_ERROR: usize = 1000;

/// The objects of refs by the names of the refs, which need not be UTF-8.
type Refs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The reason why an import failed.
#[derive(Debug)]
enum Problem {
    /// Git could not read the remote.
    Remote(GitError),
    /// The remote has no branches.
    Empty,
    /// The remote is a shallow clone.
    Shallow,
    /// The repository has a ref that is not in the import.
    Pushed,
    /// The repository could not be written.
    Local(String),
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        Self::Local(error.to_string())
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Local(error.to_string())
    }
}

impl From<ForgeError> for Problem {
    fn from(error: ForgeError) -> Self {
        Self::Local(error.to_string())
    }
}

impl LocalHost {
    /// Copies the branches and tags of a remote into the repository with this name, which has none, and the objects of Git
    /// LFS. Returns what was not copied.
    pub(crate) async fn import(
        &self,
        name: &str,
        from: &Remote,
        reached: &ReachedServers,
    ) -> Result<Option<String>, ImportFailed> {
        let recording = Self { git: self.git.recording(reached), ..self.clone() };
        recording.imported(name, from).await.map_err(|problem| ImportFailed(cause(&problem, from)))
    }

    async fn imported(&self, name: &str, from: &Remote) -> Result<Option<String>, Problem> {
        self.prepare(name).await?;
        let (staging, _lock) = self.building(name).await?;
        let done = self.import_through(&staging, &self.path(name), from).await;
        // A folder that stays is removed at the next start of the service.
        let _ = tokio::fs::remove_dir_all(&staging).await;
        done
    }

    async fn import_through(&self, staging: &Path, to: &Path, from: &Remote) -> Result<Option<String>, Problem> {
        self.git.at(staging, ["init", "--quiet", "--bare", "--template="]).run().await?;
        let default_branch = default_branch(&self.git, staging, from).await.map_err(Problem::Remote)?;
        if fetch(&self.git, staging, from, &[]).await.map_err(Problem::Remote)?.is_of_shallow_clone() {
            return Err(Problem::Shallow);
        }
        let staged = refs(&self.git, staging).await?;
        let branches: Vec<&[u8]> =
            staged.keys().filter_map(|name| name.strip_prefix(b"refs/heads/".as_slice())).collect();
        if branches.is_empty() {
            return Err(Problem::Empty);
        }
        self.check_untouched(to, &staged).await?;
        // The objects come first: whoever sees the branches can have them.
        let not_copied = match self.objects.import(from, staging, to, staging).await {
            Ok(objects) => not_copied(&objects, from),
            Err(error) => Some(format!("The objects of Git LFS were not copied: {error}. {PUSH_THEM}")),
        };
        self.publish(staging, to, &staged).await?;
        if let Some(chosen) = branch::default_branch(default_branch.as_deref().as_slice(), &branches) {
            self.set_head(to, chosen).await?;
        }
        // Git syncs the new file, but not its name in the folder.
        let folder = to.to_owned();
        blocking(move || File::open(folder)?.sync_all()).await?;
        Ok(not_copied)
    }

    /// Creates the refs of `staging` in `to`, with their objects, and syncs them to disk.
    async fn publish(&self, staging: &Path, to: &Path, staged: &Refs) -> Result<(), Problem> {
        let path = to.to_owned();
        let folders = blocking(move || Folders::look(&path)).await?;
        self.check_untouched(to, staged).await?;
        let url = staging.to_string_lossy().into_owned();
        let staging = Remote { url, credential: None, is_ours: true, reach: Reach::Public };
        let fetched = fetch(&self.git, to, &staging, &["--atomic"]).await;
        // A push may have come between the check and the transaction.
        if let Err(error) = fetched {
            self.check_untouched(to, staged).await?;
            let is_refused = error.says("fsck error");
            return Err(if is_refused { Problem::Remote(error) } else { error.into() });
        }
        self.git.at(to, ["pack-refs", "--all"]).run().await?;
        Ok(blocking(move || folders.sync()).await?)
    }

    /// Checks that the repository has no refs but those of the import, which an interrupted one may have created.
    async fn check_untouched(&self, to: &Path, staged: &Refs) -> Result<(), Problem> {
        let there = refs(&self.git, to).await?;
        let is_staged = |(name, at): (&Vec<u8>, &Vec<u8>)| staged.get(name) == Some(at);
        if there.iter().all(is_staged) { Ok(()) } else { Err(Problem::Pushed) }
    }
}

/// Returns the default branch of a remote, if it names one.
async fn default_branch(git: &Git, at: &Path, from: &Remote) -> Result<Option<Vec<u8>>, GitError> {
    let list = |route: &Route| {
        let arguments = ["ls-remote", "--symref"].map(str::to_owned).into_iter().chain(route.reading());
        git.at(at, arguments.chain(["--", route.address(), "HEAD"].map(str::to_owned)))
    };
    let listing = git.ask(from, Service::Read, list).await?.stdout;
    let mut lines = listing.split(|byte| *byte == b'\n');
    let named = lines.find_map(|line| line.strip_prefix(b"ref: refs/heads/")?.strip_suffix(b"\tHEAD"));
    Ok(named.map(<[u8]>::to_vec))
}

/// Fetches the branches and tags of a remote.
async fn fetch(git: &Git, into: &Path, from: &Remote, options: &[&str]) -> Result<Output, GitError> {
    let fetch = |route: &Route| {
        // Git checks no objects of a server that serves a repository as plain files. The second fetch, from the folder,
        // does.
        // The refs are synced in one file when all of them are there, instead of one file for each.
        let fetch = ["-c", "fetch.fsckObjects=true", "-c", UNSYNCED_REFS, "fetch", "--quiet", "--no-write-fetch-head"];
        let arguments = fetch.iter().chain(&["--no-tags", "--no-recurse-submodules"]).chain(options);
        let arguments = arguments.map(|option| (*option).to_owned()).chain(route.reading());
        let arguments = arguments.chain(["--", route.address()].map(str::to_owned)).chain(REFSPECS.map(str::to_owned));
        git.at(into, arguments).timeout(FETCH_TIMEOUT)
    };
    git.ask(from, Service::Read, fetch).await
}

async fn refs(git: &Git, repository: &Path) -> Result<Refs, GitError> {
    let listing = git.at(repository, ["for-each-ref", "--format=%(objectname) %(refname)"]).run().await?;
    Ok(pairs(&listing.stdout, b' ').map(|(at, name)| (name.to_vec(), at.to_vec())).collect())
}

/// The remedy for objects that were not copied.
const PUSH_THEM: &str = "Push them with `git lfs push --all` from a clone that has them.";

/// Describes the objects of Git LFS that were not copied.
fn not_copied(objects: &ImportedObjects, from: &Remote) -> Option<String> {
    let ImportedObjects { copied, failed, example } = objects;
    if *failed == 0 {
        return None;
    }
    let all = copied + failed;
    let reason = match example.as_ref().map(|example| &example.error) {
        Some(LfsError::Missing) => format!("{} does not have them", host_of(from)),
        Some(error) => shortened(&error.to_string()),
        None => "there are too many".to_owned(),
    };
    Some(format!("{failed} of {all} objects of Git LFS were not copied: {reason}. {PUSH_THEM}"))
}

/// Returns the host of a remote, for people.
fn host_of(remote: &Remote) -> String {
    match repository_host(&remote.url) {
        Some(Host::Name(name)) => name,
        Some(Host::Address(address)) => address.to_string(),
        None => "the server".to_owned(),
    }
}

/// Describes the cause of a failure, and the remedy.
fn cause(problem: &Problem, from: &Remote) -> String {
    let host = host_of(from);
    match problem {
        Problem::Pushed => "Something was pushed to the repository of the project before the import had finished, so \
                            nothing was imported. Push the rest with git."
            .to_owned(),
        Problem::Empty => format!("The repository on {host} has no branches. Push to it first, or start without it."),
        Problem::Shallow => format!(
            "The repository on {host} is a shallow clone, which lacks a part of its history. Run `git fetch --unshallow` \
             in it, or import the repository that it was cloned from."
        ),
        Problem::Local(error) => {
            let error = shortened(error);
            format!("The project's repository could not be written: {error}. Repair this, and start the import again.")
        }
        Problem::Remote(error) => remote_cause(error, &host, from.credential.is_some()),
    }
}

fn remote_cause(error: &GitError, host: &str, has_credential: bool) -> String {
    let text = shortened(&error.to_string());
    if error.says("fsck error") {
        return format!(
            "The repository on {host} has objects that the built-in code host refuses, also in pushes: {text}. Repair \
             its history, for example with git filter-repo, and import the result."
        );
    }
    if error.is_redirect() {
        return format!("{host} redirects to another host. Enter the address that it redirects to.");
    }
    match error.failure() {
        Failure::CredentialRefused if has_credential => format!(
            "{host} refused the user name and the token. Check both, and that the token may read the repository."
        ),
        Failure::CredentialRefused if is_from_ssh(error) => {
            format!("{host} or its SSH key was refused: {text}. Use an https:// URL with a token.")
        }
        Failure::CredentialRefused => format!(
            "{host} asks for a credential: the repository is private, or does not exist. Enter a user name and a token."
        ),
        Failure::NotFound => format!(
            "There is no repository at this URL on {host}, or the credential may not read it. Check the URL and the \
             token."
        ),
        Failure::Unreachable => format!(
            "{host} does not answer, or not in time: {text}. Check the URL, and that this server can connect to it."
        ),
        Failure::AddressRefused => format!("{text}. Start the import again afterwards."),
        Failure::TooLarge => format!(
            "The repository needs more memory or time than git may use: {text}. Push it with git in several steps."
        ),
        Failure::DiskFull => {
            "The disk with the repositories is full. Make room on it, and start the import again.".to_owned()
        }
        _ => format!("Git could not copy the repository: {text}. Check the URL, and start the import again."),
    }
}

/// Returns whether a refusal comes from ssh.
fn is_from_ssh(error: &GitError) -> bool {
    error.says("Permission denied (") || error.says("Host key verification failed")
}

/// Returns the beginning of an error, in one line and without a period at its end.
fn shortened(error: &str) -> String {
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = line.chars().take(MAX_ERROR).collect();
    text.trim_end_matches('.').to_owned()
}
