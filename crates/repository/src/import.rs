//! Imports the commits of a turn into the mirror, as a pack that was made in a sandbox, and checks them like a push
//! from an untrusted client.

use std::collections::HashSet;
use std::fs::File;
use std::time::Duration;

use journeyman_core::ids::{JobId, Sha};
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, GitError};

use crate::changes::{Change, Changes};
use crate::{Mirror, RepositoryError};

/// The mode of a repository inside a repository (git-fast-import(1)).
pub(crate) const GITLINK: &str = "160000";

/// The mode of a symbolic link (git-fast-import(1)).
const LINK: &str = "120000";

/// The file that says where submodules come from (gitmodules(5)).
pub const GITMODULES: &str = ".gitmodules";

/// The maximum size of a file in a commit, in bytes, unless the project sets another: the limit of GitHub.
pub const FILE_BYTES: u64 = 100 << 20;

/// The option for git's check of objects. By default git accepts trees with modes that it never writes itself, such as
/// 104755 (setuid). Commits with such trees are rewritten.
const STRICT: &str = "--strict=badFilemode=error";

/// The maximum number of commits of one turn, because all of them are named in the job's log.
const MAX_COMMITS: usize = 10_000;

/// An error from [`import`].
#[derive(Debug)]
pub enum ImportError {
    /// Trees have file modes that git itself does not write. The commits can be rewritten without them.
    OddModes,
    /// Another error.
    Other(RepositoryError),
}

/// Imports a pack into the mirror. Git checks that its objects are complete, and that all of their links lead to
/// existing objects. It stays a pack: a small pack can describe objects that do not fit on the disk.
///
/// # Errors
/// Git refuses the pack, or the machine failed.
pub async fn import(mirror: &Mirror, pack: File, timeout: Duration) -> Result<(), ImportError> {
    let command = ["index-pack", "--stdin", STRICT, "--fix-thin"];
    let imported = mirror.git.at(&mirror.path, command).stdin_file(pack).timeout(timeout).run().await;
    imported.map(drop).map_err(|error| match error.has_odd_modes() {
        true => ImportError::OddModes,
        false => ImportError::Other(not_imported(error)),
    })
}

/// Returns the failure for a pack that git did not import. The pack is to blame unless the machine kept git from
/// reading it.
#[must_use]
pub fn not_imported(error: GitError) -> RepositoryError {
    match (&error, error.failure()) {
        (GitError::NotStarted(_), _)
        | (_, Failure::DiskFull | Failure::LockHeld | Failure::NotWritten | Failure::Damaged) => error.into(),
        // The machine or an operator killed git. (Our own limits end git in other ways.)
        _ if error.is_killed() => error.into(),
        _ => refused(&error),
    }
}

/// The rules for the commits of a turn.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// The job.
    pub job: JobId,
    /// The commit that the turn started from.
    pub base: &'a Sha,
    /// The newest commit of the branch that the work is merged into. The commits may have merged it, or a commit before
    /// it, and its content is that of people.
    pub upstream: Option<&'a Sha>,
    /// The maximum size of a file in bytes.
    pub file_bytes: u64,
    /// True if files of the commits may have more bytes than `file_bytes`: the agent has made some of the commits, or git
    /// converts files.
    pub may_have_large_files: bool,
    /// What the commits may say about submodules.
    pub submodules: &'a KnownSubmodules,
}

/// The pointers and settings of submodules that may be pushed, because they were checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownSubmodules {
    /// Pointers: a path and a commit, which the submodule's repository has.
    pub pointers: HashSet<(String, Sha)>,
    /// Objects of `.gitmodules` with addresses that may be used.
    pub files: HashSet<Sha>,
    /// True if `.gitmodules` may be removed.
    pub may_remove_file: bool,
}

impl KnownSubmodules {
    fn has_pointer(&self, Change { path, object, .. }: &Change) -> bool {
        object.parse().is_ok_and(|commit| self.pointers.contains(&(path.clone(), commit)))
    }

    fn has_file(&self, Change { new_mode, object, .. }: &Change) -> bool {
        match new_mode.trim_start_matches('0') {
            "" => self.may_remove_file,
            _ => object.parse().is_ok_and(|object| self.files.contains(&object)),
        }
    }
}

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The commits may be pushed; oldest first.
    Accepted(Vec<Sha>),
    /// The commits have content that must not be pushed, in these words.
    Content(String),
    /// The commits have files with more than [`Rules::file_bytes`].
    TooLarge(Vec<LargeFile>),
}

/// A file in a commit that is too large. Git can store more bytes than the tree has, such as UTF-8 for a file in another
/// encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeFile {
    /// The path, as text.
    pub path: String,
    /// The object.
    pub object: Sha,
    /// The size in bytes.
    pub bytes: u64,
}

/// Checks the imported commits after the base up to `head`, protects them from garbage collection, and returns them,
/// oldest first.
///
/// # Errors
/// The commits must not be pushed, whatever their content, or git failed.
pub async fn check(mirror: &Mirror, head: &Sha, rules: &Rules<'_>) -> Result<Checked, RepositoryError> {
    let changes = mirror.changes(rules.base, rules.upstream, head).await.map_err(not_imported)?;
    let changes = changes.filter(|changes| changes.commits.last() == Some(head));
    let mut changes = changes.ok_or_else(|| refused(&"they do not follow on those of the branch"))?;
    if changes.commits.len() > MAX_COMMITS {
        return Err(refused(&format!("there are more than {MAX_COMMITS} of them")));
    }
    if changes.merge {
        // Files that come from another parent are also new to the branch.
        changes.files.extend(mirror.difference(rules.base, head).await?);
        if let Some(upstream) = rules.upstream {
            let theirs = mirror.difference(rules.base, upstream).await?;
            let theirs: HashSet<_> = theirs.iter().map(Change::result).collect();
            changes.files.retain(|change| !theirs.contains(&change.result()));
        }
    }
    if let Some(detail) = unwanted_content(&changes, rules.submodules) {
        return Ok(Checked::Content(detail));
    }
    if rules.may_have_large_files {
        let large = large_files(mirror, &changes, rules.file_bytes).await?;
        if !large.is_empty() {
            return Ok(Checked::TooLarge(large));
        }
    }
    mirror.keep(&format!("{}/head", rules.job), head).await?;
    Ok(Checked::Accepted(changes.commits))
}

/// Returns the content that must not be pushed, in any of the commits: repositories inside the repository, and pointers and
/// settings of submodules that were not checked.
fn unwanted_content(changes: &Changes, known: &KnownSubmodules) -> Option<String> {
    changes.files.iter().find_map(|change @ Change { old_mode, new_mode, path, .. }| {
        if new_mode == GITLINK && !known.has_pointer(change) {
            return Some(match old_mode == GITLINK {
                true => format!("{path:?} points to a commit that was not found in the submodule's repository"),
                false => format!("{path:?} is a separate git repository"),
            });
        }
        (path == GITMODULES && !known.has_file(change))
            .then(|| format!("{path:?} was changed: it names submodules that could not be checked"))
    })
}

/// Returns the files of the commits with more than `most` bytes.
async fn large_files(mirror: &Mirror, changes: &Changes, most: u64) -> Result<Vec<LargeFile>, RepositoryError> {
    let has_blob = |change: &&Change| change.new_mode.starts_with("100") || change.new_mode == LINK;
    let blobs: Vec<&Change> = changes.files.iter().filter(has_blob).collect();
    let names: String = blobs.iter().map(|change| format!("{}\n", change.object)).collect();
    let sizes = mirror.git.at(&mirror.path, ["cat-file", "--batch-check=%(objectsize)"]).stdin(names);
    let large = |(change, size): (&&Change, &str)| {
        let bytes = size.parse().ok().filter(|bytes| *bytes > most)?;
        Some(LargeFile { path: change.path.clone(), object: change.object.parse().ok()?, bytes })
    };
    Ok(blobs.iter().zip(sizes.run().await?.text()?.lines()).filter_map(large).collect())
}

fn refused(why: &impl std::fmt::Display) -> RepositoryError {
    RepositoryError::failed(ReasonCode::WorkspaceRefused, format!("the agent's commits are refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_machine_is_not_blamed_on_the_agent() {
        let failed =
            |stderr: &str| GitError::Failed { command: "index-pack".into(), code: Some(128), stderr: stderr.into() };
        for (error, code, again) in [
            (failed("fatal: write error: No space left on device"), ReasonCode::DiskFull, true),
            (GitError::NotStarted("no prlimit".into()), ReasonCode::Internal, true),
            (
                failed("error: unable to write file m.git/objects/0/7: No such file or directory"),
                ReasonCode::Internal,
                true,
            ),
            (failed("fatal: early EOF"), ReasonCode::WorkspaceRefused, false),
            (failed("error: object fsck failed"), ReasonCode::WorkspaceRefused, false),
            (
                GitError::Failed { command: "index-pack".into(), code: None, stderr: String::new() },
                ReasonCode::Internal,
                true,
            ),
            (GitError::TooMuch { command: "log".into(), bytes: 1 }, ReasonCode::WorkspaceRefused, false),
            (GitError::TimedOut { command: "index-pack".into(), seconds: 1 }, ReasonCode::WorkspaceRefused, false),
        ] {
            let text = error.to_string();
            let RepositoryError::Failed { reason, retry } = not_imported(error) else { panic!("{text}") };
            assert_eq!((reason.code, retry), (code, again), "{text}");
        }
    }
}
