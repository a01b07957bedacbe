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

use journeyman_core::left_out::LeftOutReason;

use super::with_base;
use crate::fixtures::Fixture;

/// The folders and the names that files are made of.
const FOLDERS: [&[u8]; 5] = [b"", b"src/", b"src/deep er/", b"ignored/", b"caf\xe9/"];
const NAMES: [&[u8]; 8] = [b"a", b"b.txt", b"c.log", b"-d", b"e\nf", b":(top)g", b"\"h\" *", b"i\xff.txt"];

/// A repository before its turns, with files that were committed before the attributes existed.
struct Base {
    attributes: &'static str,
    conversion: Conversion,
    rules: &'static [(&'static str, &'static str)],
    is_ignored: fn(&Path) -> bool,
}

/// How git converts the line endings of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    None,
    /// `*.txt` is text.
    Text,
    /// `*.txt` is text, and has CRLF in the tree.
    Crlf,
    /// Git finds out what is text, and keeps CRLF that is in the index.
    Auto,
}

const BASES: [Base; 4] = [
    Base {
        attributes: "*.txt text",
        conversion: Conversion::Text,
        rules: &[(".gitignore", "*.log\\nignored/\\n")],
        is_ignored: is_log_or_below_ignored,
    },
    Base {
        attributes: "* text=auto",
        conversion: Conversion::Auto,
        rules: &[(".gitignore", "*.log\\nignored/*\\n!ignored/0a\\n"), ("src/.gitignore", "!*.log\\n")],
        is_ignored: |path| {
            let is_log = path.as_os_str().as_bytes().ends_with(b".log") && !path.starts_with("src");
            is_log || (path.starts_with("ignored") && path != Path::new("ignored") && path != Path::new("ignored/0a"))
        },
    },
    Base {
        attributes: "*.txt text eol=crlf",
        conversion: Conversion::Crlf,
        rules: &[(".gitignore", "*.log\\nignored/\\n")],
        is_ignored: is_log_or_below_ignored,
    },
    Base { attributes: "", conversion: Conversion::None, rules: &[], is_ignored: |_| false },
];

fn is_log_or_below_ignored(path: &Path) -> bool {
    let is_below = path.starts_with("ignored") && path != Path::new("ignored");
    is_below || path.as_os_str().as_bytes().ends_with(b".log")
}

impl Base {
    fn script(&self) -> String {
        let mut script = "echo one > a; printf 'x\\r\\n' > 0b.txt; printf 'y\\r\\nz\\n' > 1b.txt; mkdir src ignored; \
                          printf 'q\\r\\n' > src/2b.txt; echo 1 | tee src/1a > ignored/0a; echo 1 > 1c.log"
            .to_owned();
        for (path, rules) in self.rules {
            script += &format!("; printf '{rules}' > {path}");
        }
        script += "; git add --all --force; git commit -qm before; echo end > end";
        if !self.attributes.is_empty() {
            script += &format!("; echo '{}' > .gitattributes", self.attributes);
        }
        script
    }

    fn converts(&self, path: &Path) -> bool {
        match self.conversion {
            Conversion::None => false,
            Conversion::Text | Conversion::Crlf => path.as_os_str().as_bytes().ends_with(b".txt"),
            Conversion::Auto => true,
        }
    }

    /// Returns a content as git stores it, if the index has `indexed` for the path.
    fn stored(&self, path: &Path, content: &Content, indexed: Option<&Content>) -> Content {
        let has_crlf = |bytes: &[u8]| bytes.windows(2).any(|pair| pair == b"\r\n");
        match content {
            Content::File { bytes, executable } if self.converts(path) => {
                let is_kept = self.conversion == Conversion::Auto
                    && matches!(indexed, Some(Content::File { bytes, .. }) if has_crlf(bytes));
                let bytes = if is_kept { bytes.clone() } else { replaced(bytes, b"\r\n", b"\n") };
                Content::File { bytes, executable: *executable }
            }
            other => other.clone(),
        }
    }

    /// Returns a stored content as a checkout writes it.
    fn checked_out(&self, path: &Path, content: &Content) -> Content {
        match content {
            Content::File { bytes, executable } if self.conversion == Conversion::Crlf && self.converts(path) => {
                let bytes = replaced(&replaced(bytes, b"\r\n", b"\n"), b"\n", b"\r\n");
                Content::File { bytes, executable: *executable }
            }
            other => other.clone(),
        }
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, cut) = if rest.starts_with(from) { (to, from.len()) } else { (&rest[..1], 1) };
        found.extend_from_slice(piece);
        rest = &rest[cut..];
    }
    found
}

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
    /// Files that were moved, and those that they were moved from.
    moved: BTreeSet<PathBuf>,
    /// True if the sparse patterns of the agent have only the folder `src` and the files at the top.
    is_sparse: bool,
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
        let is_rule = |path: &PathBuf| path.ends_with(".gitattributes") || path.ends_with(".gitignore");
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
        let action = self.pick(24);
        let old = self.existing();
        match (action, old) {
            (0..=3, _) => {
                let (path, bytes) = (self.new_path(), self.content());
                self.log.push(format!("write {path:?}"));
                if !self.make_parent(&path) {
                    return;
                }
                if fs::symlink_metadata(root.join(&path)).is_ok_and(|found| found.is_symlink()) {
                    fs::remove_file(root.join(&path)).unwrap();
                }
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
                if !to.starts_with(&path) && self.make_parent(&to) && fs::symlink_metadata(root.join(&path)).is_ok() {
                    fs::rename(root.join(&path), root.join(&to)).unwrap();
                    self.moved.insert(to);
                }
            }
            (8, _) => {
                let path = self.new_path();
                self.log.push(format!("link {path:?}"));
                if !self.make_parent(&path) {
                    return;
                }
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
                let force = ["--force", "--no-force"][self.pick(2)];
                self.git(&["--literal-pathspecs", "add", force, "--", &OsPath(&path).quoted()]);
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
            (16, Some(path)) => {
                let to = self.new_path();
                if self.make_parent(&to) {
                    self.git(&["mv", "--force", "--", &OsPath(&path).quoted(), &OsPath(&to).quoted()]);
                    self.moved.insert(to);
                }
            }
            (17, Some(path)) => {
                self.git(&["--literal-pathspecs", "rm", "-q", "--cached", "--", &OsPath(&path).quoted()]);
            }
            (18, Some(path)) => self.git(&["--literal-pathspecs", "checkout", "-q", "--", &OsPath(&path).quoted()]),
            (19, _) => {
                let amend = ["--amend", "--allow-empty"][self.pick(2)];
                self.git(&["commit", "-q", amend, "-m", "own"]);
            }
            (20, _) => {
                self.git(&["checkout", "-q", "-b", "side"]);
                self.git(&["commit", "-q", "-a", "--allow-empty", "-m", "side"]);
                self.git(&["checkout", "-q", "-"]);
                self.git(&["merge", "-q", "--no-ff", "-m", "merged", "side"]);
                self.git(&["branch", "-q", "-D", "side"]);
            }
            (21, _) => {
                // A file or a link takes the place of a folder.
                let path = PathBuf::from(OsStr::from_bytes(FOLDERS[1 + self.pick(4)].strip_suffix(b"/").unwrap()));
                self.log.push(format!("replace the folder {path:?}"));
                if path.components().count() == 1 && fs::remove_dir_all(root.join(&path)).is_ok() {
                    let bytes = self.content();
                    match self.pick(2) {
                        0 => fs::write(root.join(&path), bytes).unwrap(),
                        _ => symlink("a", root.join(&path)).unwrap(),
                    }
                }
            }
            (22, _) if !self.is_sparse && self.marked.is_empty() && self.pick(3) == 0 => {
                self.git(&["sparse-checkout", "set", "--cone", "src"]);
                self.is_sparse = true;
            }
            // Only once, because a mark keeps git from other operations on the file.
            (15, Some(path)) if self.marked.is_empty() && self.is_tracked(&path) => {
                let name = OsPath(&path).quoted();
                self.git(&["--literal-pathspecs", "update-index", "--skip-worktree", "--", &name]);
                self.marked.insert(path);
            }
            _ => {}
        }
    }

    /// Creates the folder of a path, in place of a file or a link. Returns false if the path is a folder.
    fn make_parent(&self, path: &Path) -> bool {
        let root = self.root();
        for part in path.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()) {
            if fs::symlink_metadata(root.join(part)).is_ok_and(|found| !found.is_dir()) {
                fs::remove_file(root.join(part)).unwrap();
            }
        }
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        !fs::symlink_metadata(root.join(path)).is_ok_and(|found| found.is_dir())
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

    /// Returns the files in the agent's index.
    fn tracked(&self) -> BTreeSet<PathBuf> {
        let output = self.output(&["ls-files", "-z"]);
        let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
    }

    /// Returns the files that the agent's index marks as local.
    fn all_marked(&self) -> BTreeSet<PathBuf> {
        let output = self.output(&["ls-files", "-v", "-z"]);
        let marked = output.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"S "));
        marked.map(|entry| PathBuf::from(OsStr::from_bytes(&entry[2..]))).collect()
    }

    /// Returns whether the agent's newest commit follows this one.
    fn follows(&self, commit: &str) -> bool {
        let commits = self.output(&["rev-list", "HEAD"]);
        String::from_utf8(commits).unwrap().lines().any(|line| line == commit)
    }

    fn output(&self, arguments: &[&str]) -> Vec<u8> {
        let mut git = std::process::Command::new("git");
        let output = git.args(arguments).current_dir(self.root()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
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

/// Checks the turns of these seeds, in each of the repositories in turn.
async fn check_all(seeds: Range<u64>) {
    for (number, base) in BASES.iter().enumerate() {
        let (fixture, _) = with_base(&base.script()).await;
        for seed in seeds.clone().filter(|seed| *seed % BASES.len() as u64 == number as u64) {
            check(&fixture, base, seed).await;
        }
    }
}

async fn check(fixture: &Fixture, base: &Base, seed: u64) {
    let before = fixture.build().await;
    let first = committed(fixture, before.head.as_str());
    let old = read(&fixture.sandbox.workspace.tree);
    let mut agent = Agent {
        fixture,
        rng: StdRng::seed_from_u64(seed),
        log: Vec::new(),
        marked: BTreeSet::new(),
        inside: BTreeSet::new(),
        moved: BTreeSet::new(),
        is_sparse: false,
    };
    for _ in 0..=agent.pick(10) {
        agent.act();
    }
    let new = read(&fixture.sandbox.workspace.tree);
    let tracked = agent.tracked();
    agent.marked = agent.all_marked();
    // Rewritten history is replaced by one commit.
    let follows = agent.follows(before.head.as_str());
    let own = committed(fixture, if follows { "HEAD" } else { before.head.as_str() });
    let collected =
        fixture.collect(&before).await.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", agent.log.join("\n")));

    let model = Model { base, agent: &agent, old: &old, new: &new, first: &first, own: &own, tracked: &tracked };
    let (expected, told) = model.expected();
    let log = agent.log.join("\n");
    let found = committed(fixture, collected.head.as_str());
    let paths: BTreeSet<&PathBuf> = expected.keys().chain(found.keys()).collect();
    for path in paths {
        let (found, expected) = (found.get(path), expected.get(path));
        let is_expected = match found {
            Some(found) => expected.is_some_and(|all| all.contains(found)),
            // A commit that did not change the tree stays.
            None => old.get(path) == new.get(path) && first.contains_key(path) && !own.contains_key(path),
        };
        assert!(is_expected, "seed {seed}, {path:?}: published {found:?}, expected {expected:?}:\n{log}");
    }
    // The model has files, and no refs.
    let of_files = collected.left_out.iter().filter(|one| !one.reason.is_about_commits());
    let left_out: BTreeSet<String> = of_files.map(|one| one.path.clone()).collect();
    let rewritten = collected.replaced.as_ref().is_some_and(|one| one.reason == LeftOutReason::RewrittenHistory);
    assert_eq!(rewritten, !follows, "seed {seed}, told of rewritten history:\n{log}");
    let told: BTreeSet<String> =
        told.iter().map(|path| journeyman_core::left_out::path_text(path.as_os_str().as_bytes())).collect();
    assert_eq!(left_out, told, "seed {seed}, told:\n{log}");
    let next = fixture.next(&before, collected);
    let again = fixture.collect(&next).await.unwrap();
    assert_eq!(again.head, next.head, "seed {seed}: a second turn publishes something:\n{log}");
}

/// What a turn should publish.
struct Model<'a> {
    base: &'a Base,
    agent: &'a Agent<'a>,
    /// The tree before the turn, and after it.
    old: &'a Tree,
    new: &'a Tree,
    /// The files of the first commit, and of the agent's newest one.
    first: &'a Tree,
    own: &'a Tree,
    /// The files in the agent's index.
    tracked: &'a BTreeSet<PathBuf>,
}

impl Model<'_> {
    /// Returns the contents that each published file may have, and the paths that are left out.
    fn expected(&self) -> (BTreeMap<PathBuf, Vec<Content>>, BTreeSet<PathBuf>) {
        let (mut expected, mut told) = (BTreeMap::new(), BTreeSet::new());
        let paths: BTreeSet<&PathBuf> = self.old.keys().chain(self.new.keys()).chain(self.own.keys()).collect();
        for path in paths {
            let (was, is, own) = (self.old.get(path), self.new.get(path), self.own.get(path));
            let keep = |content: Option<&Content>| content.map(|content| (path.clone(), vec![content.clone()]));
            if let Some(folder) = path.ancestors().find(|part| self.agent.inside.contains(*part)) {
                if was != is {
                    told.insert(folder.to_owned());
                }
                expected.extend(keep(own));
            } else if self.agent.marked.contains(path) && own.is_some() {
                let is_same = own.is_some_and(|own| Some(&self.base.checked_out(path, own)) == is);
                if was != is && is.is_some() && !is_same {
                    told.insert(path.clone());
                }
                expected.extend(keep(own));
            } else if let Some(is) = is {
                if self.is_ignored(path) && !self.tracked.contains(path) {
                    continue;
                }
                expected.insert(path.clone(), self.contents(path, was, is, own));
            } else if self.is_outside(path) {
                expected.extend(keep(own));
            }
        }
        // A tree that has a file in the place of a folder does not have the files of the folder.
        let is_published = |path: &Path| self.new.contains_key(path) && expected.contains_key(path);
        let is_replaced = |path: &PathBuf| {
            let mut files = self.new.keys().filter(|file| is_published(file));
            path.ancestors().skip(1).any(is_published) || files.any(|file| file != path && file.starts_with(path))
        };
        let replaced: Vec<PathBuf> = expected.keys().filter(|path| is_replaced(path)).cloned().collect();
        expected.retain(|path, _| !replaced.contains(path));
        (expected, told)
    }

    /// Returns the contents that a file of the tree may have when it is published.
    fn contents(&self, path: &Path, was: Option<&Content>, is: &Content, own: Option<&Content>) -> Vec<Content> {
        let with_mode = |content: &Content| match (content, is) {
            (Content::File { bytes, .. }, Content::File { executable, .. }) => {
                Content::File { bytes: bytes.clone(), executable: *executable }
            }
            (content, _) => content.clone(),
        };
        let mut contents = vec![self.base.stored(path, is, own)];
        if let Some(own) = own {
            if self.base.checked_out(path, &with_mode(own)) == *is {
                return vec![with_mode(own)];
            }
            // A commit that did not change the tree stays.
            if Some(is) == was && self.first.get(path) != Some(own) {
                contents.push(own.clone());
            }
            return contents;
        }
        let is_kept = |path: &PathBuf| self.agent.marked.contains(path) || self.is_outside(path);
        let removed = self.own.iter().filter(|(path, _)| !self.new.contains_key(*path) && !is_kept(path));
        let same: Vec<Content> = removed
            .filter(|(old, content)| {
                let content = with_mode(content);
                [*old, path].iter().all(|path| self.base.checked_out(path, &content) == *is)
            })
            .map(|(_, content)| with_mode(content))
            .collect();
        if same.is_empty() && self.base.conversion == Conversion::Auto && self.agent.moved.contains(path) {
            contents.push(is.clone());
        }
        if same.is_empty() { contents } else { same }
    }

    /// Returns whether git ignores a file that it does not track.
    fn is_ignored(&self, path: &Path) -> bool {
        let has_rules = self.base.rules.iter().all(|(rules, _)| self.new.contains_key(Path::new(rules)));
        (self.base.is_ignored)(path)
            // The rules of a folder that was replaced are gone.
            || (!has_rules && path.as_os_str().as_bytes().ends_with(b".log"))
    }

    /// Returns whether a file that is not in the tree is outside of the agent's sparse patterns.
    fn is_outside(&self, path: &Path) -> bool {
        self.agent.is_sparse && path.components().count() > 1 && !path.starts_with("src")
    }
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
