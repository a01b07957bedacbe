//! The repository at a path: its location, its owner, and the checks that decide whether the service uses it.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::GitError;

/// The parts of a repository that control its other parts, and therefore must belong to the same user.
const PARTS: &[&str] = &[
    "",
    "HEAD",
    "config",
    "config.worktree",
    "hooks",
    "objects",
    "objects/info",
    "objects/info/alternates",
    "objects/pack",
    "refs",
];

/// The hooks that a push runs (githooks(5)).
const HOOKS: &[&str] = &[
    "pre-receive",
    "update",
    "reference-transaction",
    "proc-receive",
    "push-to-checkout",
    "post-receive",
    "post-update",
];

/// A repository that the service can use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsableRepository {
    /// The git directory, without symbolic links.
    pub(super) git_dir: PathBuf,
    /// The user that owns the repository.
    pub(super) owner: u32,
}

/// Finds the repository at a path for the service, which runs as the user `me`.
pub(super) fn find(path: &Path, own_folders: &[PathBuf], me: u32) -> Result<UsableRepository, GitError> {
    let git_dir = git_dir(path)?;
    if let Some(folder) = own_folder(&git_dir, own_folders) {
        return Err(GitError::NotUsed(format!(
            "The repository {} is in {}, a folder of the service. Refer to a repository of the built-in code host as \
             local:<name>.",
            path.display(),
            folder.display()
        )));
    }
    let owner = std::fs::metadata(&git_dir).map_err(|error| unreadable(path, &error))?.uid();
    if owner == me {
        check_parts(&git_dir, me)?;
        check_hooks(&git_dir)?;
    } else if me != 0 {
        return Err(GitError::NotUsed(format!(
            "The repository {} belongs to user {owner}, but the service runs as user {me}. Run the service as user \
             {owner}, change the owner of the repository to user {me} (chown -R), or use an ssh:// or https:// \
             address.",
            path.display()
        )));
    }
    Ok(UsableRepository { git_dir, owner })
}

/// Returns the git directory at a path. Tries the same endings as git, in the same order.
fn git_dir(path: &Path) -> Result<PathBuf, GitError> {
    for ending in ["/.git", "", ".git/.git", ".git"] {
        let mut candidate = path.as_os_str().to_owned();
        candidate.push(ending);
        let candidate = PathBuf::from(candidate);
        match std::fs::metadata(&candidate) {
            Ok(found) if found.is_file() && candidate.file_name().is_some_and(|name| name == ".git") => {
                return Err(GitError::NotUsed(format!(
                    "{} is a worktree or a submodule of another repository. Give the path of that repository.",
                    path.display()
                )));
            }
            Ok(found) if found.is_dir() && candidate.join("HEAD").symlink_metadata().is_ok() => {
                if !candidate.join("objects").is_dir() {
                    continue;
                }
                return candidate.canonicalize().map_err(|error| unreadable(path, &error));
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(unreadable(path, &error)),
            _ => {}
        }
    }
    // The message is the same as git's.
    let stderr = format!("'{}' does not appear to be a git repository", path.display());
    Err(GitError::Failed { command: "ls-remote".to_owned(), code: Some(128), stderr })
}

/// Returns the folder of the service that contains a path. Compares inodes, so that another name for the folder does
/// not bypass the check.
fn own_folder<'a>(path: &Path, own_folders: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let id = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let above: Vec<(u64, u64)> = path.ancestors().filter_map(id).collect();
    own_folders.iter().find(|folder| id(folder).is_some_and(|folder| above.contains(&folder)))
}

/// Refuses a repository with parts that another user may write.
fn check_parts(git_dir: &Path, me: u32) -> Result<(), GitError> {
    let above = git_dir.file_name().filter(|name| *name == ".git").and(git_dir.parent()).map(Path::to_owned);
    let parts = PARTS.iter().map(|part| if part.is_empty() { git_dir.to_owned() } else { git_dir.join(part) });
    for part in parts.chain(above) {
        // Checks both a symbolic link and its target.
        for found in [part.symlink_metadata(), part.metadata()] {
            let found = match found {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&part, &error)),
            };
            if let Some(why) = written_by_others(&found, me) {
                return Err(GitError::NotUsed(format!(
                    "{} {why}, but the repository {} belongs to user {me}, which the service runs as. Make one user \
                     the owner of all its files (chown -R), and remove write permission for others (chmod -R o-w).",
                    part.display(),
                    git_dir.display()
                )));
            }
        }
    }
    Ok(())
}

fn written_by_others(found: &Metadata, me: u32) -> Option<String> {
    if found.uid() != me {
        return Some(format!("belongs to user {}", found.uid()));
    }
    let world_writable = !found.is_symlink() && found.permissions().mode() & 0o002 != 0;
    world_writable.then(|| "is writable by all users".to_owned())
}

/// Refuses a repository of the service's user that has hooks.
fn check_hooks(git_dir: &Path) -> Result<(), GitError> {
    let runs = |hook: &Path| hook.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    match HOOKS.iter().find(|name| runs(&git_dir.join("hooks").join(name))) {
        Some(name) => Err(has_hooks(git_dir, &format!("hooks/{name}"))),
        None => Ok(()),
    }
}

/// Returns the refusal of a repository whose hooks would run as the service.
pub(super) fn has_hooks(git_dir: &Path, name: &str) -> GitError {
    GitError::NotUsed(format!(
        "The repository {} belongs to the user that the service runs as, so its {name} would run with all permissions \
         of the service. Remove it, use an ssh:// or https:// address, or run the service as root and change the owner \
         of the repository to another user; its hooks then run as that user.",
        git_dir.display()
    ))
}

fn unreadable(path: &Path, error: &io::Error) -> GitError {
    GitError::NotUsed(format!("The service cannot read the repository {}: {error}.", path.display()))
}
