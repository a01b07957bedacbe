//! One bare mirror for each repository, shared by all of its jobs. It is the git directory that the host commits and
//! pushes from; agents never write to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ids::Sha;
use journeyman_core::ports::Remote;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Folders, Git, GitError};

use crate::failure::Stopped;
use crate::tree_size::TreeSizes;

/// The mirrors of a worker.
#[derive(Debug)]
pub(crate) struct Mirrors {
    git: Git,
    pub(crate) dir: PathBuf,
    /// Fetches into one mirror take turns: git's locks on refs do not wait.
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    tree_sizes: TreeSizes,
}

/// A mirror and what the remote holds now.
#[derive(Debug, Clone)]
pub(crate) struct Mirror {
    pub(crate) git: Git,
    pub(crate) path: PathBuf,
    pub(crate) remote: Remote,
    pub(crate) heads: BTreeMap<String, Sha>,
    pub(crate) default_branch: String,
    /// Whether the remote names its default branch; otherwise `default_branch` is a guess.
    pub(crate) names_default_branch: bool,
    /// The sizes of the trees of commits in any mirror.
    pub(crate) tree_sizes: TreeSizes,
}

impl Mirrors {
    pub(crate) fn new(git: Git, dir: PathBuf) -> Self {
        Self { git, dir, turns: Mutex::default(), tree_sizes: TreeSizes::default() }
    }

    /// Where the mirror of a remote is.
    pub(crate) fn path(&self, url: &str) -> PathBuf {
        let name = Fingerprint::of("mirror", url.as_bytes()).0;
        let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(format!("{name}.git"))
    }

    pub(crate) const fn git(&self) -> &Git {
        &self.git
    }

    /// Whether a mirror has the commit.
    pub(crate) async fn has(&self, path: &Path, commit: &Sha) -> bool {
        let object = format!("{commit}^{{commit}}");
        path.exists() && self.git.at(path, ["cat-file", "-e", &object]).run().await.is_ok()
    }

    /// The remote's refs, and which branch is the default one.
    async fn listing(&self, mirror: &Path, remote: &Remote) -> Result<String, Stopped> {
        // Asking a repository of ours as a remote would start two more processes.
        let ask = if remote.is_ours {
            self.git.at(Path::new(&remote.url), ["for-each-ref", LISTING, "refs/heads", "refs/tags"])
        } else {
            let (route, refs) =
                (self.git.route(remote).await?, ["HEAD", "refs/heads/*", "refs/tags/*"].map(str::to_owned));
            let ask = ["ls-remote", "--symref"].map(str::to_owned).into_iter().chain(route.reading());
            self.git.at(mirror, ask.chain(["--".to_owned(), route.address().to_owned()]).chain(refs))
        };
        Ok(ask.credential(remote.credential.as_ref()).run().await?.text()?)
    }

    /// Brings the remote's mirror up to date.
    pub(crate) async fn fetch(&self, remote: Remote) -> Result<Mirror, Stopped> {
        let path = self.path(&remote.url);
        let turn = self.turn(&path);
        let _turn = turn.lock().await;
        self.fetch_into(path, remote).await
    }

    /// Returns the lock of a mirror.
    pub(crate) fn turn(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(path.to_owned()).or_default())
    }

    /// Updates the mirror at `path`, and creates it if it is missing.
    pub(crate) async fn fetch_into(&self, path: PathBuf, remote: Remote) -> Result<Mirror, Stopped> {
        if !path.join("HEAD").exists() {
            tokio::fs::create_dir_all(&self.dir).await?;
            self.git.command(["init", "--quiet", "--bare"]).env("GIT_DIR", &path).run().await?;
        }
        // One cheap question first; most runs find that nothing has changed.
        let listing = self.listing(&path, &remote).await?;
        let (heads, default_branch, names_default_branch) = read_listing(&listing)?;
        let known = path.join("journeyman-listing");
        let before = tokio::fs::read_to_string(&known).await.ok();
        if before.as_ref() != Some(&listing) {
            if !self.is_moved(&path, before.as_deref().unwrap_or_default(), &listing).await {
                let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
                let route = self.git.route(&remote).await?;
                let arguments = ["fetch", "--quiet", "--prune", "--no-write-fetch-head"].map(str::to_owned);
                let address = ["--", route.address(), refs[0], refs[1]].map(str::to_owned);
                let fetch = self.git.at(&path, arguments.into_iter().chain(route.reading()).chain(address));
                fetch.credential(remote.credential.as_ref()).timeout(Duration::from_secs(1800)).run().await?;
            }
            tokio::fs::write(&known, &listing).await?;
        }
        let (git, tree_sizes) = (self.git.clone(), self.tree_sizes.clone());
        Ok(Mirror { git, path, remote, heads, default_branch, names_default_branch, tree_sizes })
    }
}

impl Mirrors {
    /// Whether all that is new at the remote is here already, as what we have pushed is: then the refs are moved without
    /// asking the remote again.
    async fn is_moved(&self, mirror: &Path, before: &str, now: &str) -> bool {
        let (before, now) = (refs(before), refs(now));
        let new: Vec<(&str, &str)> =
            now.iter().filter(|(name, at)| before.get(*name) != Some(*at)).map(|(name, at)| (*name, *at)).collect();
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        if new.is_empty() || new.len() > MOVED {
            return false;
        }
        // All that leads to them is here: as git makes sure of it itself (connected.c).
        let wanted: String = new.iter().map(|(_, at)| format!("{at}\n")).collect();
        let connected = ["rev-list", "--objects", "--stdin", "--not", "--branches", "--tags", "--quiet"];
        if self.git.at(mirror, connected).stdin(wanted).run().await.is_err() {
            return false;
        }
        let updates: String = (new.iter().map(|(name, at)| format!("update {name} {at}\n")))
            .chain(gone.map(|name| format!("delete {name}\n")))
            .collect();
        self.git.at(mirror, ["update-ref", "--stdin"]).stdin(updates).run().await.is_ok()
    }
}

/// Refs that are looked at one by one, at most: more are a repository that is new to us.
const MOVED: usize = 20;

/// The refs of a listing, and where they are.
fn refs(listing: &str) -> BTreeMap<&str, &str> {
    let lines = listing.lines().filter_map(|line| line.split_once('\t'));
    let real =
        lines.filter(|(at, name)| !at.starts_with("ref: ") && name.starts_with("refs/") && !name.ends_with("^{}"));
    real.map(|(at, name)| (name, at)).collect()
}

/// Commits, and what they change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Oldest first.
    pub(crate) commits: Vec<Sha>,
    /// Of all of them.
    parents: HashSet<String>,
    /// Whether one of them has several parents: what it brings is told against the first alone.
    pub(crate) merge: bool,
    /// Each file as each commit changes it.
    pub(crate) files: Vec<Change>,
}

/// A file that a commit changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Six octal digits; zeros where it was not there.
    pub(crate) old_mode: String,
    /// Likewise, where it is gone.
    pub(crate) new_mode: String,
    /// What it is now.
    pub(crate) object: String,
    pub(crate) path: String,
}

impl Changes {
    /// Reads what `git log --raw -z --format="%H %P"` says: a line for each commit, and for each file a line that begins
    /// with a colon and its path, all with a NUL at the end (git-diff(1), "raw output format").
    fn read(told: &str) -> Self {
        let mut changes = Self::default();
        let mut fields = told.split('\0');
        while let Some(field) = fields.next() {
            if let Some(change) = field.trim_start_matches('\n').strip_prefix(':') {
                let words: Vec<&str> = change.split(' ').collect();
                let (&[old_mode, new_mode, _, object, _], Some(path)) = (words.as_slice(), fields.next()) else {
                    break;
                };
                let [old_mode, new_mode, object, path] = [old_mode, new_mode, object, path].map(str::to_owned);
                changes.files.push(Change { old_mode, new_mode, object, path });
            } else {
                let mut words = field.trim_start_matches('\n').split(' ');
                changes.commits.extend(words.next().and_then(|commit| commit.parse().ok()));
                let parents: Vec<&str> = words.filter(|parent| !parent.is_empty()).collect();
                changes.merge |= parents.len() > 1;
                changes.parents.extend(parents.into_iter().map(str::to_owned));
            }
        }
        changes
    }
}

/// What `git for-each-ref` prints of a ref, in the form of `git ls-remote`; before that of the current branch, `HEAD`.
const LISTING: &str = "--format=%(if:equals=*)%(HEAD)%(then)ref: %(refname)%09HEAD%0a%(end)%(objectname)%09%(refname)";

/// Returns the branches, the default branch, and whether the remote names it.
fn read_listing(listing: &str) -> Result<(BTreeMap<String, Sha>, String, bool), Stopped> {
    let (mut heads, mut default_branch) = (BTreeMap::new(), None);
    for line in listing.lines() {
        let Some((left, name)) = line.split_once('\t') else { continue };
        if let Some(target) = left.strip_prefix("ref: refs/heads/") {
            default_branch = Some(target.to_owned());
        } else if let (Some(branch), Ok(sha)) = (name.strip_prefix("refs/heads/"), left.parse()) {
            heads.insert(branch.to_owned(), sha);
        }
    }
    let empty = || {
        let text = "the repository has no commits; push a first one (a README will do), then send the message again";
        Stopped::failed(ReasonCode::RepositoryEmpty, text)
    };
    // A server that tells no HEAD, or one that points to a branch that is not there.
    let named = default_branch.filter(|branch| heads.contains_key(branch));
    let is_named = named.is_some();
    let default_branch =
        named.or_else(|| heads.keys().find(|branch| *branch == "main").or_else(|| heads.keys().next()).cloned());
    Ok((heads, default_branch.ok_or_else(empty)?, is_named))
}

/// A repository's branches and commits, to look at.
#[async_trait]
pub(crate) trait History: Sync {
    /// The remote's branches.
    fn heads(&self) -> &BTreeMap<String, Sha>;

    /// One of them.
    fn default_branch(&self) -> &str;

    /// Returns whether the remote names the default branch; otherwise it is a guess.
    fn names_default_branch(&self) -> bool;

    /// The commit that a ref names: `HEAD`, a branch, a tag or a commit.
    async fn resolve(&self, reference: &str) -> Result<Sha, Stopped>;

    /// Whether the commit is here.
    async fn has(&self, commit: &Sha) -> bool;

    /// Whether `ancestor` is in the history of `commit`.
    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool;
}

#[async_trait]
impl History for Mirror {
    fn heads(&self) -> &BTreeMap<String, Sha> {
        &self.heads
    }

    fn default_branch(&self) -> &str {
        &self.default_branch
    }

    fn names_default_branch(&self) -> bool {
        self.names_default_branch
    }

    async fn resolve(&self, reference: &str) -> Result<Sha, Stopped> {
        let name = if reference == "HEAD" { &self.default_branch } else { reference };
        if let Some(head) = self.heads.get(name) {
            return Ok(head.clone());
        }
        for candidate in [format!("refs/tags/{name}^{{commit}}"), format!("{name}^{{commit}}")] {
            let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &candidate];
            if let Ok(found) = self.git.at(&self.path, arguments).run().await {
                return Ok(found.sha()?);
            }
        }
        let text = format!("there is no branch, tag or commit {reference:?} in the repository");
        Err(Stopped::failed(ReasonCode::UnknownRef, text))
    }

    async fn has(&self, commit: &Sha) -> bool {
        // What the remote's branches are at was fetched: mostly no process is needed.
        if self.heads.values().any(|head| head == commit) {
            return true;
        }
        let object = format!("{commit}^{{commit}}");
        self.git.at(&self.path, ["cat-file", "-e", &object]).run().await.is_ok()
    }

    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool {
        if commit == ancestor && self.has(commit).await {
            return true;
        }
        let arguments = ["merge-base", "--is-ancestor", ancestor.as_str(), commit.as_str()];
        self.git.at(&self.path, arguments).run().await.is_ok()
    }
}

impl Mirror {
    /// The commits from `base` (without) to `head` (with), oldest first.
    pub(crate) async fn between(&self, base: &Sha, head: &Sha) -> Result<Vec<Sha>, Stopped> {
        let range = format!("{base}..{head}");
        Ok(self.git.at(&self.path, ["rev-list", "--reverse", &range]).run().await?.shas()?)
    }

    /// What leads from `base` to `head`; `None` if `head` does not follow on `base`.
    pub(crate) async fn changes(&self, base: &Sha, head: &Sha) -> Result<Option<Changes>, GitError> {
        let range = format!("{base}..{head}");
        let form = ["--raw", "-r", "-z", "--no-renames", "--no-abbrev", "--diff-merges=first-parent"];
        let arguments = ["log", "--reverse", "--topo-order", "--format=%H %P"].into_iter().chain(form);
        let told = self.git.at(&self.path, arguments.chain([range.as_str(), "--"])).run().await?.stdout;
        let changes = Changes::read(&String::from_utf8_lossy(&told));
        Ok(changes.parents.contains(base.as_str()).then_some(changes))
    }

    /// What differs between two commits, whatever lies between them.
    pub(crate) async fn difference(&self, base: &Sha, head: &Sha) -> Result<Vec<Change>, GitError> {
        let arguments =
            ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", base.as_str(), head.as_str(), "--"];
        let told = self.git.at(&self.path, arguments).run().await?.stdout;
        Ok(Changes::read(&String::from_utf8_lossy(&told)).files)
    }

    /// Keeps a commit of a job from being swept away, and gives it a name for people who look.
    pub(crate) async fn keep(&self, name: &str, commit: &Sha) -> Result<(), Stopped> {
        self.git.at(&self.path, ["update-ref", &format!("refs/jobs/{name}"), commit.as_str()]).run().await?;
        Ok(())
    }

    /// Makes the files of a tree that no agent has touched those of a commit, with all processors: on ext4 20,000 files
    /// took 1.8 s and not 7 s.
    pub(crate) async fn check_out(&self, tree: &Path, commit: &Sha) -> Result<(), Stopped> {
        let arguments = ["-c", "checkout.workers=0", "reset", "--quiet", "--hard", commit.as_str()];
        self.git.command(arguments).directory(tree).run().await?;
        Ok(())
    }

    /// Records the folders of the mirror before commits of a turn are imported; [`synced`] then makes the commits
    /// durable.
    pub(crate) async fn folders(&self) -> Result<Folders, Stopped> {
        look_at(&self.path).await
    }

    pub(crate) fn objects(&self) -> PathBuf {
        Path::new(&self.path).join("objects")
    }
}

/// Records the folders of a local repository that is about to be changed.
pub(crate) async fn look_at(git_dir: &Path) -> Result<Folders, Stopped> {
    let path = git_dir.to_owned();
    let looked = tokio::task::spawn_blocking(move || Folders::look(&path)).await;
    match looked.map_err(std::io::Error::other)? {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Stopped::MirrorDamaged(error.to_string())),
        folders => Ok(folders?),
    }
}

/// Syncs everything that was written to a repository since its folders were recorded.
pub(crate) async fn synced(folders: Folders) -> Result<(), Stopped> {
    Ok(tokio::task::spawn_blocking(move || folders.sync()).await.map_err(std::io::Error::other)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_and_files_are_told_apart_whatever_a_path_is_called() {
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let told = format!(
            "{b} {a}\0\n:000000 100644 {zero} {a} A\0:odd \n path\0{c} {b}\0\n:100644 160000 {a} {b} M\0x\0",
            zero = "0".repeat(40)
        );
        let changes = Changes::read(&told);
        assert_eq!(changes.commits, [b.parse().unwrap(), c.parse().unwrap()]);
        assert_eq!(changes.parents, [a.clone(), b.clone()].into());
        assert!(!changes.merge && Changes::read(&format!("{c} {b} {a}\0")).merge);
        let files: Vec<_> = changes.files.iter().map(|file| (file.new_mode.as_str(), file.path.as_str())).collect();
        assert_eq!(files, [("100644", ":odd \n path"), ("160000", "x")]);
        assert_eq!(changes.files[0].object, a);
    }
}
