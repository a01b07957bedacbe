//! Tests of small packs that describe large files: they take as much of the disk as was sent, and not as much as they
//! describe.

use std::path::Path;

use crate::program::fixtures::{Service, Site, git, site_with};

/// The number of files, which is below the number of objects from which git keeps a pack by itself.
const FILES: usize = 40;

/// The size of each file in bytes. All files differ in their last byte only.
const BYTES: usize = 1 << 20;

/// A script that writes the files. Git stores all but one as a few bytes that describe the difference.
fn script() -> String {
    format!(
        "head -c {BYTES} /dev/urandom > base; for i in $(seq {FILES}); do cp base f$i; printf %s $i >> f$i; done; rm base"
    )
}

/// Returns the bytes of all files below a folder.
fn bytes(folder: &Path) -> u64 {
    let entries = folder.read_dir().unwrap().flatten();
    entries
        .map(|entry| if entry.path().is_dir() { bytes(&entry.path()) } else { entry.metadata().unwrap().len() })
        .sum()
}

/// Checks that folders have more than one of the files, and fewer bytes than four of them.
fn check(what: &str, folder: &Path) {
    let bytes = bytes(folder);
    assert!((BYTES as u64..4 * BYTES as u64).contains(&bytes), "{what}: {bytes} bytes for {FILES} files of {BYTES}");
}

/// Writes the files in the clone of the people, and returns the address with which it pushes to the built-in code host.
fn files_of_people(site: &Site, service: &Service) -> String {
    let written = std::process::Command::new("sh").args(["-c", &script()]).current_dir(site.people()).status().unwrap();
    assert!(written.success());
    git(&site.people(), &["add", "--all"]);
    git(&site.people(), &["commit", "--quiet", "--message", "Files"]);
    service.url.replace("http://", &format!("http://ada:{}@", service.key)) + "/git/shop.git"
}

#[test]
fn a_pushed_and_fetched_pack_takes_no_more_of_the_disk_than_was_sent() {
    let site = site_with("workers = 1\n");
    let service = site.start();
    let address = files_of_people(&site, &service);
    git(&site.people(), &["push", "--quiet", &address, "HEAD:main"]);
    check("the repository of the built-in code host", &site.repository().join("objects"));
    let job = service.create("[[write a|1]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    check("the mirror", &site.path("data/mirrors"));
    // The control: git by itself unpacks what it fetches.
    let control = site.path("control.git");
    git(site.dir.path(), &["init", "--quiet", "--bare", control.to_str().unwrap()]);
    git(&control, &["fetch", "--quiet", &address, "main"]);
    let unpacked = bytes(&control.join("objects"));
    assert!(unpacked > (FILES * BYTES) as u64, "{unpacked} bytes");
}

#[test]
fn the_pack_of_a_turn_takes_no_more_of_the_disk_than_the_committer_sent() {
    let site = site_with("workers = 1\n");
    let service = site.start();
    let job = service.create(&format!("[[run {}]]", script()));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let diff = service.text(&format!("{job}/diff"));
    assert_eq!(diff.matches("\ndiff --git ").count() + 1, FILES, "the files are in the branch");
    check("the mirror", &site.path("data/mirrors"));
    check("the repository of the built-in code host", &site.repository().join("objects"));
}
