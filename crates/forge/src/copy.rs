//! Copies repositories of the built-in code host into a backup while people and workers push.
//! `docs/decisions/0027-backup.md` explains the order of the steps.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_git::{Git, GitError, pairs};
use tokio::io::AsyncReadExt;

/// The time limit of a git command; a large repository takes long.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of attempts for a repository: a concurrent `git gc` can make one fail.
const MAX_ATTEMPTS: usize = 2;

/// An error from copying a repository.
#[derive(Debug)]
pub struct CopyError {
    repository: PathBuf,
    reason: String,
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the repository {} cannot be backed up: {}", self.repository.display(), self.reason)
    }
}

impl std::error::Error for CopyError {}

/// The reason for a failure, without the repository's path.
struct Reason(String);

impl Reason {
    fn of(self, repository: &Path) -> CopyError {
        CopyError { repository: repository.to_owned(), reason: self.0 }
    }
}

impl From<GitError> for Reason {
    fn from(error: GitError) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// The commit hashes by full ref names, which need not be UTF-8.
pub type Refs = BTreeMap<Vec<u8>, String>;

/// A branch that a job works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobBranch {
    /// The name of the branch, without `refs/heads/`.
    pub name: String,
    /// The branch's commits that the copy of the database contains, newest first.
    pub known: Vec<Sha>,
}

/// Returns the names of the repositories in a folder, without `.git`; none if the folder does not exist.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub fn repository_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // Unfinished repositories have names with a leading dot.
        let Ok(name) = entry?.file_name().into_string() else { continue };
        names.extend(name.strip_suffix(".git").filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the refs of a repository.
///
/// # Errors
/// Returns an error if git cannot read the refs.
pub async fn refs(git: &Git, repository: &Path) -> Result<Refs, CopyError> {
    read_refs(git, repository).await.map_err(|reason| reason.of(repository))
}

async fn read_refs(git: &Git, repository: &Path) -> Result<Refs, Reason> {
    let listing = git.at(repository, ["for-each-ref", "--format=%(objectname) %(refname)"]).run().await?;
    Ok(pairs(&listing.stdout, b' ').map(|(at, name)| (name.to_vec(), path_text(at))).collect())
}

/// Copies a repository, which may be in use, to `to`: refs, all objects, HEAD and configuration. `before` contains the
/// refs from before the database was copied; `jobs` contains the branches in the copy of the database.
///
/// # Errors
/// Returns an error if git cannot read the whole repository, or if the copy cannot be written.
pub async fn copy_repository(
    git: &Git,
    from: &Path,
    to: &Path,
    before: &Refs,
    jobs: &[JobBranch],
) -> Result<(), CopyError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match copy_once(git, from, to, before, jobs).await {
            Err(_) if attempts < MAX_ATTEMPTS => match std::fs::remove_dir_all(to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Reason::from(error).of(from)),
                _ => {}
            },
            done => return done.map_err(|reason| reason.of(from)),
        }
    }
}

async fn copy_once(git: &Git, from: &Path, to: &Path, before: &Refs, jobs: &[JobBranch]) -> Result<(), Reason> {
    // Refs first, then objects: every object that a ref reaches was stored before the ref.
    let mut refs = read_refs(git, from).await?;
    roll_back(git, from, &mut refs, before, jobs).await?;
    let format = git.at(from, ["rev-parse", "--show-object-format"]).run().await?.text()?;
    let init = ["init", "--quiet", "--bare", "--template=", &format!("--object-format={format}")];
    git.at(to, init).run().await?;
    std::fs::copy(from.join("config"), to.join("config"))
        .map_err(|error| Reason(format!("its config cannot be copied: {error}")))?;
    let head = git.at(from, ["symbolic-ref", "HEAD"]).run().await?.stdout;
    let head = OsStr::from_bytes(head.trim_ascii());
    git.at(to, ["symbolic-ref", "HEAD"]).argument(head).run().await?;
    pack(git, from, to).await?;
    let create = |(name, at): (&Vec<u8>, &String)| [b"create ", name.as_slice(), b" ", at.as_bytes(), b"\n"].concat();
    let updates: Vec<u8> = refs.iter().flat_map(create).collect();
    git.at(to, ["update-ref", "--stdin"]).stdin(updates).timeout(TIMEOUT).run().await?;
    git.at(to, ["pack-refs", "--all"]).run().await?;
    let check = ["fsck", "--connectivity-only", "--no-dangling", "--no-progress"];
    let checked = git.at(to, check).timeout(TIMEOUT).run().await;
    checked.map_err(|error| Reason(format!("objects are missing ({error}); run `git fsck` in it to see which")))?;
    Ok(())
}

/// Packs all objects of `from` into one pack of `to`, including unreachable objects, because pull requests refer to
/// commits of deleted branches.
async fn pack(git: &Git, from: &Path, to: &Path) -> Result<(), Reason> {
    let list = to.join("objects.list");
    list_objects(git, from, &list).await?;
    if list.metadata()?.len() > 0 {
        // Git writes a pack only into its own repository. Therefore it runs in the copy, with the original's objects as
        // alternates.
        let info = to.join("objects/info");
        std::fs::create_dir_all(&info)?;
        let borrowed = std::path::absolute(from.join("objects"))?;
        let borrowed = borrowed.to_str().ok_or_else(|| Reason("its path is not UTF-8".to_owned()))?;
        std::fs::write(info.join("alternates"), format!("{borrowed}\n"))?;
        let pack_path = std::path::absolute(to.join("objects/pack/pack"))?;
        let pack_path = pack_path.to_str().ok_or_else(|| Reason("the path of the backup is not UTF-8".to_owned()))?;
        let packed = git.at(to, ["pack-objects", "--quiet", pack_path]).stdin_file(File::open(&list)?);
        packed.timeout(TIMEOUT).run().await?;
        std::fs::remove_file(info.join("alternates"))?;
    }
    Ok(std::fs::remove_file(list)?)
}

/// Writes the names of all objects into a file, because they may not fit into memory.
async fn list_objects(git: &Git, repository: &Path, list: &Path) -> Result<(), Reason> {
    let command = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"];
    let mut git = git.at(repository, command).spawn()?;
    drop(git.stdin.take());
    let (Some(mut names), Some(mut stderr)) = (git.stdout.take(), git.stderr.take()) else {
        return Err(Reason("the output of git cannot be read".to_owned()));
    };
    let mut file = tokio::fs::File::create(list).await?;
    let mut errors = String::new();
    tokio::try_join!(tokio::io::copy(&mut names, &mut file), stderr.read_to_string(&mut errors))?;
    file.sync_all().await?;
    if git.wait().await?.success() { Ok(()) } else { Err(Reason(format!("git cat-file failed: {}", errors.trim()))) }
}

/// Resets job branches that received pushes after the database was copied. They return to commits that the copy
/// contains; otherwise a waiting message in the restored database would run on top of its previous result.
async fn roll_back(git: &Git, from: &Path, refs: &mut Refs, before: &Refs, jobs: &[JobBranch]) -> Result<(), Reason> {
    for branch in jobs {
        let name = format!("refs/heads/{}", branch.name).into_bytes();
        let (Some(now), before) = (refs.get(&name).cloned(), before.get(&name)) else { continue };
        if before == Some(&now) {
            continue;
        }
        let mut target = before.cloned();
        for known in &branch.known {
            let is_newer = match before {
                Some(before) => is_ancestor(git, from, before, known.as_str()).await,
                None => true,
            };
            if is_newer && is_ancestor(git, from, known.as_str(), &now).await {
                target = Some(known.to_string());
                break;
            }
        }
        match target {
            Some(at) => refs.insert(name, at),
            None => refs.remove(&name),
        };
    }
    Ok(())
}

/// Returns whether both commits exist and `ancestor` is an ancestor of `of`.
async fn is_ancestor(git: &Git, repository: &Path, ancestor: &str, of: &str) -> bool {
    git.at(repository, ["merge-base", "--is-ancestor", ancestor, of]).run().await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use journeyman_git::Runner;

    use super::*;

    struct Setup {
        dir: tempfile::TempDir,
        git: Git,
        from: PathBuf,
    }

    impl Setup {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = "/usr/local/bin:/usr/bin:/bin".into();
            let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
            std::fs::create_dir(dir.path().join("backup")).unwrap();
            let from = dir.path().join("shop.git");
            git.at(&from, ["init", "--quiet", "--bare", "--initial-branch=trunk"]).run().await.unwrap();
            git.at(&from, ["config", "http.receivepack", "true"]).run().await.unwrap();
            Self { dir, git, from }
        }

        /// Adds a commit to a branch.
        async fn commit(&self, branch: &str) -> Sha {
            let run = async |arguments: &[&str]| self.git.at(&self.from, arguments).run().await;
            let tree = run(&["hash-object", "-t", "tree", "-w", "--stdin"]).await.unwrap().sha().unwrap();
            let name = format!("refs/heads/{branch}");
            let parent =
                run(&["rev-parse", "--verify", "--quiet", &name]).await.ok().map(|output| output.sha().unwrap());
            let mut arguments = vec!["commit-tree".to_owned(), tree.to_string(), "-m".to_owned(), branch.to_owned()];
            arguments.extend(parent.iter().flat_map(|parent| ["-p".to_owned(), parent.to_string()]));
            let commit = self.git.at(&self.from, &arguments).run().await.unwrap().sha().unwrap();
            run(&["update-ref", &name, commit.as_str()]).await.unwrap();
            commit
        }

        /// Copies the repository and returns the copy's path and refs.
        async fn copied(&self, before: &Refs, jobs: &[JobBranch]) -> (PathBuf, Refs) {
            let to = self.dir.path().join("backup/shop.git");
            let _ = std::fs::remove_dir_all(&to);
            copy_repository(&self.git, &self.from, &to, before, jobs).await.unwrap();
            let found = refs(&self.git, &to).await.unwrap();
            (to, found)
        }
    }

    fn job(known: &[&Sha]) -> JobBranch {
        JobBranch { name: "job".to_owned(), known: known.iter().map(|sha| (*sha).clone()).collect() }
    }

    #[tokio::test]
    async fn a_copy_has_refs_head_configuration_and_unreachable_objects() {
        let setup = Setup::new().await;
        setup.commit("trunk").await;
        let deleted = setup.commit("gone").await;
        setup.git.at(&setup.from, ["update-ref", "-d", "refs/heads/gone"]).run().await.unwrap();
        setup.git.at(&setup.from, ["tag", "v1", "trunk"]).run().await.unwrap();
        let not_text = std::ffi::OsStr::from_bytes(b"refs/heads/caf\xe9");
        setup.git.at(&setup.from, ["update-ref"]).argument(not_text).argument("trunk").run().await.unwrap();
        let before = refs(&setup.git, &setup.from).await.unwrap();
        let (to, found) = setup.copied(&before, &[]).await;
        assert_eq!(found, before);
        let read = async |arguments: &[&str]| setup.git.at(&to, arguments).run().await.unwrap().text().unwrap();
        assert_eq!(read(&["symbolic-ref", "HEAD"]).await, "refs/heads/trunk");
        assert_eq!(read(&["config", "http.receivepack"]).await, "true");
        assert_eq!(read(&["cat-file", "-t", deleted.as_str()]).await, "commit");
        std::fs::remove_dir_all(&setup.from).unwrap();
        read(&["fsck", "--strict"]).await;
        assert!(!to.join("objects/info/alternates").exists() && !to.join("objects.list").exists());
    }

    #[tokio::test]
    async fn an_empty_repository_is_copied() {
        let setup = Setup::new().await;
        let (to, found) = setup.copied(&Refs::new(), &[]).await;
        assert!(found.is_empty() && to.join("HEAD").exists());
    }

    #[tokio::test]
    async fn a_job_branch_that_moved_after_the_database_copy_is_reset() {
        let setup = Setup::new().await;
        let one = setup.commit("job").await;
        let before = refs(&setup.git, &setup.from).await.unwrap();
        let two = setup.commit("job").await;
        let three = setup.commit("job").await;
        setup.commit("people").await;
        let at = async |known: &[&Sha], before: &Refs| {
            let (_, found) = setup.copied(before, &[job(known)]).await;
            assert!(found.contains_key(b"refs/heads/people".as_slice()), "other branches do not change");
            found.get(b"refs/heads/job".as_slice()).cloned()
        };
        let none = Refs::new();
        assert_eq!(at(&[&two, &one], &before).await, Some(two.to_string()), "the commit to publish");
        assert_eq!(at(&[&one], &before).await, Some(one.to_string()), "the pushed commit");
        assert_eq!(at(&[], &before).await, Some(one.to_string()), "the previous commit");
        assert_eq!(at(&[&three], &before).await, Some(three.to_string()));
        assert_eq!(at(&[], &none).await, None, "the first turn has not started");
        let now = refs(&setup.git, &setup.from).await.unwrap();
        assert_eq!(at(&[&one], &now).await, Some(three.to_string()), "nothing was pushed in the meantime");
        let other = setup.commit("other").await;
        assert_eq!(at(&[&other, &one], &before).await, Some(one.to_string()), "a commit of another branch");
    }

    #[tokio::test]
    async fn a_repository_with_a_missing_object_is_not_backed_up() {
        let setup = Setup::new().await;
        let commit = setup.commit("trunk").await;
        let (folder, file) = commit.as_str().split_at(2);
        std::fs::remove_file(setup.from.join("objects").join(folder).join(file)).unwrap();
        let to = setup.dir.path().join("backup/shop.git");
        let error = copy_repository(&setup.git, &setup.from, &to, &Refs::new(), &[]).await.unwrap_err();
        let error = format!("{error}");
        assert!(error.contains("shop.git cannot be backed up") && error.contains("nonexistent object"), "{error}");
        // The check of the copy finds a missing tree.
        let other = Setup::new().await;
        let commit = other.commit("trunk").await;
        let tree = ["rev-parse", &format!("{commit}^{{tree}}")];
        let tree = other.git.at(&other.from, tree).run().await.unwrap().text().unwrap();
        let (folder, file) = tree.split_at(2);
        std::fs::remove_file(other.from.join("objects").join(folder).join(file)).unwrap();
        let to = other.dir.path().join("backup/shop.git");
        let error = copy_repository(&other.git, &other.from, &to, &Refs::new(), &[]).await.unwrap_err();
        assert!(format!("{error}").contains("objects are missing"), "{error}");
    }
}
