//! Finds work that is not finished: an operation of git that the agent has not concluded, or conflicts that it has not
//! resolved. Such work is not published.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_core::ids::Sha;
use journeyman_core::left_out::path_text;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::GitError;
use journeyman_repository::Mirror;

use super::conflict::{SEARCHED_BYTES, conflict_in};
use super::exact::Staged;
use crate::error::RunError;
use crate::workspace::scan::{BISECT, TreeScan};

/// The maximum number of files with such marks that are compared with their earlier content.
const COMPARED: usize = 100;

/// The number of files that a text names.
const NAMED: usize = 10;

/// Work that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// The operation that was not concluded, such as a merge.
    operation: Option<&'static str>,
    /// The files with conflicts.
    files: BTreeSet<PathBuf>,
}

impl Unfinished {
    /// Returns what the turn has left unfinished, if anything. Files that had marks of a conflict before, in any of the
    /// commits `before`, do not count, nor do copies of such files.
    ///
    /// # Errors
    /// Git failed.
    pub(crate) async fn find(
        mirror: &Mirror,
        before: &[&Sha],
        scan: &TreeScan,
        staged: &Staged,
    ) -> Result<Option<Self>, RunError> {
        let mut new = BTreeSet::new();
        for (path, conflict) in staged.with_conflict.iter().take(COMPARED) {
            if !had_conflict(mirror, before, path).await? {
                new.insert((path, conflict));
            }
        }
        let old = match new.is_empty() {
            true => BTreeSet::new(),
            false => conflicts_in(mirror, before).await?,
        };
        let new = new.into_iter().filter(|(_, conflict)| !old.contains(*conflict)).map(|(path, _)| path.clone());
        let files: BTreeSet<PathBuf> = staged.unmerged.iter().cloned().chain(new).collect();
        let operation = scan.unfinished.filter(|_| scan.repository_is_plain);
        Ok((operation.is_some() || !files.is_empty()).then_some(Self { operation, files }))
    }

    /// Returns the prompt that asks the agent to finish the work.
    pub(crate) fn prompt(&self) -> String {
        let resolve = "Resolve the conflicts in the files, without their marks (<<<<<<<, =======, >>>>>>>), in the way that \
                       the task needs.";
        let resolve = (!self.files.is_empty() || self.operation != Some(BISECT)).then(|| resolve.to_owned());
        let conclude = self.operation.map(|operation| match resolve {
            Some(_) => format!("Then conclude the {operation}, or abort it if it is not needed."),
            None => "Check out the branch with your work (git bisect reset).".to_owned(),
        });
        let steps: Vec<String> = resolve.into_iter().chain(conclude).collect();
        format!("Your work is not finished, and cannot be published: {}. {}", self.text(), steps.join(" "))
    }

    /// Returns the reason of a message whose work is not finished.
    pub(crate) fn reason(&self) -> Reason {
        let text = format!(
            "nothing was published: {}, also after the agent was asked to resolve this. The work stays in the \
             workspace; send a message that says how to resolve it",
            self.text()
        );
        Reason::new(ReasonCode::UnresolvedConflicts, text)
    }

    fn text(&self) -> String {
        let operation = self.operation.map(|operation| format!("a {operation} is not concluded"));
        let named: Vec<String> =
            self.files.iter().take(NAMED).map(|path| path_text(path.as_os_str().as_bytes())).collect();
        let more = match self.files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let files = (!named.is_empty()).then(|| format!("there are conflicts in {}{more}", named.join(", ")));
        operation.into_iter().chain(files).collect::<Vec<_>>().join(", and ")
    }
}

/// Returns whether the file had marks of a conflict in any of the commits.
async fn had_conflict(mirror: &Mirror, commits: &[&Sha], path: &Path) -> Result<bool, RunError> {
    for commit in commits {
        let mut object = OsString::from(format!("{commit}:"));
        object.push(path);
        let read = mirror.git.at(&mirror.path, ["cat-file".into(), "blob".into(), object]);
        match read.stdout_bytes(SEARCHED_BYTES).run().await {
            Ok(content) if conflict_in(content.stdout.as_slice()).is_some() => return Ok(true),
            // There is no such file.
            Ok(_) | Err(GitError::Failed { .. } | GitError::TooMuch { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Returns the conflicts in the files of the commits.
async fn conflicts_in(mirror: &Mirror, commits: &[&Sha]) -> Result<BTreeSet<Vec<u8>>, RunError> {
    let mut found = BTreeSet::new();
    for commit in commits {
        let list = ["grep", "--files-with-matches", "--null", "-e", "^<<<<<<< ", commit.as_str(), "--"];
        let files = match mirror.git.at(&mirror.path, list).run().await {
            Ok(files) => files.stdout,
            // There is no such file.
            Err(GitError::Failed { code: Some(1), .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        // Each is the commit, a colon, and the path.
        let files = files.split(|byte| *byte == 0).filter(|file| !file.is_empty());
        for file in files.take(COMPARED) {
            let read = mirror.git.at(&mirror.path, ["cat-file".as_ref(), "blob".as_ref(), OsStr::from_bytes(file)]);
            match read.stdout_bytes(SEARCHED_BYTES).run().await {
                Ok(content) => found.extend(conflict_in(content.stdout.as_slice())),
                Err(GitError::Failed { .. } | GitError::TooMuch { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_name_the_operation_and_the_files() {
        let files = |number: usize| (0..number).map(|name| PathBuf::from(format!("{name:02}"))).collect();
        let both = Unfinished { operation: Some("merge"), files: files(1) };
        assert_eq!(both.text(), "a merge is not concluded, and there are conflicts in 00");
        let many = Unfinished { operation: None, files: files(12) };
        assert!(many.text().ends_with("08, 09 and 2 more"), "{}", many.text());
        let bisect = Unfinished { operation: Some(BISECT), files: files(0) };
        let prompt = "Your work is not finished, and cannot be published: a bisect is not concluded. Check out the branch \
                      with your work (git bisect reset).";
        assert_eq!(bisect.prompt(), prompt);
    }
}
