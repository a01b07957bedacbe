//! The directory that a session works in, and the paths that its tools may touch.
//!
//! Invariant: a path that [`Workspace::resolve`] returns is below the root, even after symbolic links are followed. The
//! check guards against mistakes of a model and is no security boundary: `run_command` can do everything that the
//! process can do, and the sandbox limits the process.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

/// An error that makes a path unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceError {
    /// The working directory is relative, missing, or not a directory.
    #[error("the working directory `{0}` must be the absolute path of an existing directory")]
    NotADirectory(String),
    /// The path leads out of the working directory: through `..`, as an absolute path, or through a symbolic link.
    #[error("`{0}` is outside of the working directory")]
    Outside(String),
    /// The path is empty or contains a NUL byte.
    #[error("the path `{0}` is not valid")]
    Invalid(String),
    /// The lookup in the file system failed.
    #[error("`{path}` cannot be looked up: {source}")]
    Io {
        /// The path as the caller gave it.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
}

/// The working directory of a session.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// The directory with all symbolic links resolved.
    root: PathBuf,
    /// The directory as the client named it; a model repeats this form in absolute paths.
    given: PathBuf,
}

impl Workspace {
    /// Opens the directory `cwd`, which must be absolute and exist.
    pub(crate) fn open(cwd: &Path) -> Result<Self, WorkspaceError> {
        let refused = || WorkspaceError::NotADirectory(cwd.display().to_string());
        if !cwd.is_absolute() {
            return Err(refused());
        }
        let root = cwd.canonicalize().map_err(|_| refused())?;
        if !root.is_dir() {
            return Err(refused());
        }
        Ok(Self { root, given: cwd.to_path_buf() })
    }

    /// Returns the directory, absolute and without symbolic links.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the real path of `path`, which is relative to the root or absolute and below it. It need not exist.
    pub(crate) fn resolve(&self, path: &str) -> Result<PathBuf, WorkspaceError> {
        if path.is_empty() || path.contains('\0') {
            return Err(WorkspaceError::Invalid(path.to_owned()));
        }
        let outside = || WorkspaceError::Outside(path.to_owned());
        let asked = Path::new(path);
        let relative = if asked.is_absolute() {
            asked.strip_prefix(&self.root).or_else(|_| asked.strip_prefix(&self.given)).map_err(|_| outside())?
        } else {
            asked
        };
        let parts = normal_parts(relative).ok_or_else(outside)?;
        let mut existing = self.root.clone();
        existing.extend(parts);
        let missing = self.split_off_missing(&mut existing, path)?;
        // A dangling link exists but has no real path: a write through it would create a file at an unchecked location.
        let mut real = existing.canonicalize().map_err(|_| outside())?;
        if !real.starts_with(&self.root) {
            return Err(outside());
        }
        real.extend(missing);
        Ok(real)
    }

    /// Shortens `existing` to its deepest part that exists and returns the removed names, in order.
    fn split_off_missing(&self, existing: &mut PathBuf, asked: &str) -> Result<Vec<OsString>, WorkspaceError> {
        let mut missing = Vec::new();
        while *existing != self.root {
            match existing.symlink_metadata() {
                Ok(_) => break,
                Err(error) if is_missing(&error) => {
                    if let Some(name) = existing.file_name() {
                        missing.push(name.to_owned());
                    }
                    existing.pop();
                }
                Err(source) => {
                    return Err(WorkspaceError::Io { path: asked.to_owned(), source });
                }
            }
        }
        missing.reverse();
        Ok(missing)
    }
}

/// Returns the names in `path` with `.` and `..` resolved; `None` if `path` is absolute or `..` leads above its start.
fn normal_parts(path: &Path) -> Option<Vec<&OsStr>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

/// Returns whether the path is missing. A path below a file counts as missing too: the tool then reports the error.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        fs::create_dir(directory.path().join("secret")).unwrap();
        let workspace = Workspace::open(&directory.path().join("work")).unwrap();
        (directory, workspace)
    }

    #[test]
    fn paths_inside_are_resolved_whether_they_exist_or_not() {
        let (_directory, workspace) = workspace();
        fs::create_dir(workspace.root().join("src")).unwrap();
        let root = workspace.root().to_path_buf();
        let absolute = root.join("src/a.rs").display().to_string();
        for (asked, expected) in [
            (".", root.clone()),
            ("src", root.join("src")),
            ("src/../b", root.join("b")),
            ("./src/new/deep.rs", root.join("src/new/deep.rs")),
            (absolute.as_str(), root.join("src/a.rs")),
        ] {
            assert_eq!(workspace.resolve(asked).unwrap(), expected, "{asked}");
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let (_directory, workspace) = workspace();
        let sneaky = format!("{}/../secret/x", workspace.root().display());
        for asked in ["..", "../secret", "a/../../secret", "/etc/passwd", "/", sneaky.as_str()] {
            assert!(matches!(workspace.resolve(asked), Err(WorkspaceError::Outside(_))), "{asked}");
        }
        assert!(matches!(workspace.resolve(""), Err(WorkspaceError::Invalid(_))));
        assert!(matches!(workspace.resolve("a\0b"), Err(WorkspaceError::Invalid(_))));
    }

    #[test]
    fn symbolic_links_that_lead_out_are_refused() {
        let (directory, workspace) = workspace();
        symlink(directory.path().join("secret"), workspace.root().join("out")).unwrap();
        symlink(directory.path().join("nowhere"), workspace.root().join("dangling")).unwrap();
        for asked in ["out", "out/x", "out/new/x", "dangling"] {
            assert!(matches!(workspace.resolve(asked), Err(WorkspaceError::Outside(_))), "{asked}");
        }
    }

    #[test]
    fn symbolic_links_that_stay_inside_are_followed() {
        let (_directory, workspace) = workspace();
        fs::create_dir(workspace.root().join("real")).unwrap();
        symlink("real", workspace.root().join("link")).unwrap();
        assert_eq!(workspace.resolve("link/x").unwrap(), workspace.root().join("real/x"));
    }

    #[test]
    fn a_working_directory_must_be_absolute_and_exist() {
        let (directory, _workspace) = workspace();
        assert!(Workspace::open(Path::new("work")).is_err());
        assert!(Workspace::open(&directory.path().join("none")).is_err());
    }
}
