//! Submodules: the entries and pointers of a commit, and the commits of their repositories.

use std::collections::HashMap;
use std::path::Path;

use journeyman_core::ids::Sha;
use journeyman_core::ports::Remote;
use journeyman_core::submodule::{Entry, entries};
use journeyman_git::{Git, GitError};

use crate::history::History as _;
use crate::import::{GITLINK, GITMODULES};
use crate::{Mirror, ProjectMirrors, RepositoryError};

/// The maximum size of a `.gitmodules` and of its settings, in bytes.
pub const GITMODULES_BYTES: usize = 1 << 20;

/// The maximum size of the names of a submodule's branches and tags, in bytes.
const REFS_BYTES: usize = 16 << 20;

/// The ref of a commit of a submodule that no branch or tag has, but that the remote gives by its ID.
const KEPT: &str = "refs/submodules";

/// The submodules of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submodules {
    /// The object of `.gitmodules`, if it is a file.
    pub file: Option<Sha>,
    /// True if git can parse the file, and it has entries or nothing.
    pub is_valid: bool,
    /// The entries of `.gitmodules`.
    pub entries: Vec<Entry>,
    /// The commits that the pointers at the paths of the entries name.
    pub pointers: HashMap<String, Sha>,
}

/// Parses the bytes of a `.gitmodules`; `None` if git cannot, or if the file has something, but no entry. Nothing that the
/// file names is read.
///
/// # Errors
/// Git could not be started.
pub async fn parse_gitmodules(git: &Git, bytes: Vec<u8>) -> Result<Option<Vec<Entry>>, RepositoryError> {
    if bytes.len() > GITMODULES_BYTES {
        return Ok(None);
    }
    let is_blank = bytes.trim_ascii().is_empty();
    let parse = git.command(["config", "--file", "-", "--no-includes", "--null", "--list"]);
    match parse.stdin(bytes).stdout_bytes(4 * GITMODULES_BYTES).run().await {
        Ok(output) => {
            let entries = entries(&output.stdout);
            Ok(Some(entries).filter(|entries| is_blank || !entries.is_empty()))
        }
        Err(GitError::Failed { .. } | GitError::TooMuch { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Mirror {
    /// Returns the submodules of a commit. A `.gitmodules` that git cannot parse has no entries.
    ///
    /// # Errors
    /// Git failed.
    pub async fn submodules(&self, commit: &Sha) -> Result<Submodules, RepositoryError> {
        let found = self.ls_tree(commit, &[GITMODULES]).await?;
        let Some((_, object)) = found.get(GITMODULES).filter(|(mode, _)| mode.starts_with("100")) else {
            return Ok(Submodules::default());
        };
        let content = self.git.at(&self.path, ["cat-file", "blob", object.as_str()]);
        let entries = match content.stdout_bytes(GITMODULES_BYTES).run().await {
            Ok(output) => parse_gitmodules(&self.git, output.stdout).await?,
            Err(GitError::TooMuch { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (file, is_valid, entries) = (Some(object.clone()), entries.is_some(), entries.unwrap_or_default());
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        let pointers = self.pointers(commit, &paths).await?;
        Ok(Submodules { file, is_valid, entries, pointers })
    }

    /// Returns the pointers at paths in a commit.
    ///
    /// # Errors
    /// Git failed.
    pub async fn pointers(&self, commit: &Sha, paths: &[&str]) -> Result<HashMap<String, Sha>, RepositoryError> {
        let found = self.ls_tree(commit, paths).await?;
        Ok(found.into_iter().filter(|(_, (mode, _))| mode == GITLINK).map(|(path, (_, at))| (path, at)).collect())
    }

    /// Returns the modes and objects of paths in a commit, as far as the paths exist and are UTF-8.
    async fn ls_tree(&self, commit: &Sha, paths: &[&str]) -> Result<HashMap<String, (String, Sha)>, RepositoryError> {
        let paths: Vec<&str> =
            paths.iter().map(|path| path.trim_matches('/')).filter(|path| !path.is_empty()).collect();
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        let arguments = ["ls-tree", "-z", "--full-tree", commit.as_str(), "--"].into_iter().chain(paths);
        let output = self.git.at(&self.path, arguments).env("GIT_LITERAL_PATHSPECS", "1").run().await?.stdout;
        let parse = |entry: &[u8]| {
            let (head, path) = std::str::from_utf8(entry).ok()?.split_once('\t')?;
            let mut words = head.split(' ');
            let (mode, object) = (words.next()?.to_owned(), words.nth(1)?.parse().ok()?);
            Some((path.to_owned(), (mode, object)))
        };
        Ok(output.split(|byte| *byte == 0).filter_map(parse).collect())
    }

    /// Returns the branches of the remote as remote-tracking branches, and its tags, in the form of git's `packed-refs`.
    /// Empty if there are too many.
    ///
    /// # Errors
    /// Git failed.
    pub async fn packed_refs(&self) -> Result<Vec<u8>, RepositoryError> {
        let list = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"];
        match self.git.at(&self.path, list).stdout_bytes(REFS_BYTES).run().await {
            Ok(output) => {
                let mut packed = Vec::with_capacity(output.stdout.len() + 256);
                for (at, name) in journeyman_git::pairs(&output.stdout, b' ') {
                    packed.extend_from_slice(at);
                    match name.strip_prefix(b"refs/heads/".as_slice()) {
                        Some(branch) => packed.extend([b" refs/remotes/origin/".as_slice(), branch].concat()),
                        None => packed.extend([b" ".as_slice(), name].concat()),
                    }
                    packed.push(b'\n');
                }
                Ok(packed)
            }
            Err(GitError::TooMuch { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    async fn git_says(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        self.git.at(&self.path, arguments).run().await.ok().map(|output| output.stdout)
    }

    /// Returns whether a branch or tag of the remote has the commit, or the remote has given it by its ID.
    async fn is_known(&self, commit: &Sha) -> bool {
        let object = format!("{commit}^{{commit}}");
        if self.git_says(&["cat-file", "-e", &object]).await.is_none() {
            return false;
        }
        let kept = format!("{KEPT}/{commit}");
        if self.git_says(&["rev-parse", "--verify", "--quiet", &kept]).await.is_some() {
            return true;
        }
        self.is_on_remote(commit).await
    }
}

impl ProjectMirrors {
    /// Updates the mirror of a submodule, and returns it if the remote has the commit: on a branch or a tag, or by its ID.
    ///
    /// # Errors
    /// The remote cannot be read, or the mirror cannot be written.
    pub async fn fetch_submodule(&self, remote: Remote, commit: &Sha) -> Result<Option<Mirror>, RepositoryError> {
        let mirror = self.fetch(remote).await?;
        if mirror.is_known(commit).await {
            return Ok(Some(mirror));
        }
        // The service's own repositories give no other commits.
        if mirror.remote.is_ours || !self.is_given(&mirror, commit).await? {
            return Ok(None);
        }
        let lock = self.lock(&mirror.path);
        let _held = lock.lock().await;
        let refspec = format!("+{commit}:{KEPT}/{commit}");
        self.fetch_objects(&mirror.path, &mirror.remote, &["--no-tags"], &[&refspec], false).await?;
        Ok(Some(mirror))
    }

    /// Rebuilds the mirror of a submodule, which is damaged.
    ///
    /// # Errors
    /// The remote cannot be read, or the disk failed.
    pub async fn repair_submodule(&self, remote: &Remote) -> Result<(), RepositoryError> {
        self.repair(remote).await
    }

    /// Returns whether the remote gives a commit by its ID. It is asked from an empty repository, because git asks for
    /// nothing that is there already, and a mirror may have commits of jobs that the remote does not have.
    async fn is_given(&self, mirror: &Mirror, commit: &Sha) -> Result<bool, RepositoryError> {
        let lock = self.lock(&mirror.path);
        let _held = lock.lock().await;
        let probe = mirror.path.with_extension("probe");
        remove(&probe).await?;
        self.git.command(["init", "--quiet", "--bare", "--template="]).env("GIT_DIR", &probe).run().await?;
        let options = ["--no-tags", "--depth=1", "--filter=tree:0"];
        let fetched = self.fetch_objects(&probe, &mirror.remote, &options, &[commit.as_str()], false).await;
        remove(&probe).await?;
        match fetched {
            Ok(_) => Ok(true),
            Err(error @ (GitError::Failed { .. } | GitError::Remote { .. })) => {
                tracing::debug!(%commit, %error, "a remote does not give a commit by its ID");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn remove(folder: &Path) -> std::io::Result<()> {
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::Reach;

    use super::*;
    use crate::fixture::Fixture;

    /// Makes a commit that no branch of the code host has, and that its repository has.
    async fn hidden(fixture: &Fixture) -> Sha {
        let hidden = fixture.commit(&[("hidden", Some("1"))]).await;
        fixture.publish("hidden").await;
        fixture.git.at(&fixture.origin(), ["branch", "-D", "hidden"]).run().await.unwrap();
        hidden
    }

    fn remote(fixture: &Fixture) -> Remote {
        Remote {
            url: fixture.origin().to_str().unwrap().to_owned(),
            credential: None,
            is_ours: false,
            reach: Reach::Public,
        }
    }

    #[tokio::test]
    async fn the_entries_and_pointers_of_a_commit_are_found() {
        let fixture = Fixture::new().await;
        let gitmodules =
            "[submodule \"a\"]\n\tpath = a\n\turl = ../a\n[submodule \"b\"]\n\tpath = */b\n[include]\n\tpath = x\n";
        std::fs::write(fixture.clone().join(GITMODULES), gitmodules).unwrap();
        let pointer = format!("160000,{},*/b", fixture.base);
        fixture.run(&["update-index", "--add", "--cacheinfo", &pointer]).await;
        fixture.run(&["add", GITMODULES]).await;
        fixture.run(&["commit", "--quiet", "--message", "Add"]).await;
        fixture.publish("main").await;
        let (mirrors, head) = (fixture.mirrors(), fixture.head().await);
        let mirror = fixture.mirror(&mirrors).await;
        let found = mirror.submodules(&head).await.unwrap();
        let paths: Vec<&str> = found.entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["a", "*/b"]);
        assert_eq!(found.pointers, HashMap::from([("*/b".to_owned(), fixture.base.clone())]));
        assert_eq!(mirror.submodules(&fixture.base).await.unwrap(), Submodules::default(), "no .gitmodules");
        std::fs::write(fixture.clone().join(GITMODULES), "[submodule").unwrap();
        let damaged = fixture.commit_all().await;
        fixture.publish("main").await;
        let mirror = fixture.mirror(&mirrors).await;
        let found = mirror.submodules(&damaged).await.unwrap();
        assert!(found.file.is_some() && !found.is_valid && found.entries.is_empty(), "git cannot parse it: {found:?}");
    }

    #[tokio::test]
    async fn a_commit_of_a_branch_is_fetched_and_one_of_a_job_is_not() {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let found = mirrors.fetch_submodule(remote(&fixture), &fixture.base).await.unwrap().unwrap();
        let refs = String::from_utf8(found.packed_refs().await.unwrap()).unwrap();
        assert_eq!(refs, format!("{} refs/remotes/origin/main\n", fixture.base));
        // The mirror has the commit of a job, which no branch of the remote has.
        let own = fixture.commit(&[("own", Some("1"))]).await;
        let clone = fixture.clone();
        let fetch = ["fetch", "--quiet", clone.to_str().unwrap(), &format!("{own}:refs/jobs/1/head")];
        mirrors.git.at(&found.path, fetch).run().await.unwrap();
        assert!(mirrors.fetch_submodule(remote(&fixture), &own).await.unwrap().is_none());
        let unknown = "f".repeat(40).parse().unwrap();
        assert!(mirrors.fetch_submodule(remote(&fixture), &unknown).await.unwrap().is_none());
        assert!(!found.path.with_extension("probe").exists());
        fixture.publish("own").await;
        assert!(mirrors.fetch_submodule(remote(&fixture), &own).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_commit_that_the_remote_gives_by_its_id_is_fetched_and_kept() {
        let fixture = Fixture::new().await;
        let (mirrors, hidden) = (fixture.mirrors(), hidden(&fixture).await);
        let ours = Remote { is_ours: true, ..remote(&fixture) };
        assert!(mirrors.fetch_submodule(ours, &hidden).await.unwrap().is_none(), "only branches of our own");
        let mirror = mirrors.fetch_submodule(remote(&fixture), &hidden).await.unwrap().unwrap();
        let kept = mirror.git.at(&mirror.path, ["rev-parse", &format!("{KEPT}/{hidden}")]).run().await.unwrap();
        assert_eq!(kept.sha().unwrap(), hidden);
        assert!(mirrors.fetch_submodule(remote(&fixture), &hidden).await.unwrap().is_some(), "again");
    }

    #[tokio::test]
    async fn a_remote_that_cannot_be_read_is_an_error() {
        let fixture = Fixture::new().await;
        let gone = Remote {
            url: format!("{}x", remote(&fixture).url),
            credential: None,
            is_ours: false,
            reach: Reach::Public,
        };
        let error = fixture.mirrors().fetch_submodule(gone, &fixture.base).await.unwrap_err();
        let RepositoryError::Failed { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason.code, journeyman_core::run::ReasonCode::RepositoryNotFound);
    }
}
