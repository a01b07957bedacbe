use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use super::restore::WrittenFiles;
use super::*;
use crate::fixtures::fixture;
use crate::workspace::home_archive::{self, HomeLimits};
use crate::workspace::owner::{TEST_USER, give_to_test_user};

const HEAD: &str = "0123456789012345678901234567890123456789";

/// A tree, the tree that is built in its place, and what is between them.
struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["old", "new"] {
            fs::create_dir(case.path(folder)).unwrap();
        }
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Stores files and folders of the old tree; returns what is kept.
    fn save(&self, held_back: Vec<HeldBack>, limit: u64) -> io::Result<Option<Vec<String>>> {
        let end = Instant::now() + journeyman_testkit::PATIENCE;
        let saved = save::save(&self.path("old"), &self.path("archive"), &head(), held_back, limit, end)?;
        Ok(saved.map(|kept| kept.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()))
    }

    fn extract(&self) -> Extracted {
        let _ = fs::remove_dir_all(self.path("folder"));
        fs::create_dir(self.path("folder")).unwrap();
        extract::extract(&self.path("archive"), &self.path("folder"), LEFT_OUT_BYTES).unwrap()
    }

    /// Moves what was stored into the new tree, in which the branch has changed these files.
    fn restore(&self, extracted: &Extracted, changed: &[&str]) -> WrittenFiles {
        let changed = changed.iter().map(PathBuf::from).collect();
        let [from, tree] = ["folder", "new"].map(|name| open_folder(&self.path(name)).unwrap());
        restore::restore(&from, &tree, extracted, &changed, &HashSet::new()).unwrap()
    }

    /// Writes an archive with these entries: their names, types and content, or the target of a link.
    fn archive(&self, entries: &[(&str, tar::EntryType, &str)]) {
        let end = Instant::now() + journeyman_testkit::PATIENCE;
        let mut builder = home_archive::begin(&self.path("archive"), HomeLimits::bytes(1 << 20), end).unwrap();
        let format = format!("{}{HEAD}\n", extract::FORMAT);
        for (name, kind, text) in [("format", tar::EntryType::Regular, format.as_str())].iter().chain(entries) {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses names that lead elsewhere.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o4755);
            let is_file = *kind == tar::EntryType::Regular;
            header.set_size(if is_file { text.len() as u64 } else { 0 });
            if !is_file {
                header.set_link_name_literal(text).unwrap();
            }
            header.set_cksum();
            builder.append(&header, if is_file { text.as_bytes() } else { &[] }).unwrap();
        }
        home_archive::finish(builder).unwrap();
    }
}

fn head() -> Sha {
    HEAD.parse().unwrap()
}

fn file(path: &str) -> HeldBack {
    HeldBack { path: path.into(), files: vec![path.into()], ..HeldBack::default() }
}

fn folder(path: &str) -> HeldBack {
    HeldBack { path: path.into(), extent: Extent::Folder, ..HeldBack::default() }
}

#[test]
fn files_links_and_repositories_come_back_as_they_were() {
    let case = Case::new();
    case.write("old/a/large", "large");
    fs::set_permissions(case.path("old/a/large"), Permissions::from_mode(0o755)).unwrap();
    symlink("/nowhere", case.path("old/link")).unwrap();
    case.write("old/inside/.git/HEAD", "ref: refs/heads/main\n");
    case.write("old/inside/x", "x");
    fs::create_dir_all(case.path("old/inside/.git/refs/heads")).unwrap();
    case.write("old/published", "not stored");
    let removed = HeldBack { path: "gone".into(), removed: vec!["gone".into()], ..HeldBack::default() };
    case.write("new/gone", "of the commit");
    case.write("new/link", "of the commit");
    let kept = case.save(vec![file("a/large"), file("link"), folder("inside"), removed], LEFT_OUT_BYTES).unwrap();
    assert_eq!(kept.unwrap(), ["a/large", "gone", "inside", "link"]);
    let extracted = case.extract();
    assert_eq!(extracted.head, head());
    assert_eq!(extracted.left_out, ["a/large", "gone", "inside", "link"].map(str::to_owned).into());
    let written = case.restore(&extracted, &[]);
    assert!(written.has_changed && written.in_the_way.is_empty() && written.lost.is_empty(), "{written:?}");
    assert_eq!(case.read("new/a/large").as_deref(), Some("large"));
    assert_eq!(fs::metadata(case.path("new/a/large")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_link(case.path("new/link")).unwrap(), Path::new("/nowhere"));
    assert_eq!(case.read("new/inside/x").as_deref(), Some("x"));
    assert!(case.path("new/inside/.git/HEAD").is_file() && case.path("new/inside/.git/refs/heads").is_dir());
    assert!(!case.path("new/gone").exists() && !case.path("new/published").exists());
    // A second time, everything is there.
    let again = case.restore(&case.extract(), &[]);
    assert!(again.in_the_way.is_empty() && again.lost.is_empty(), "{again:?}");
}

#[test]
fn what_the_branch_has_changed_since_is_kept() {
    let case = Case::new();
    for path in ["changed", "same", "deleted", "folder", "file/x", "link/x", "kept"] {
        case.write(&format!("old/{path}"), "of the agent");
    }
    let paths = ["changed", "same", "deleted", "folder", "file/x", "link/x", "kept"];
    let removed = HeldBack { path: "removed".into(), removed: vec!["removed".into()], ..HeldBack::default() };
    case.save(paths.map(file).into_iter().chain([removed]).collect(), LEFT_OUT_BYTES).unwrap();
    case.write("new/changed", "of people");
    case.write("new/same", "of the agent");
    case.write("new/removed", "of people");
    case.write("new/folder/x", "of people");
    case.write("new/file", "of people");
    case.write("new/kept", "of the commit");
    fs::create_dir(case.path("elsewhere")).unwrap();
    symlink(case.path("elsewhere"), case.path("new/link")).unwrap();
    let written = case.restore(&case.extract(), &["changed", "same", "deleted", "removed"]);
    let mut in_the_way: Vec<_> = written.in_the_way.iter().map(|path| path.to_str().unwrap()).collect();
    in_the_way.sort_unstable();
    assert_eq!(in_the_way, ["changed", "deleted", "file/x", "folder", "link/x", "removed"]);
    assert_eq!(case.read("new/changed").as_deref(), Some("of people"));
    assert_eq!(case.read("new/removed").as_deref(), Some("of people"));
    assert_eq!(case.read("new/kept").as_deref(), Some("of the agent"));
    assert!(!case.path("new/deleted").exists());
    assert_eq!(fs::read_dir(case.path("elsewhere")).unwrap().count(), 0, "no link is followed");
}

#[test]
fn entries_that_lead_elsewhere_are_refused() {
    use tar::EntryType;
    let case = Case::new();
    fs::create_dir(case.path("elsewhere")).unwrap();
    let elsewhere = case.path("elsewhere").display().to_string();
    let absolute = format!("tree/{elsewhere}/absolute");
    case.archive(&[
        ("tree/../../elsewhere/up", EntryType::Regular, "x"),
        ("../elsewhere/up", EntryType::Regular, "x"),
        ("/etc/journeyman-test", EntryType::Regular, "x"),
        ("other/x", EntryType::Regular, "x"),
        ("tree", EntryType::Regular, "x"),
        ("tree/.git/hooks/post-checkout", EntryType::Regular, "x"),
        ("tree/.GIT/config", EntryType::Regular, "x"),
        ("tree/.git/refs/heads", EntryType::Regular, "x"),
        ("tree/.git/refs/heads/../../config", EntryType::Regular, "x"),
        ("tree/.git/refs/heads/link", EntryType::Symlink, &elsewhere),
        ("tree/.git/refs/remotes/origin/main", EntryType::Regular, "x"),
        ("tree/.git/objects/pack/pack-x.pack", EntryType::Regular, "x"),
        ("tree/.git/objects/pack/pack-0a.keep", EntryType::Regular, "x"),
        ("tree/.git/logs/HEAD", EntryType::Regular, "x"),
        (&absolute, EntryType::Regular, "x"),
        ("tree/link", EntryType::Symlink, &elsewhere),
        ("tree/link/through", EntryType::Regular, "x"),
        ("tree/link", EntryType::Regular, "again"),
        ("tree/hard", EntryType::Link, "/etc/passwd"),
        ("tree/pipe", EntryType::Fifo, ""),
        ("tree/device", EntryType::Char, ""),
        ("tree/file", EntryType::Regular, "x"),
        ("tree/file/inside", EntryType::Regular, "x"),
        ("removed", EntryType::Regular, "../elsewhere/kept\0.git/config\0/etc/passwd\0"),
        ("marked", EntryType::Regular, "../x\0"),
    ]);
    case.write("elsewhere/kept", "kept");
    let extracted = case.extract();
    let is_absolute = |path: &PathBuf| path.ends_with("absolute");
    let mut files: Vec<_> = extracted.files.iter().filter(|path| !is_absolute(path)).collect();
    files.sort();
    assert_eq!(files, [Path::new("file"), Path::new("link")]);
    assert_eq!((&extracted.removed, &extracted.marked), (&Vec::new(), &Vec::new()));
    assert_eq!(fs::metadata(case.path("folder/file")).unwrap().permissions().mode() & 0o7777, 0o755, "not setuid");
    fs::create_dir(case.path("new/.git")).unwrap();
    case.restore(&extracted, &[]);
    let names = |folder: &str| -> HashSet<String> {
        let entries = fs::read_dir(case.path(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names("elsewhere"), HashSet::from(["kept".to_owned()]));
    assert_eq!(names("new/.git"), HashSet::new());
    assert!(!Path::new("/etc/journeyman-test").exists());
}

#[test]
fn refs_and_packs_of_the_repository_are_stored() {
    let names = [".git/refs/heads/fix/it", ".git/refs/stash", ".git/logs/refs/stash", ".git/objects/pack/pack-0a.pack"];
    let case = Case::new();
    names.iter().for_each(|name| case.write(&format!("old/{name}"), name));
    let files = names.map(PathBuf::from).to_vec();
    let held_back = HeldBack { path: "refs/heads/fix/it".into(), files, ..HeldBack::default() };
    assert_eq!(case.save(vec![held_back], LEFT_OUT_BYTES).unwrap().unwrap(), ["refs/heads/fix/it"]);
    case.restore(&case.extract(), &[]);
    for name in names {
        assert_eq!(case.read(&format!("new/{name}")).as_deref(), Some(name));
    }
}

#[test]
fn an_archive_that_is_damaged_too_large_or_of_another_version_is_an_error() {
    let case = Case::new();
    case.write("old/a", &"x".repeat(100_000));
    case.save(vec![file("a")], LEFT_OUT_BYTES).unwrap();
    fs::create_dir(case.path("folder")).unwrap();
    let read = |limit| extract::extract(&case.path("archive"), &case.path("folder"), limit);
    assert!(read(50_000).is_err(), "the content is larger than the limit");
    let bytes = fs::read(case.path("archive")).unwrap();
    fs::write(case.path("archive"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(LEFT_OUT_BYTES).is_err());
    case.archive(&[("format", tar::EntryType::Regular, "left-out 2\n")]);
    assert_eq!(read(LEFT_OUT_BYTES).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn what_does_not_fit_is_not_kept_and_the_small_comes_first() {
    let case = Case::new();
    case.write("old/small", "small");
    // The file is sparse and uses no space on the disk.
    fs::File::create(case.path("old/a")).unwrap().set_len(1 << 40).unwrap();
    case.write("old/inside/.git/HEAD", "x");
    fs::File::create(case.path("old/inside/b")).unwrap().set_len(1 << 40).unwrap();
    let deep = format!("old/deep/{}/x", vec!["d"; 200].join("/"));
    case.write(&deep, "x");
    let held_back = || vec![file("a"), folder("inside"), folder("deep"), file("small"), file("missing")];
    assert_eq!(case.save(held_back(), 1 << 20).unwrap().unwrap(), ["small"]);
    let extracted = case.extract();
    assert_eq!((extracted.files, extracted.folders), (vec![PathBuf::from("small")], Vec::new()));
    let special = HeldBack { path: "pipe".into(), extent: Extent::Part, ..HeldBack::default() };
    assert_eq!(case.save(vec![file("a"), special], 1 << 20).unwrap(), None, "there is nothing to store");
    let part = HeldBack { extent: Extent::Part, ..file("small") };
    assert_eq!(case.save(vec![part], 1 << 20).unwrap(), Some(Vec::new()), "it is stored, but not complete");
    let extracted = case.extract();
    assert_eq!((extracted.files, extracted.left_out), (vec![PathBuf::from("small")], BTreeSet::new()));
}

#[test]
fn a_file_that_a_link_or_a_pipe_replaces_is_not_read() {
    let case = Case::new();
    fs::create_dir(case.path("old/folder")).unwrap();
    case.write("secret/file", "of the host");
    symlink(case.path("secret"), case.path("old/link")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, case.path("old/pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    case.save(vec![file("link/file"), folder("link"), file("pipe")], LEFT_OUT_BYTES).unwrap();
    let extracted = case.extract();
    assert_eq!((extracted.files, extracted.folders), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn files_come_back_with_the_rights_of_the_owner_of_the_tree() {
    let fixture = fixture("true").await;
    let head = fixture.commit("main", &[("base", "x")]);
    let workspace = &fixture.sandbox.workspace;
    fs::create_dir_all(workspace.tree.join("closed")).unwrap();
    fs::write(workspace.tree.join("a"), "a").unwrap();
    fs::write(workspace.tree.join("closed/b"), "b").unwrap();
    let held_back = vec![file("a"), file("closed/b")];
    workspace.save_left_out(&fixture.blobs, "home", &head, held_back).await.unwrap();
    fs::remove_dir_all(&workspace.tree).unwrap();
    fs::create_dir_all(workspace.tree.join("closed")).unwrap();
    if !give_to_test_user(&workspace.tree) {
        // Only root has other users.
        return;
    }
    chown(workspace.tree.join("closed"), Some(0), Some(0)).unwrap();
    let session = Session { blobs: &fixture.blobs, archive: Some("home"), prepared: None };
    let restored = workspace.restore_left_out(&session, &fixture.mirror().await, &head, &[]).await.unwrap();
    assert_eq!(fs::read_to_string(workspace.tree.join("a")).unwrap(), "a");
    assert_eq!(fs::metadata(workspace.tree.join("a")).unwrap().uid(), TEST_USER);
    let missing: Vec<_> = restored.missing.iter().map(|one| (one.path.as_str(), one.reason.code())).collect();
    assert_eq!(missing, [("closed/b", "lost")], "a folder of root");
}
