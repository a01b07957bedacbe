//! The size of a commit's tree, counted before it is checked out, and the files with attributes in it.
//!
//! A tree refers to its folders by their content, so a few kilobytes of objects can describe any number of files: each
//! folder is stored once and may be referenced a thousand times.

mod known;

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::run::ReasonCode;
use journeyman_git::GitError;

use self::known::Facts;
pub use self::known::TreeSizes;
use crate::import::GITLINK;
use crate::{Mirror, RepositoryError};

/// The minimum size of a file or a folder on a file system, and the unit in which a file grows.
const BLOCK: u64 = 4096;

/// The time limit for counting a tree.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of pointers of submodules that are known.
const MAX_POINTERS: usize = 1000;

/// The maximum length of a path.
const PATH_BYTES: usize = 4096;

/// The maximum length of an entry before its path: mode, type, object and size.
const HEAD_BYTES: usize = 200;

/// Returns the IDs of the files with attributes (`.gitattributes`) in a commit.
pub(crate) async fn attributes_of(mirror: &Mirror, commit: &Sha) -> Result<Arc<[String]>, RepositoryError> {
    Ok(facts(mirror, commit, u64::MAX).await?.attributes)
}

/// Returns whether a commit has files with attributes, with which git writes other bytes than those of the commit.
///
/// # Errors
/// Git failed.
pub async fn has_attributes(mirror: &Mirror, commit: &Sha) -> Result<bool, RepositoryError> {
    Ok(!attributes_of(mirror, commit).await?.is_empty())
}

/// Returns the paths of the pointers of submodules in a commit, at most 1000.
///
/// # Errors
/// Git failed.
pub async fn pointers_of(mirror: &Mirror, commit: &Sha) -> Result<Arc<[Vec<u8>]>, RepositoryError> {
    Ok(facts(mirror, commit, u64::MAX).await?.pointers)
}

async fn facts(mirror: &Mirror, commit: &Sha, most: u64) -> Result<Facts, RepositoryError> {
    match mirror.tree_sizes.known(commit) {
        Some(facts) => Ok(facts),
        None => count(mirror, commit, most).await,
    }
}

/// Refuses a commit whose files would use more than `most` bytes of disk space (the project's `limits.diskBytes`).
///
/// # Errors
/// The files use more, or git failed.
pub async fn check(mirror: &Mirror, commit: &Sha, most: u64) -> Result<(), RepositoryError> {
    let bytes = facts(mirror, commit, most).await?.bytes;
    if bytes <= most {
        return Ok(());
    }
    let text = format!(
        "The files of commit {commit} take more than the {most} bytes that a job of this project may have on the disk \
         (limits.diskBytes), so it was not checked out. Raise limits.diskBytes, or remove files from the repository."
    );
    Err(RepositoryError::failed(ReasonCode::DiskLimit, text))
}

/// Returns the disk space that the files of a commit use, in bytes. Beyond `most`, it may be less than that.
///
/// # Errors
/// Git failed.
pub async fn size(mirror: &Mirror, commit: &Sha, most: u64) -> Result<u64, RepositoryError> {
    Ok(facts(mirror, commit, most).await?.bytes)
}

/// Counts the bytes of a commit's tree, and stops beyond `most`.
async fn count(mirror: &Mirror, commit: &Sha, most: u64) -> Result<Facts, RepositoryError> {
    let listing = mirror.git.at(&mirror.path, ["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit.as_str()]);
    let mut counted = Counted::default();
    let is_whole = listing.timeout(TIMEOUT).run_while(|piece| {
        counted.take(piece);
        counted.bytes <= most
    });
    // Counting uses no network: a slow disk must not look like an unreachable code host.
    let is_whole = is_whole.await.map_err(|error| match error {
        GitError::TimedOut { .. } => RepositoryError::may_pass(ReasonCode::Internal, error.to_string()),
        error => error.into(),
    })?;
    let (attributes, pointers) = (counted.attributes.into(), counted.pointers.into());
    let facts = Facts { bytes: counted.bytes, attributes, pointers, lfs: None };
    if is_whole {
        mirror.tree_sizes.remember(commit, facts.clone());
    }
    Ok(facts)
}

/// Adds up the sizes in the output of `git ls-tree -l -z`: `<mode> <type> <object> <size>` with the size right-aligned,
/// a tab, the path, and a NUL.
#[derive(Default)]
struct Counted {
    bytes: u64,
    /// The IDs of the files with attributes.
    attributes: Vec<String>,
    /// The paths of the pointers of submodules.
    pointers: Vec<Vec<u8>>,
    /// The beginning of the current entry.
    head: Vec<u8>,
    /// The path of the current entry, if it is the pointer of a submodule.
    path: Vec<u8>,
    /// The name of the current entry: the path after its last slash.
    name: Vec<u8>,
    in_path: bool,
}

impl Counted {
    fn is_pointer(&self) -> bool {
        self.head.starts_with(GITLINK.as_bytes())
    }

    fn take(&mut self, output: &[u8]) {
        for &byte in output {
            if byte != 0 && self.in_path && self.is_pointer() && self.path.len() < PATH_BYTES {
                self.path.push(byte);
            }
            match byte {
                0 => {
                    if self.name == b".gitattributes" {
                        let head = std::str::from_utf8(&self.head).unwrap_or_default();
                        self.attributes.extend(head.split(' ').nth(2).map(str::to_owned));
                    }
                    if self.is_pointer() && self.pointers.len() < MAX_POINTERS {
                        self.pointers.push(std::mem::take(&mut self.path));
                    }
                    self.in_path = false;
                    self.path.clear();
                    self.head.clear();
                    self.name.clear();
                }
                b'\t' if !self.in_path => {
                    self.in_path = true;
                    let size = self.head.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                    // Folders and nested repositories have no size.
                    let size = std::str::from_utf8(size).ok().and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
                    let blocks = size.max(1).div_ceil(BLOCK).saturating_mul(BLOCK);
                    self.bytes = self.bytes.saturating_add(blocks);
                }
                b'/' if self.in_path => self.name.clear(),
                _ if self.in_path && self.name.len() < HEAD_BYTES => self.name.push(byte),
                _ if !self.in_path && self.head.len() < HEAD_BYTES => self.head.push(byte),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use journeyman_core::ports::{Reach, Remote};
    use journeyman_git::{Git, KnownConflicts, Runner};

    use super::*;

    fn mirror(dir: &Path) -> Mirror {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let remote = Remote { url: String::new(), credential: None, is_ours: true, reach: Reach::Public };
        let (heads, default_branch) = (BTreeMap::new(), Some("main".to_owned()));
        let (names_default_branch, tree_sizes, conflicts) = (true, TreeSizes::default(), KnownConflicts::default());
        Mirror {
            git,
            path: dir.join("m.git"),
            remote,
            heads,
            default_branch,
            names_default_branch,
            tree_sizes,
            conflicts,
            signer: None,
        }
    }

    async fn object(mirror: &Mirror, arguments: &[&str], input: &str) -> Sha {
        mirror.git.at(&mirror.path, arguments).stdin(input).run().await.unwrap().sha().unwrap()
    }

    /// Creates a commit of `width` to the power of `depth` files, with one object for each level.
    async fn bomb(mirror: &Mirror, width: usize, depth: usize, empty: bool) -> Sha {
        mirror.git.at(&mirror.path, ["init", "--quiet", "--bare"]).run().await.unwrap();
        let mut entry = if empty {
            format!("040000 tree {}", object(mirror, &["mktree"], "").await)
        } else {
            format!("100644 blob {}", object(mirror, &["hash-object", "-w", "--stdin"], "x").await)
        };
        for _ in 0..depth {
            let listing: String = (0..width).map(|name| format!("{entry}\t{name:04}\n")).collect();
            entry = format!("040000 tree {}", object(mirror, &["mktree"], &listing).await);
        }
        let tree = entry.rsplit(' ').next().unwrap().to_owned();
        object(mirror, &["commit-tree", &tree, "-m", "x"], "").await
    }

    #[tokio::test]
    async fn a_few_objects_that_describe_many_files_are_refused() {
        for empty in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mirror = mirror(dir.path());
            // 100,000,000 files from ten objects; without a limit, all of them would be written.
            let commit = bomb(&mirror, 100, 4, empty).await;
            let Err(RepositoryError::Failed { reason, retry }) = check(&mirror, &commit, 50 << 20).await else {
                panic!("the commit was accepted");
            };
            assert_eq!((reason.code, retry), (ReasonCode::DiskLimit, false));
            assert!(reason.text.contains("limits.diskBytes") && reason.text.contains("52428800"), "{}", reason.text);
            assert!(mirror.tree_sizes.known(&commit).is_none(), "an incomplete count is not cached");
        }
    }

    #[tokio::test]
    async fn a_tree_is_counted_only_once() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = mirror(dir.path());
        let commit = bomb(&mirror, 10, 2, false).await;
        // 100 files and 10 folders.
        assert!(check(&mirror, &commit, 110 * BLOCK).await.is_ok());
        assert_eq!(mirror.tree_sizes.known(&commit).map(|facts| facts.bytes), Some(110 * BLOCK));
        assert!(check(&mirror, &commit, 110 * BLOCK - 1).await.is_err(), "the limit applies to cached sizes");
        std::fs::remove_dir_all(&mirror.path).unwrap();
        assert!(check(&mirror, &commit, 110 * BLOCK).await.is_ok(), "the size comes from the cache, without git");
        let missing = "a".repeat(40).parse().unwrap();
        let missing = check(&mirror, &missing, 1).await;
        assert!(matches!(missing, Err(RepositoryError::MirrorDamaged(_))), "{missing:?}");
    }

    #[tokio::test]
    async fn a_tree_with_missing_objects_is_damage_of_the_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let mirror = mirror(dir.path());
        let commit = bomb(&mirror, 10, 2, false).await;
        let folder = mirror.git.at(&mirror.path, ["rev-parse", &format!("{commit}:0003")]).run().await.unwrap();
        let folder = folder.sha().unwrap();
        let (start, end) = folder.as_str().split_at(2);
        std::fs::remove_file(mirror.path.join("objects").join(start).join(end)).unwrap();
        let damaged = check(&mirror, &commit, u64::MAX).await;
        assert!(matches!(damaged, Err(RepositoryError::MirrorDamaged(_))), "{damaged:?}");
    }

    #[test]
    fn entries_are_added_up_regardless_of_where_the_output_is_split() {
        let output =
            b"100644 blob aa    5000\ta\tb 9999999\x00040000 tree bb       -\tc\x00160000 commit cc       -\td/e\0\
              100644 blob dd       5\tc/.gitattributes\x00100644 blob ee       5\tx.gitattributes\0";
        for at in 0..output.len() {
            let mut counted = Counted::default();
            counted.take(&output[..at]);
            counted.take(&output[at..]);
            assert_eq!(counted.bytes, 6 * BLOCK, "{at}");
            assert_eq!(counted.attributes, ["dd"], "{at}");
            assert_eq!(counted.pointers, [b"d/e"], "{at}");
        }
    }
}
