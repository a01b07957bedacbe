//! Refuses commits that change files of CI pipelines ([`CiFileNames`]). A code host runs a pipeline as soon as its branch
//! is pushed, with the secrets of the repository, and before people have reviewed the change.
//!
//! Two comparisons must both find no change:
//!
//! - The newest commit is compared with the commit of the code host that it follows on. Files that are the same as on
//!   the branch that people merge into do not count, because people have accepted these.
//! - Each commit that the code host does not have is compared with its parents, because any of them can become the
//!   newest commit of a branch later.
//!
//! If only the second one finds a change, the agent has undone it. The commits are then pushed as one.

use std::collections::BTreeSet;

use journeyman_core::code_host::ci_files::{CiFileNames, included, top_folders};
use journeyman_core::ids::Sha;
use journeyman_core::job::Branch;
use journeyman_core::left_out::path_text;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, GitError};

use crate::signing::next_object;
use crate::{Mirror, RepositoryError};

/// The number of files that an error names.
const NAMED: usize = 5;

/// The number of links that are followed from one to the next. Linux follows 40 (path_resolution(7)).
const LINKS_IN_A_ROW: usize = 40;

/// The maximum bytes of the targets of links, and of the files of pipelines that are read at once.
const LINK_BYTES: usize = 16 << 20;

/// The number of rounds in which files that include others are read. GitLab includes at most 150 files in a pipeline.
const INCLUDES_IN_A_ROW: usize = 150;

/// The maximum number of files of pipelines that are read.
const MOST_READ: usize = 1000;

/// The result of [`check`].
pub(crate) enum CiCheck {
    /// The commits change no file of CI pipelines.
    Unchanged,
    /// The commits change these files, which must not be pushed.
    Changed(CiFilesChanged),
    /// The commits after `from`, which is on the code host, change such files and undo the changes.
    OnlyBetween {
        /// The newest commit in the history that the code host has.
        from: Sha,
    },
}

/// The files of CI pipelines that commits change.
pub(crate) struct CiFilesChanged(Vec<String>);

impl From<CiFilesChanged> for RepositoryError {
    fn from(CiFilesChanged(files): CiFilesChanged) -> Self {
        let named: Vec<String> = files.iter().take(NAMED).map(|file| format!("{file:?}")).collect();
        let more = match files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "the commits change files of CI pipelines: {}{more}. The code host would run them with the repository's \
             secrets before a review, so nothing was pushed; the commits are kept. Set pullRequest.ciFiles of the \
             project to \"allow\" and send another message, or send a message that asks the agent to undo these changes",
            named.join(", ")
        );
        Self::failed(ReasonCode::CiFilesChanged, text)
    }
}

/// Checks the commits up to `head` that a push to `branch` would send. `base` is the branch that people merge into, and
/// `paths` has the patterns of the project.
pub(crate) async fn check(
    mirror: &Mirror,
    branch: &Branch,
    head: &Sha,
    base: &str,
    paths: &[String],
) -> Result<CiCheck, RepositoryError> {
    let mut names = CiFileNames::new(paths);
    add_link_targets(mirror, head, &mut names).await?;
    add_included(mirror, head, &mut names).await?;
    let check = Check { mirror, names };
    let from = start(mirror, branch, head).await?;
    let mut in_sum = check.changed(from.as_str(), head).await?;
    if !in_sum.is_empty()
        && let Some(base) = mirror.heads.get(base)
    {
        let others = check.changed(base.as_str(), head).await?;
        in_sum.retain(|file| others.contains(file));
    }
    if !in_sum.is_empty() {
        return Ok(CiCheck::Changed(CiFilesChanged(in_sum)));
    }
    let between = check.changed_between(head).await?;
    if between.is_empty() {
        return Ok(CiCheck::Unchanged);
    }
    // Commits before `from` would remain: the job starts from a commit that was never pushed.
    let before = check.changed_between(&from).await?;
    if before.is_empty() { Ok(CiCheck::OnlyBetween { from }) } else { Ok(CiCheck::Changed(CiFilesChanged(between))) }
}

/// Makes one commit after `from` of all commits up to `head`, with the message of the newest one.
pub(crate) async fn sum_of(mirror: &Mirror, from: &Sha, head: &Sha) -> Result<Sha, RepositoryError> {
    let show = ["log", "-1", "--format=%B", head.as_str(), "--"];
    let message = mirror.git.at(&mirror.path, show).run().await?.stdout;
    let tree = format!("{head}^{{tree}}");
    let commit = ["commit-tree", &tree, "-p", from.as_str(), "-F", "-"];
    Ok(mirror.git.at(&mirror.path, commit).stdin(message).run().await?.sha()?)
}

/// Returns the commit of the code host that the job's commits follow on: the newest one that they share with the branch
/// on the code host, or the one that a new branch starts from.
async fn start(mirror: &Mirror, branch: &Branch, head: &Sha) -> Result<Sha, RepositoryError> {
    // People may have pushed after `mirror.heads` was read; the ref is as new as the last fetch of any job.
    let theirs = format!("refs/heads/{}", branch.name);
    match mirror.git.at(&mirror.path, ["merge-base", head.as_str(), &theirs]).run().await {
        Ok(found) => Ok(found.sha()?),
        // The code host has no such branch, or one with a different history, to which the push is refused.
        Err(error @ GitError::Failed { .. }) if matches!(error.failure(), Failure::Other) => Ok(branch.base.clone()),
        Err(error) => Err(error.into()),
    }
}

/// The commits of a repository, and the files that count.
struct Check<'a> {
    mirror: &'a Mirror,
    names: CiFileNames,
}

impl Check<'_> {
    /// Returns the files of CI pipelines that differ between two commits, including those with another mode.
    async fn changed(&self, from: &str, to: &Sha) -> Result<Vec<String>, RepositoryError> {
        let arguments = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to.as_str(), "--"];
        Ok(self.ci_files(&self.mirror.git.at(&self.mirror.path, arguments).run().await?.stdout))
    }

    /// Returns the files of CI pipelines that any of the commits up to `head` changes, without the commits that the code
    /// host has. Of a merge, the files count that differ from all of its parents.
    async fn changed_between(&self, head: &Sha) -> Result<Vec<String>, RepositoryError> {
        let form = ["log", "-z", "--name-only", "--no-renames", "--diff-merges=combined", "--root", "--format="];
        let arguments = form.into_iter().chain([head.as_str(), "--not", "--branches", "--"]);
        Ok(self.ci_files(&self.mirror.git.at(&self.mirror.path, arguments).run().await?.stdout))
    }

    /// Returns the files of CI pipelines in a list of paths that each end with a NUL.
    fn ci_files(&self, paths: &[u8]) -> Vec<String> {
        let paths = path_text(paths);
        let mut files: Vec<String> = paths
            .split('\0')
            .map(|path| path.trim_start_matches('\n'))
            .filter(|path| self.names.contain(path))
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

/// Adds what the links among the files of CI pipelines lead to in a commit: a system that checks the repository out
/// follows them. Of links in folders, only those in the folders of known systems are looked at.
async fn add_link_targets(mirror: &Mirror, head: &Sha, names: &mut CiFileNames) -> Result<(), RepositoryError> {
    let top = list(mirror, head, &[]).await?;
    let known = top_folders();
    let folders = top.iter().filter(|entry| entry.is_folder && known.contains(&entry.path.to_lowercase().as_str()));
    let mut paths: Vec<String> = folders.map(|entry| entry.path.clone()).collect();
    let mut links: Vec<Entry> = top.into_iter().filter(|entry| entry.is_link).collect();
    let mut seen = BTreeSet::new();
    for _ in 0..LINKS_IN_A_ROW {
        if !paths.is_empty() {
            links.extend(list(mirror, head, &paths).await?.into_iter().filter(|entry| entry.is_link));
        }
        links.retain(|link| !seen.contains(&link.path));
        let found: Vec<Entry> = links.extract_if(.., |entry| names.contain(&entry.path)).collect();
        if found.is_empty() {
            break;
        }
        paths = targets(mirror, &found).await?;
        paths.iter().for_each(|target| names.add_target(target));
        seen.extend(found.into_iter().map(|link| link.path));
    }
    Ok(())
}

/// Adds what the files of CI pipelines include in a commit, and what these files include. The newest commit says so for
/// all commits: if one of them changes a file of pipelines, it is not pushed.
async fn add_included(mirror: &Mirror, head: &Sha, names: &mut CiFileNames) -> Result<(), RepositoryError> {
    let top = list(mirror, head, &[]).await?;
    let known = top_folders();
    let folders = top.iter().filter(|entry| entry.is_folder && known.contains(&entry.path.to_lowercase().as_str()));
    let mut paths: Vec<String> = folders.map(|entry| entry.path.clone()).collect();
    let mut files: Vec<Entry> = top.into_iter().filter(|entry| !entry.is_folder).collect();
    let mut seen = BTreeSet::new();
    for _ in 0..INCLUDES_IN_A_ROW {
        // A pattern names the folder before its first `*`, and git compares the case of letters.
        paths.extend(names.added().iter().map(|pattern| fixed(pattern).to_owned()).filter(|path| !path.is_empty()));
        paths.retain(|path| seen.insert(format!("{path}/")));
        if !paths.is_empty() {
            files.extend(list(mirror, head, &paths).await?);
        }
        paths.clear();
        let is_file = |entry: &Entry| !entry.is_folder && !entry.is_link && is_yaml(&entry.path);
        files.retain(|entry| is_file(entry) && names.contain(&entry.path) && seen.insert(entry.path.clone()));
        if files.is_empty() {
            return Ok(());
        }
        if seen.len() > MOST_READ {
            return Err(too_many());
        }
        for (path, text) in contents(mirror, &files).await? {
            let found = included(&path, &text);
            // The names are in lower case, so that the paths are looked up as they are written.
            paths.extend(found.iter().map(|pattern| fixed(pattern).to_owned()).filter(|path| !path.is_empty()));
            names.add_included(&found);
        }
        files.clear();
    }
    Err(too_many())
}

fn too_many() -> RepositoryError {
    let text = format!(
        "the files of CI pipelines include one another more than {INCLUDES_IN_A_ROW} times in a row, or are more than \
         {MOST_READ}, so it is not known which files the pipelines run; set pullRequest.ciFiles to \"allow\" if commits may \
         change any file"
    );
    RepositoryError::failed(ReasonCode::CiFilesChanged, text)
}

fn is_yaml(path: &str) -> bool {
    let path = path.to_lowercase();
    path.ends_with(".yml") || path.ends_with(".yaml")
}

/// Returns the path that a pattern names, or the folder before its first `*`.
fn fixed(pattern: &str) -> &str {
    match pattern.split_once('*') {
        None => pattern.trim_end_matches('/'),
        Some((before, _)) => before.rsplit_once('/').map_or("", |(folder, _)| folder),
    }
}

/// Reads files of a commit.
async fn contents(mirror: &Mirror, files: &[Entry]) -> Result<Vec<(String, String)>, RepositoryError> {
    let objects: String = files.iter().map(|file| format!("{}\n", file.object)).collect();
    let read = mirror.git.at(&mirror.path, ["cat-file", "--batch"]).stdin(objects).stdout_bytes(LINK_BYTES);
    let contents = read.run().await?.stdout;
    let (mut rest, mut texts) = (&contents[..], Vec::new());
    for file in files {
        let content = next_object(&mut rest).ok_or_else(|| not_read(file))?;
        texts.push((file.path.clone(), String::from_utf8_lossy(content).into_owned()));
    }
    Ok(texts)
}

/// Returns the entries of a commit's root, or all files in the folders `paths` if there are any.
async fn list(mirror: &Mirror, commit: &Sha, paths: &[String]) -> Result<Vec<Entry>, RepositoryError> {
    let recursive: &[&str] = if paths.is_empty() { &[] } else { &["-r"] };
    let arguments = ["ls-tree", "-z"].into_iter().chain(recursive.iter().copied()).chain([commit.as_str(), "--"]);
    let arguments = arguments.chain(paths.iter().map(String::as_str));
    Ok(entries(&mirror.git.at(&mirror.path, arguments).run().await?.stdout))
}

/// Returns the paths in the repository that links lead to.
async fn targets(mirror: &Mirror, links: &[Entry]) -> Result<Vec<String>, RepositoryError> {
    let objects: String = links.iter().map(|link| format!("{}\n", link.object)).collect();
    let read = mirror.git.at(&mirror.path, ["cat-file", "--batch"]).stdin(objects).stdout_bytes(LINK_BYTES);
    let contents = read.run().await?.stdout;
    let (mut rest, mut targets) = (&contents[..], Vec::new());
    for link in links {
        let content = next_object(&mut rest).ok_or_else(|| not_read(link))?;
        targets.extend(resolved(&link.path, &path_text(content)).filter(|target| !target.is_empty()));
    }
    Ok(targets)
}

fn not_read(link: &Entry) -> RepositoryError {
    let detail = format!("{:?} is missing in its output", link.path);
    GitError::Unexpected { command: "cat-file".to_owned(), detail }.into()
}

/// An entry of a tree.
struct Entry {
    path: String,
    object: String,
    is_link: bool,
    is_folder: bool,
}

/// Parses the output of `git ls-tree -z`.
fn entries(output: &[u8]) -> Vec<Entry> {
    let lines = output.split(|byte| *byte == 0).filter_map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (fields, path) = (std::str::from_utf8(&line[..tab]).ok()?, path_text(&line[tab + 1..]));
        let mut fields = fields.split(' ');
        let (mode, kind, object) = (fields.next()?, fields.next()?, fields.next()?.to_owned());
        Some(Entry { path, object, is_link: mode == "120000", is_folder: kind == "tree" })
    });
    lines.collect()
}

/// Returns the path in the repository that a link leads to; `None` if it leads out of it.
fn resolved(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut path: Vec<&str> = link.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests;
