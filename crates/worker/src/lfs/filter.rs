//! The filters of Git LFS in the repository of the agent, so that its git shows, adds and restores files as with git-lfs,
//! which the sandbox need not have. They run only in the sandbox. Objects are in `.git/lfs/objects`, as those of git-lfs.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Replaces content by its pointer, and keeps the content if the index has another pointer.
const CLEAN: &str = include_str!("filter/clean.sh");

/// Replaces a pointer by its content, if the repository has it.
const SMUDGE: &str = include_str!("filter/smudge.sh");

/// Adds the filters to the configuration of a tree in which only the service has run programs.
///
/// # Errors
/// The disk failed.
pub(super) fn configure(tree: &File) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    File::from(openat2(tree, ".git/config", flags, Mode::empty(), within)?).write_all(text().as_bytes())
}

/// Returns the filters as a part of a configuration of git.
pub(crate) fn text() -> String {
    format!("[filter \"lfs\"]\n\tclean = {}\n\tsmudge = {}\n", quoted(CLEAN), quoted(SMUDGE))
}

/// Returns a value of git-config(1) in quotes.
fn quoted(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{value}\"")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use journeyman_core::lfs::{Hasher, Pointer};

    use super::*;
    use crate::workspace::beneath::open_folder;

    fn git(tree: &Path, arguments: &[&str]) -> Vec<u8> {
        let mut git = Command::new("git");
        let git = git.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(arguments);
        let output = git.current_dir(tree).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn pointer(content: &[u8]) -> Pointer {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.pointer()
    }

    fn object(tree: &Path, pointer: &Pointer) -> Option<Vec<u8>> {
        let path = format!(".git/lfs/objects/{}/{}/{}", &pointer.oid[..2], &pointer.oid[2..4], pointer.oid);
        std::fs::read(tree.join(path)).ok()
    }

    #[test]
    fn git_of_the_agent_adds_pointers_and_restores_content() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        git(tree, &["init", "--quiet"]);
        configure(&open_folder(tree).unwrap()).unwrap();
        std::fs::write(tree.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
        let (old, new) = (b"old \0\xff\n\n".as_slice(), b"new\n\n".as_slice());
        std::fs::create_dir(tree.join("a")).unwrap();
        let name = "a/it's a $HOME \"x\".bin";
        std::fs::write(tree.join(name), old).unwrap();
        std::fs::write(tree.join("empty.bin"), "").unwrap();
        git(tree, &["add", "--all"]);
        git(tree, &["commit", "--quiet", "--message", "x"]);
        let blob = |revision: &str| git(tree, &["cat-file", "blob", &format!("{revision}:{name}")]);
        assert_eq!(blob("HEAD"), pointer(old).text().into_bytes());
        assert_eq!(git(tree, &["cat-file", "blob", "HEAD:empty.bin"]), b"");
        assert_eq!(object(tree, &pointer(old)).unwrap(), old);
        // What the index has is not stored again.
        std::fs::remove_dir_all(tree.join(".git/lfs")).unwrap();
        std::fs::write(tree.join(name), old).unwrap();
        assert_eq!(git(tree, &["status", "--porcelain"]), b"");
        assert_eq!(object(tree, &pointer(old)), None);
        std::fs::write(tree.join(name), new).unwrap();
        git(tree, &["stash", "--quiet"]);
        assert_eq!(std::fs::read(tree.join(name)).unwrap(), pointer(old).text().into_bytes(), "there is no content");
        git(tree, &["stash", "pop", "--quiet"]);
        assert_eq!(std::fs::read(tree.join(name)).unwrap(), new);
        git(tree, &["commit", "--quiet", "--all", "--message", "y"]);
        assert_eq!(blob("HEAD"), pointer(new).text().into_bytes());
        let left = std::fs::read_dir(tree.join(".git")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("lfs-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
