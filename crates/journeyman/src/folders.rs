//! Folders of the service.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::Context;

/// Creates a folder that only this user can access, unless it exists. Missing parents get the default mode, because the
/// users of sandboxes must be able to pass them.
pub(crate) fn make_private_dir(dir: &Path) -> anyhow::Result<()> {
    let parents = dir.parent().map_or(Ok(()), std::fs::create_dir_all);
    let made = parents.and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(dir));
    made.with_context(|| format!("the folder {} cannot be created", dir.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_folder_does_not_make_its_parents_private() {
        let dir = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| path.metadata().expect("a folder").permissions().mode() & 0o777;
        let (parent, usual) = (dir.path().join("parent"), dir.path().join("usual"));
        std::fs::create_dir(&usual).expect("a folder");
        make_private_dir(&parent.join("data")).expect("a folder");
        assert_eq!((mode(&parent.join("data")), mode(&parent)), (0o700, mode(&usual)));
    }
}
