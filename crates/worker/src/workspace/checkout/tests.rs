//! Tests of what is written, and where.

use std::sync::{Arc, Mutex};

use journeyman_core::ids::Sha;
use journeyman_core::ports::SandboxError;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_testkit::FakeSandbox;

use crate::error::RunError;
use crate::fixtures::{Fixture, fixture};

fn failed<T: std::fmt::Debug>(result: Result<T, RunError>) -> Reason {
    let Err(RunError::Failed { reason, .. }) = result else { panic!("{result:?}") };
    reason
}

#[tokio::test]
async fn the_host_writes_no_file_of_a_commit() {
    let mut fixture = fixture("true").await;
    let head = fixture.commit("main", &[("a", "1"), (".gitattributes", "* text eol=crlf")]);
    let started = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&started);
    fixture.sandbox.sandbox = Arc::new(FakeSandbox::new().on_spawn(move |spawn| {
        seen.lock().unwrap().extend(spawn.argv.get(3).cloned());
        Err(SandboxError::ImageMissing("nothing starts".into()))
    }));
    let reason = failed(fixture.prepare(&head, false, true).await);
    assert_eq!(reason.code, ReasonCode::ImageRefused, "{}", reason.text);
    assert_eq!(*started.lock().unwrap(), ["checkout"]);
    let tree = &fixture.sandbox.workspace.tree;
    let names: Vec<_> = tree.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".git"]);
}

#[tokio::test]
async fn files_that_are_larger_in_the_encoding_of_the_tree_count_as_they_are_there() {
    let mut fixture = fixture("echo ran > ran").await;
    let text = "a".repeat(300_000);
    let head = fixture.commit("main", &[("a.u", &text), (".gitattributes", "# none\n")]);
    fixture.project.settings.limits.disk_bytes = Some(1_000_000);
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(fixture.tree("ran").as_deref(), Some("ran\n"), "the control");
    // 1.2 MB in the tree, from 0.3 MB in the commit.
    let wide = fixture.in_clone(&["rev-parse", "HEAD:a.u"]);
    let listing = [("a.u", wide.trim()), (".gitattributes", &object(&fixture, "*.u working-tree-encoding=UTF-32LE\n"))];
    let commit = commit_of(&fixture, &listing);
    let reason = failed(fixture.prepare(&commit, false, true).await);
    assert_eq!(reason.code, ReasonCode::DiskLimit, "{}", reason.text);
    assert_eq!(fixture.tree("ran"), None, "the setup command did not run");
}

#[tokio::test]
async fn a_path_that_git_does_not_write_is_named() {
    let fixture = fixture("true").await;
    fixture.commit("main", &[("a", "1")]);
    let blob = object(&fixture, "x");
    for name in ["git~1", ".GIT"] {
        let folder = fixture.in_clone_with(&["mktree"], format!("100644 blob {blob}\tconfig\n").as_bytes());
        let mut bytes = format!("40000 {name}\0").into_bytes();
        let digits = folder.trim().as_bytes().chunks(2);
        bytes.extend(digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()));
        let literal = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        let tree = fixture.in_clone_with(&literal, &bytes);
        let commit = publish(&fixture, tree.trim());
        let reason = failed(fixture.prepare(&commit, false, true).await);
        assert_eq!(reason.code, ReasonCode::RepositoryUnsupported, "{name}: {}", reason.text);
        assert!(reason.text.contains("remove the path from the branch"), "{name}: {}", reason.text);
    }
}

fn object(fixture: &Fixture, text: &str) -> String {
    fixture.in_clone_with(&["hash-object", "-w", "--stdin"], text.as_bytes()).trim().to_owned()
}

/// Returns a commit with these files, on the branch `other` of the code host.
fn commit_of(fixture: &Fixture, files: &[(&str, &str)]) -> Sha {
    let listing: String = files.iter().map(|(path, object)| format!("100644 blob {object}\t{path}\n")).collect();
    let tree = fixture.in_clone_with(&["mktree"], listing.as_bytes());
    publish(fixture, tree.trim())
}

fn publish(fixture: &Fixture, tree: &str) -> Sha {
    let commit = fixture.in_clone(&["commit-tree", "-p", "HEAD", "-m", "x", tree]);
    let objects = fixture.dir.path().join("clone/.git/objects").display().to_string();
    // The fetch of a path would refuse some of these trees if they were pushed.
    std::fs::write(fixture.dir.path().join("origin.git/objects/info/alternates"), format!("{objects}\n")).unwrap();
    std::fs::write(fixture.dir.path().join("origin.git/refs/heads/other"), &commit).unwrap();
    commit.trim().parse().unwrap()
}
