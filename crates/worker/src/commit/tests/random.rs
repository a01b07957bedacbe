//! Random trees and random changes: what is published is compared with a slow model that reads all bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::with_base;
use crate::given::Fixture;

/// The folders and the names that files are made of. Those with `.log`, and those in `ignored`, are ignored; those with
/// `.txt` are text, whose line endings git converts.
const FOLDERS: [&[u8]; 5] = [b"", b"src/", b"src/deep er/", b"ignored/", b"caf\xe9/"];
const NAMES: [&[u8]; 8] = [b"a", b"b.txt", b"c.log", b"-d", b"e\nf", b":(top)g", b"\"h\" *", b"i\xff.txt"];

/// The kind and the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

type Tree = BTreeMap<PathBuf, Content>;

/// Reads all files of a tree except those of git directories.
fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut next = vec![PathBuf::new()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (folder.join(entry.file_name()), entry.file_type().unwrap());
            if entry.file_name() == ".git" {
                continue;
            }
            if kind.is_dir() {
                next.push(path);
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                tree.insert(path, Content::Link(target));
            } else {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let bytes = fs::read(entry.path()).unwrap();
                tree.insert(path, Content::File { bytes, executable });
            }
        }
    }
    tree
}

/// A tree that is changed at random.
struct Agent<'a> {
    fixture: &'a Fixture,
    rng: StdRng,
    /// The log of the actions, for failures.
    log: Vec<String>,
    /// Paths that the agent has marked as local.
    marked: BTreeSet<PathBuf>,
    /// Folders that are repositories.
    inside: BTreeSet<PathBuf>,
}

impl Agent<'_> {
    fn pick(&mut self, below: usize) -> usize {
        self.rng.random_range(0..below)
    }

    fn root(&self) -> PathBuf {
        self.fixture.sandbox.workspace.tree.clone()
    }

    fn new_path(&mut self) -> PathBuf {
        let (folder, name) = (FOLDERS[self.pick(FOLDERS.len())], NAMES[self.pick(NAMES.len())]);
        let number = self.pick(3).to_string();
        PathBuf::from(OsStr::from_bytes(&[folder, number.as_bytes(), name].concat()))
    }

    fn existing(&mut self) -> Option<PathBuf> {
        // The model does not know other rules.
        let is_rule = |path: &PathBuf| path.starts_with(".gitattributes") || path.starts_with(".gitignore");
        let all: Vec<PathBuf> = read(&self.root()).into_keys().filter(|path| !is_rule(path)).collect();
        (!all.is_empty()).then(|| all[self.pick(all.len())].clone())
    }

    fn content(&mut self) -> Vec<u8> {
        let ending: &[u8] = [&b"\n"[..], b"\r\n", b""][self.pick(3)];
        let mut bytes = Vec::new();
        for _ in 0..=self.pick(3) {
            bytes.extend(format!("line {}", self.rng.random::<u32>()).into_bytes());
            bytes.extend(ending);
        }
        bytes
    }

    fn act(&mut self) {
        let root = self.root();
        let action = self.pick(16);
        let old = self.existing();
        match (action, old) {
            (0..=3, _) => {
                let (path, bytes) = (self.new_path(), self.content());
                self.log.push(format!("write {path:?}"));
                if fs::symlink_metadata(root.join(&path)).is_ok_and(|found| found.is_symlink()) {
                    fs::remove_file(root.join(&path)).unwrap();
                }
                fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
                fs::write(root.join(&path), bytes).unwrap();
            }
            (4, Some(path)) => {
                self.log.push(format!("write the same to {path:?}"));
                if let Ok(bytes) = fs::read(root.join(&path)) {
                    fs::write(root.join(&path), bytes).unwrap();
                }
            }
            (5, Some(path)) => {
                let mode = [0o644, 0o755][self.pick(2)];
                self.log.push(format!("chmod {mode:o} {path:?}"));
                if !root.join(&path).is_symlink() {
                    fs::set_permissions(root.join(&path), PermissionsExt::from_mode(mode)).unwrap();
                }
            }
            (6, Some(path)) => {
                self.log.push(format!("remove {path:?}"));
                fs::remove_file(root.join(&path)).unwrap();
            }
            (7, Some(path)) => {
                let to = self.new_path();
                self.log.push(format!("rename {path:?} to {to:?}"));
                fs::create_dir_all(root.join(&to).parent().unwrap()).unwrap();
                fs::rename(root.join(&path), root.join(&to)).unwrap();
            }
            (8, _) => {
                let path = self.new_path();
                self.log.push(format!("link {path:?}"));
                fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
                let _ = fs::remove_file(root.join(&path));
                symlink(format!("target {}", self.rng.random::<u32>()), root.join(&path)).unwrap();
            }
            (9, _) => {
                let folder = PathBuf::from(format!("inside {}", self.pick(2)));
                self.log.push(format!("a repository {folder:?}"));
                fs::create_dir_all(root.join(&folder)).unwrap();
                fs::write(root.join(&folder).join("x"), self.content()).unwrap();
                self.git(&["init", "-q", folder.to_str().unwrap()]);
                self.inside.insert(folder);
            }
            (10, Some(path)) => {
                self.log.push(format!("git add {path:?}"));
                self.git(&["--literal-pathspecs", "add", "--", &OsPath(&path).quoted()]);
            }
            (11, _) => self.git(&["commit", "-q", "-m", "own"]),
            (12, _) => self.git(&["commit", "-q", "-a", "-m", "own"]),
            (13, _) => {
                self.git(&["stash", "-q"]);
                if self.pick(2) == 0 {
                    self.git(&["stash", "pop", "-q"]);
                }
            }
            (14, _) => self.git(&["reset", "-q"]),
            // Only once, because a mark keeps git from other operations on the file.
            (15, Some(path)) if self.marked.is_empty() && self.is_tracked(&path) => {
                let name = OsPath(&path).quoted();
                self.git(&["--literal-pathspecs", "update-index", "--skip-worktree", "--", &name]);
                self.marked.insert(path);
            }
            _ => {}
        }
    }

    /// Runs git in the tree. It may fail, for example if there is nothing to commit.
    fn git(&mut self, arguments: &[&str]) {
        let words: Vec<String> = arguments
            .iter()
            .map(|word| if word.starts_with('$') { (*word).to_owned() } else { format!("'{word}'") })
            .collect();
        self.log.push(format!("git {}", words.join(" ")));
        self.fixture.run(&format!("git {} >/dev/null 2>&1 || true", words.join(" ")));
    }

    fn is_tracked(&self, path: &Path) -> bool {
        committed(self.fixture, "HEAD").contains_key(path)
    }
}

/// A path as a word of a shell.
struct OsPath<'a>(&'a Path);

impl OsPath<'_> {
    fn quoted(&self) -> String {
        let octal: String = self.0.as_os_str().as_bytes().iter().map(|byte| format!("\\{byte:03o}")).collect();
        format!("$(printf '{octal}')")
    }
}

/// Returns the files of a commit of the agent's repository, with the content that git stores.
fn committed(fixture: &Fixture, commit: &str) -> Tree {
    let git = |script: &str| {
        let mut git = std::process::Command::new("sh");
        git.args(["-ec", script, "sh", commit]).current_dir(&fixture.sandbox.workspace.tree);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let listing = git("git ls-tree -r -z --full-tree $1");
    // An object is its header, its bytes, and a line break.
    let objects = git("git ls-tree -r --full-tree --object-only $1 | git cat-file --batch");
    let mut objects = objects.as_slice();
    let mut tree = Tree::new();
    for entry in listing.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let position = |bytes: &[u8], byte: u8| bytes.iter().position(|one| *one == byte).unwrap();
        let tab = position(entry, b'\t');
        let (header, rest) = objects.split_at(position(objects, b'\n'));
        let header = String::from_utf8(header.to_vec()).unwrap();
        if header.ends_with(" missing") {
            // The commit of a repository inside.
            objects = &rest[1..];
            continue;
        }
        let size: usize = header.split(' ').nth(2).unwrap().parse().unwrap();
        let bytes = rest[1..=size].to_vec();
        objects = &rest[size + 2..];
        let content = match &entry[..6] {
            b"120000" => Content::Link(PathBuf::from(OsStr::from_bytes(&bytes))),
            mode => Content::File { bytes, executable: mode == b"100755" },
        };
        tree.insert(PathBuf::from(OsStr::from_bytes(&entry[tab + 1..])), content);
    }
    tree
}

/// Returns a content as git stores it: the line endings of text become LF.
fn stored(path: &Path, content: &Content) -> Content {
    match content {
        Content::File { bytes, executable } if path.as_os_str().as_bytes().ends_with(b".txt") => {
            let mut bytes = bytes.clone();
            let mut at = 0;
            while at + 1 < bytes.len() {
                if &bytes[at..at + 2] == b"\r\n" {
                    bytes.remove(at);
                }
                at += 1;
            }
            Content::File { bytes, executable: *executable }
        }
        other => other.clone(),
    }
}

fn is_ignored(path: &Path) -> bool {
    path.starts_with("ignored") || path.as_os_str().as_bytes().ends_with(b".log")
}

/// The repository before each turn.
const BASE: &str = "printf '*.log\\nignored/\\n' > .gitignore; echo one > a; printf 'x\\r\\n' > 0b.txt; mkdir src; \
                    echo 1 > src/1a; git add .; git commit -qm before; echo '*.txt text' > .gitattributes";

/// Checks the turns of these seeds.
async fn check_all(seeds: Range<u64>) {
    let (fixture, _) = with_base(BASE).await;
    for seed in seeds {
        check(&fixture, seed).await;
    }
}

async fn check(fixture: &Fixture, seed: u64) {
    let before = fixture.build().await;
    let old = read(&fixture.sandbox.workspace.tree);
    let mut agent = Agent {
        fixture,
        rng: StdRng::seed_from_u64(seed),
        log: Vec::new(),
        marked: BTreeSet::new(),
        inside: BTreeSet::new(),
    };
    for _ in 0..=agent.pick(8) {
        agent.act();
    }
    let new = read(&fixture.sandbox.workspace.tree);
    let own = committed(fixture, "HEAD");
    let collected =
        fixture.collect(&before).await.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", agent.log.join("\n")));

    let mut expected = own.clone();
    let mut told = BTreeSet::new();
    for path in old.keys().chain(new.keys()) {
        let (was, is) = (old.get(path), new.get(path));
        if was == is {
            continue;
        }
        if let Some(folder) = path.ancestors().find(|part| agent.inside.contains(*part)) {
            told.insert(folder.to_owned());
        } else if agent.marked.contains(path) {
            told.extend(is.map(|_| path.clone()));
        } else if let Some(is) = is {
            if own.contains_key(path) || !is_ignored(path) {
                expected.insert(path.clone(), stored(path, is));
            }
        } else {
            expected.remove(path);
        }
    }
    let log = agent.log.join("\n");
    let found = committed(fixture, collected.head.as_str());
    assert_eq!(found, expected, "seed {seed}, published:\n{log}");
    let left_out: BTreeSet<String> = collected.left_out.iter().map(|one| one.path.clone()).collect();
    let told: BTreeSet<String> =
        told.iter().map(|path| journeyman_core::left_out::path_text(path.as_os_str().as_bytes())).collect();
    assert_eq!(left_out, told, "seed {seed}, told:\n{log}");
    let next = fixture.next(&before, collected);
    let again = fixture.collect(&next).await.unwrap();
    assert_eq!(again.head, next.head, "seed {seed}: a second turn publishes something:\n{log}");
}

#[tokio::test]
async fn a_hundred_random_turns_are_published_exactly() {
    check_all(0..100).await;
}

#[tokio::test]
async fn a_hundred_further_random_turns_are_published_exactly() {
    check_all(100..200).await;
}

/// Checks `SEEDS` random turns, beginning with the seed `SEED`; both come from the environment (see the Makefile).
#[tokio::test]
#[ignore = "runs any number of seeds: make exact SEEDS=10000 SEED=1"]
async fn random_turns() {
    #[expect(clippy::disallowed_methods, reason = "the parameters of the test")]
    let number = |name: &str, usual: u64| std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap());
    let first = number("SEED", 0);
    check_all(first..first + number("SEEDS", 1000)).await;
}
