//! The agent's own ignore rules, in addition to the `.gitignore` files of the tree: those of its repository, and those of
//! its user, as git finds them (gitignore(5)); and whether its git converts line endings.
//!
//! They are read as data: git reads only the text of the configuration, and follows no include.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use journeyman_git::Git;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::error::RunError;
use crate::sandbox::job_sandbox::JobSandbox;

/// The maximum size of a file of rules or of a configuration, in bytes. Larger ones are cut.
const MAX_BYTES: u64 = 1 << 20;

/// The setting that names the user's file, and the one that makes git convert line endings.
const EXCLUDES: &str = "core.excludesFile";
const AUTOCRLF: &str = "core.autocrlf";

/// The bytes at the start of a text that say that it is UTF-8. Git skips them in files of rules.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the agent has configured for its git, and the committer follows.
#[derive(Debug, Default)]
pub(crate) struct AgentSettings {
    /// The ignore rules as the content of one file, in which later rules prevail as they do in git.
    pub(crate) ignore_rules: Vec<u8>,
    /// How git converts line endings.
    pub(crate) line_endings: LineEndings,
}

/// How git converts the line endings of text that `.gitattributes` says nothing about (`core.autocrlf`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LineEndings {
    /// It does not convert them.
    #[default]
    Kept,
    /// CRLF becomes LF when a file is committed (`input`).
    Committed,
    /// A checkout also writes CRLF (`true`).
    Both,
}

impl LineEndings {
    /// Reads the value of the setting.
    fn parse(value: &[u8]) -> Self {
        match value.to_ascii_lowercase().as_slice() {
            b"input" => Self::Committed,
            b"" | b"true" | b"yes" | b"on" | b"1" => Self::Both,
            _ => Self::Kept,
        }
    }

    /// Returns the value of the setting.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Kept => "false",
            Self::Committed => "input",
            Self::Both => "true",
        }
    }
}

/// The folders of a job on this machine, and their paths in the sandbox.
struct Folders {
    tree: PathBuf,
    home: PathBuf,
    tree_inside: PathBuf,
    home_inside: PathBuf,
}

/// Returns what the agent has configured.
///
/// # Errors
/// Git failed.
pub(crate) async fn agent_settings(sandbox: &JobSandbox, git: &Git) -> Result<AgentSettings, RunError> {
    let inside = sandbox.layout();
    let folders = Folders {
        tree: sandbox.workspace.tree.clone(),
        home: sandbox.workspace.home.clone(),
        tree_inside: inside.workspace,
        home_inside: inside.home,
    };
    let configurations = move || {
        // From the lowest priority to the highest; the last that has the setting decides.
        let files = [
            (&folders.home, ".config/git/config"),
            (&folders.home, ".gitconfig"),
            (&folders.tree, ".git/config"),
            (&folders.tree, ".git/config.worktree"),
        ];
        let texts: Vec<Vec<u8>> = files.into_iter().map(|(root, path)| read(root, Path::new(path))).collect();
        (folders, texts)
    };
    let (folders, texts) = tokio::task::spawn_blocking(configurations).await.map_err(io::Error::other)?;
    let named = setting(git, &texts, EXCLUDES).await.map(|path| PathBuf::from(OsStr::from_bytes(&path)));
    let line_endings = setting(git, &texts, AUTOCRLF).await.map(|value| LineEndings::parse(&value)).unwrap_or_default();
    let rules = move || {
        let mut rules = match named {
            Some(path) => folders.find(&path).map(|(root, path)| read(root, path)).unwrap_or_default(),
            None => read(&folders.home, Path::new(".config/git/ignore")),
        };
        rules.push(b'\n');
        let of_repository = read(&folders.tree, Path::new(".git/info/exclude"));
        rules.extend(of_repository.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&of_repository));
        if rules.iter().all(u8::is_ascii_whitespace) { Vec::new() } else { rules }
    };
    let ignore_rules = tokio::task::spawn_blocking(rules).await.map_err(io::Error::other)?;
    Ok(AgentSettings { ignore_rules, line_endings })
}

/// Returns the value of a setting in the last of the texts that has it.
async fn setting(git: &Git, texts: &[Vec<u8>], name: &str) -> Option<Vec<u8>> {
    for text in texts.iter().rev().filter(|text| names_setting(text, name)) {
        let command = ["config", "--file", "-", "--no-includes", "--get", name];
        // A text that git cannot parse sets nothing: the agent's git does not work with it.
        if let Ok(output) = git.command(command).stdin(text.clone()).run().await {
            return Some(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout).to_vec());
        }
    }
    None
}

impl Folders {
    /// Returns the folder of the job that a path of the agent's configuration is in, and the path in it.
    fn find<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'a Path)> {
        if let Ok(path) = path.strip_prefix("~") {
            return Some((&self.home, path));
        }
        let roots = [(&self.home_inside, &self.home), (&self.tree_inside, &self.tree)];
        roots.into_iter().find_map(|(inside, root)| Some((root.as_path(), path.strip_prefix(inside).ok()?)))
    }
}

/// Returns whether a configuration may have the setting, whose name has any case.
fn names_setting(text: &[u8], setting: &str) -> bool {
    let name = setting.rsplit('.').next().unwrap_or_default().as_bytes();
    text.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
}

/// Returns the content of a regular file in a folder that programs may write to; empty if there is none. Links that stay
/// in the folder are followed.
fn read(root: &Path, path: &Path) -> Vec<u8> {
    let open = || -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())?;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat2(root, path, flags, Mode::empty(), within)?);
        let mut text = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MAX_BYTES).read_to_end(&mut text)?;
        }
        Ok(text)
    };
    open().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_sandbox_are_found_on_this_machine() {
        let folders = Folders {
            tree: "/data/tree".into(),
            home: "/data/home".into(),
            tree_inside: "/workspace".into(),
            home_inside: "/home/agent".into(),
        };
        for (path, root, rest) in
            [("~/x", "/data/home", "x"), ("/home/agent/a/b", "/data/home", "a/b"), ("/workspace/i", "/data/tree", "i")]
        {
            assert_eq!(folders.find(Path::new(path)), Some((Path::new(root), Path::new(rest))));
        }
        assert_eq!(folders.find(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn only_regular_files_of_the_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(folder.path().join("outside"), "x").unwrap();
        std::fs::write(root.join("rules"), "a\n").unwrap();
        std::os::unix::fs::symlink("rules", root.join("inside")).unwrap();
        std::os::unix::fs::symlink("../outside", root.join("out")).unwrap();
        let found = ["rules", "inside", "out", "../outside", "none", "."].map(|name| read(&root, Path::new(name)));
        assert_eq!(found, [&b"a\n"[..], b"a\n", b"", b"", b"", b""]);
    }

    #[test]
    fn the_name_of_the_setting_has_any_case() {
        assert!(names_setting(b"[core]\n\tEXCLUDESfile = x\n", EXCLUDES));
        assert!(!names_setting(b"[core]\n\tbare = false\n", EXCLUDES));
    }

    #[test]
    fn line_endings_have_the_values_of_git() {
        for (value, expected, setting) in [
            ("input", LineEndings::Committed, "input"),
            ("", LineEndings::Both, "true"),
            ("TRUE", LineEndings::Both, "true"),
            ("off", LineEndings::Kept, "false"),
        ] {
            let found = LineEndings::parse(value.as_bytes());
            assert_eq!((found, found.setting()), (expected, setting));
        }
    }
}
