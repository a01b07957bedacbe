//! Commits and tags of an agent that the commits of its turn do not have: those of other branches and of stashes, those
//! that it had checked out without a branch and left, and those that were replaced.

use std::ffi::OsStr;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::{LeftOut, LeftOutReason, MAX_LEFT_OUT, path_text};
use journeyman_core::time::Timestamp;
use journeyman_repository::{History as _, Mirror};

use super::committer::Committer;
use crate::error::RunError;
use crate::workspace::beneath::{open_beneath, open_folder};
use crate::workspace::left_out::{HeldBack, PACK_FILES, PACKS, STASH, STASH_LOG};
use crate::workspace::scan::TreeScan;

/// The text that stands for an unknown commit.
pub(super) const REPOSITORY: &str = ".git";

/// The file in which git records what was checked out (gitrepository-layout(5)).
const REFLOG: &str = ".git/logs/HEAD";

/// The bytes at the end of that file that are read.
const REFLOG_BYTES: u64 = 1 << 20;

/// The bytes of a ref or of a HEAD that are read: a path has at most 4096 bytes.
const REF_BYTES: u64 = 5000;

/// A ref of the agent's repository that it does not have checked out, or a commit without a ref.
struct OtherRef {
    /// The name of the ref as git has it, or the ID of the commit.
    name: Vec<u8>,
    /// What it leads to: a commit, or a tag with a message.
    object: Sha,
}

impl OtherRef {
    fn of_commit(commit: Sha) -> Self {
        Self { name: commit.as_str().into(), object: commit }
    }

    /// Reads `<object> <name>`.
    fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let object = std::str::from_utf8(line.get(..space)?).ok()?.parse().ok()?;
        Some(Self { name: line.get(space + 1..)?.to_vec(), object })
    }

    /// Returns the line that names it in a list for the committer.
    fn line(&self) -> Vec<u8> {
        [self.object.as_str().as_bytes(), b" ", self.name.as_slice(), b"\n"].concat()
    }

    fn is_tag(&self) -> bool {
        self.name.starts_with(b"refs/tags/")
    }

    /// Returns the files that the ref consists of. A commit without a ref has none.
    fn files(&self) -> Vec<PathBuf> {
        let file = Path::new(".git").join(OsStr::from_bytes(&self.name));
        match self.name.starts_with(b"refs/") {
            true if file == Path::new(STASH) => vec![file, STASH_LOG.into()],
            true => vec![file],
            false => Vec::new(),
        }
    }
}

impl Committer<'_> {
    /// Returns the branches, tags and the newest stash of the agent's repository, without the branch that is checked out.
    async fn other_refs(&mut self) -> Result<Vec<OtherRef>, RunError> {
        let text = self.list("refs", None).await?;
        Ok(text.split(|byte| *byte == b'\n').filter_map(OtherRef::parse).collect())
    }

    /// Returns for each of the refs the number of its commits that the commits of the turn do not have; 0 if merging them
    /// would change no file, and `None` if git cannot tell.
    async fn missing_commits(&mut self, refs: &[OtherRef]) -> Result<Vec<Option<u64>>, RunError> {
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        let lines: Vec<Vec<u8>> = refs.iter().map(OtherRef::line).collect();
        let answers = self.ask_with("missing", Some(lines.concat())).await?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&answers).lines().map(|line| line.parse().ok()).collect())
    }

    /// Packs the commits of the refs in the agent's repository, without those that the code host has. Returns the files that
    /// a repository without them needs, for each of the refs; none if git failed.
    async fn pack<'r>(
        &mut self,
        refs: impl Iterator<Item = &'r OtherRef> + Clone + Send,
    ) -> Result<Vec<Vec<PathBuf>>, RunError> {
        let lines: Vec<Vec<u8>> = refs.clone().map(OtherRef::line).collect();
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.ask_with("pack", Some(lines.concat())).await?.unwrap_or_default();
        let answers = String::from_utf8_lossy(&answers).into_owned();
        let packs = answers.lines().map(|hash| hash.parse().ok()).chain(std::iter::repeat(None));
        let files = |(one, hash): (&OtherRef, Option<Sha>)| {
            let pack = |hash| PACK_FILES.map(|end| Path::new(PACKS).join(format!("pack-{hash}.{end}")));
            hash.map(|hash| [one.files(), pack(hash).into()].concat()).unwrap_or_default()
        };
        Ok(refs.zip(packs).map(files).collect())
    }
}

/// Returns the commits and tags that the commits of a turn do not have, and what there is to store of them. The committer
/// has made the commits of the turn already.
pub(super) async fn find(
    committer: &mut Committer<'_>,
    mirror: &Mirror,
    tree: &Path,
    scan: &TreeScan,
    since: Option<Timestamp>,
) -> Result<Vec<(LeftOut, HeldBack)>, RunError> {
    let path = tree.to_owned();
    let left = tokio::task::spawn_blocking(move || left_commits(&path, since)).await.map_err(std::io::Error::other)?;
    let mut others: Vec<OtherRef> = left.into_iter().map(OtherRef::of_commit).collect();
    if scan.has_other_refs {
        others.extend(committer.other_refs().await?);
    }
    // The mirror has the commits of people, and those of earlier turns. It never has a tag of the agent.
    let mut unknown = Vec::new();
    for other in others {
        if other.is_tag() || !mirror.has(&other.object).await {
            unknown.push(other);
        }
    }
    // What is not looked at is told, too.
    let rest = unknown.split_off(unknown.len().min(MAX_LEFT_OUT));
    let counts = committer.missing_commits(&unknown).await?.into_iter().chain(std::iter::repeat(None));
    let mut missing: Vec<(OtherRef, LeftOutReason)> = Vec::new();
    for (other, count) in unknown.into_iter().zip(counts) {
        missing.extend(reason(&other, count).map(|reason| (other, reason)));
    }
    let packed = committer.pack(missing.iter().map(|(other, _)| other)).await?;
    missing.extend(rest.into_iter().map(|other| (other, LeftOutReason::OtherCommits { commits: 0 })));
    let told = |((other, reason), files): ((OtherRef, LeftOutReason), Vec<PathBuf>)| {
        let path = path_text(&other.name);
        let held = HeldBack { path: path.clone().into(), files, ..HeldBack::default() };
        (LeftOut { path, reason, is_kept: false }, held)
    };
    Ok(missing.into_iter().zip(packed.into_iter().chain(std::iter::repeat(Vec::new()))).map(told).collect())
}

/// Returns the reason why a ref is told. `missing` is the number of its commits that the published ones do not have, if it
/// is known.
fn reason(other: &OtherRef, missing: Option<u64>) -> Option<LeftOutReason> {
    match (missing, other.is_tag()) {
        (Some(0) | None, true) => Some(LeftOutReason::Tag),
        (Some(0), false) => None,
        (missing, _) => Some(LeftOutReason::OtherCommits { commits: missing.unwrap_or_default() }),
    }
}

/// Returns what is told if the commits in the agent's repository cannot be used at all, because something in it may block
/// git; `None` if it has no commits of its own.
pub(super) async fn unusable(tree: &Path, begun: &Sha) -> Result<Option<LeftOut>, RunError> {
    let path = tree.to_owned();
    let head = tokio::task::spawn_blocking(move || head_of(&path)).await.map_err(std::io::Error::other)?;
    let told = LeftOut { path: REPOSITORY.to_owned(), reason: LeftOutReason::ReplacedCommits, is_kept: false };
    Ok(head.is_none_or(|head| head != begun.as_str()).then_some(told))
}

/// Returns the ID that the HEAD of a tree leads to, if it is an ID, or a branch with a file of its own.
fn head_of(tree: &Path) -> Option<String> {
    let tree = open_folder(tree).ok()?;
    let read = |path: &Path| {
        let file = open_beneath(&tree, path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
        let mut text = String::new();
        file.take(REF_BYTES).read_to_string(&mut text).ok()?;
        Some(text.trim_end().to_owned())
    };
    let head = read(Path::new(".git/HEAD"))?;
    match head.strip_prefix("ref: ") {
        Some(name) => read(&Path::new(".git").join(name)),
        None => Some(head),
    }
}

/// Returns the commits that were checked out without a branch and left since a time, as the repository records it.
fn left_commits(tree: &Path, since: Option<Timestamp>) -> Vec<Sha> {
    let read = || {
        let mut file = open_beneath(&open_folder(tree)?, Path::new(REFLOG))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(REFLOG_BYTES)))?;
        let mut text = Vec::new();
        file.take(REFLOG_BYTES).read_to_end(&mut text)?;
        std::io::Result::Ok(text)
    };
    // A repository without the record has left none.
    left_in(&read().unwrap_or_default(), since)
}

/// Finds the commits in the text of the record. A line is the commit before and after, who did it, the time in seconds with
/// its zone, a tab, and what was done.
fn left_in(record: &[u8], since: Option<Timestamp>) -> Vec<Sha> {
    let since = since.map_or(i64::MIN, |since| since.as_micros().div_euclid(1_000_000));
    let left = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let (before, action) = line.split_once('\t')?;
        let at: i64 = before.rsplit(' ').nth(1)?.parse().ok()?;
        let (left, _) = action.strip_prefix("checkout: moving from ")?.split_once(" to ")?;
        left.parse().ok().filter(|_| at >= since)
    };
    let mut commits: Vec<Sha> = record.split(|byte| *byte == b'\n').filter_map(left).collect();
    commits.sort_unstable();
    commits.dedup();
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commits_that_were_left_in_the_turn_are_found() {
        let sha = |digit: &str| digit.repeat(40);
        let line = |at: i64, action: &str| format!("{} {} Ada <a@b> {at} +0100\t{action}\n", sha("1"), sha("2"));
        let record = [
            line(99, &format!("checkout: moving from {} to main", sha("a"))),
            line(100, &format!("checkout: moving from {} to main", sha("b"))),
            line(100, &format!("checkout: moving from main to {}", sha("c"))),
            line(101, "checkout: moving from a branch to b"),
            line(101, &format!("commit: moving from {} to main", sha("d"))),
            line(102, &format!("checkout: moving from {} to {}", sha("b"), sha("e"))),
            "caf\u{e9} without a tab\n".to_owned(),
        ];
        let since = Timestamp::from_micros(100_900_000 - 500_000);
        let found = left_in(record.concat().as_bytes(), Some(since));
        assert_eq!(found, [sha("b").parse().unwrap()]);
        assert_eq!(left_in(record.concat().as_bytes(), None).len(), 2);
        assert_eq!(left_in(b"\xff\n\t", None), []);
    }

    #[test]
    fn the_record_is_not_read_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(left_commits(dir.path(), None), []);
        std::fs::create_dir_all(dir.path().join(".git/logs")).unwrap();
        let record = format!("1 2 A 100 +0100\tcheckout: moving from {} to x\n", "a".repeat(40));
        std::fs::write(dir.path().join("elsewhere"), &record).unwrap();
        std::os::unix::fs::symlink("../../elsewhere", dir.path().join(REFLOG)).unwrap();
        assert_eq!(left_commits(dir.path(), None), []);
        std::fs::remove_file(dir.path().join(REFLOG)).unwrap();
        std::fs::write(dir.path().join(REFLOG), record).unwrap();
        assert_eq!(left_commits(dir.path(), None), ["a".repeat(40).parse().unwrap()]);
    }
}
