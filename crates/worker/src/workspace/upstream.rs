//! The branch that a job's work is merged into, in the agent's repository: `origin/<branch>`, as it was when the turn
//! began. The agent can compare with it and merge it; its objects are in the mirror.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use journeyman_core::ids::Sha;

use super::Workspace;
use super::beneath::{open_beneath, open_folder, write_beneath};
use super::owner::as_owner;

/// The folder of the refs, as `git clone` names them.
const FOLDER: &str = ".git/refs/remotes/origin";

/// The maximum length of a ref that is read, in bytes: that of a SHA-256 hash, with a line break.
const REF_BYTES: u64 = 65;

impl Workspace {
    /// Sets `origin/<branch>` of the agent's repository to `commit`, with the rights of its owner.
    ///
    /// # Errors
    /// The agent has put something else in its place.
    pub(crate) async fn set_upstream(&self, branch: &str, commit: &Sha) -> io::Result<()> {
        let (tree, path, text) = (self.tree.clone(), Path::new(FOLDER).join(branch), format!("{commit}\n"));
        tokio::task::spawn_blocking(move || set(&tree, &path, &text)).await.map_err(io::Error::other)?
    }
}

fn set(tree: &Path, path: &Path, text: &str) -> io::Result<()> {
    let tree = open_folder(tree)?;
    as_owner(&tree, || set_beneath(&tree, path, text))
}

fn set_beneath(tree: &File, path: &Path, text: &str) -> io::Result<()> {
    let mut current = String::new();
    if let Ok(file) = open_beneath(tree, path)
        && file.metadata()?.is_file()
        && file.take(REF_BYTES).read_to_string(&mut current).is_ok()
        && current == text
    {
        return Ok(());
    }
    write_beneath(tree, path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn the_ref_is_written_once_and_never_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, elsewhere) = (dir.path().join("tree"), dir.path().join("elsewhere"));
        fs::create_dir_all(tree.join(".git")).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        let path = Path::new(".git/refs/remotes/origin/release/v1");
        set(&tree, path, "a\n").unwrap();
        let written = fs::metadata(tree.join(path)).unwrap().ino();
        set(&tree, path, "a\n").unwrap();
        assert_eq!(fs::metadata(tree.join(path)).unwrap().ino(), written, "it had this value");
        fs::write(tree.join(".git/refs/remotes/origin/release/v1.lock"), "").unwrap();
        set(&tree, path, "b\n").expect("a lock that was left behind is removed");
        assert_eq!(fs::read_to_string(tree.join(path)).unwrap(), "b\n");
        fs::remove_dir_all(tree.join(".git/refs/remotes")).unwrap();
        symlink(&elsewhere, tree.join(".git/refs/remotes")).unwrap();
        assert!(set(&tree, path, "c\n").is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
