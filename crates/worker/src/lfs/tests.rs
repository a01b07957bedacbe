//! Tests of checkouts with files in Git LFS.

use journeyman_core::lfs::Pointer;
use journeyman_core::ports::LfsError;
use journeyman_core::project::Lfs;
use journeyman_core::worker::FreeSpace;

use super::fill::NotFetched;
use crate::error::RunError;
use crate::fixtures::{Fixture, fixture};

const ATTRIBUTES: (&str, &str) = (".gitattributes", "*.bin filter=lfs -text\n");

/// Returns the paths and the beginnings of the reasons.
fn told(not_fetched: &[NotFetched]) -> Vec<(&str, &str)> {
    not_fetched.iter().map(|one| (one.path.to_str().unwrap(), one.detail.as_str())).collect()
}

fn text(pointer: &Pointer) -> String {
    pointer.text()
}

async fn with_lfs() -> Fixture {
    fixture("true").await
}

#[tokio::test]
async fn pointers_are_replaced_by_content_and_the_tree_is_clean() {
    let fixture = with_lfs().await;
    let (one, two) = (fixture.lfs.store(b"content one"), fixture.lfs.store(b"content two"));
    let files = [
        ATTRIBUTES,
        ("a.bin", &text(&one)),
        ("d/b.bin", &text(&two)),
        ("d/copy.bin", &text(&one)),
        ("pointer.txt", &text(&one)),
    ];
    let head = fixture.commit("main", &files);
    assert_eq!(told(&fixture.prepare(&head, false, true).await.unwrap()), []);
    for (path, content) in [("a.bin", "content one"), ("d/b.bin", "content two"), ("d/copy.bin", "content one")] {
        assert_eq!(fixture.tree(path).unwrap(), content);
    }
    assert_eq!(fixture.tree("pointer.txt").unwrap(), text(&one), "the attributes decide");
    assert_eq!(fixture.lfs.requests(), 1);
    // Without reading the files: the filter would store what it reads.
    assert_eq!(fixture.status(false), "## journeyman/work-1\n");
    fixture.run("git ls-files --debug a.bin | grep -q 'size: 11'; git fsck; test ! -e .git/lfs");
    // The next workspace needs no request.
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!((fixture.tree("a.bin").unwrap().as_str(), fixture.lfs.requests()), ("content one", 1));
}

#[tokio::test]
async fn a_tree_without_lfs_asks_for_nothing() {
    let fixture = with_lfs().await;
    let pointer = fixture.lfs.store(b"content");
    let head = fixture.commit("main", &[(".gitattributes", "*.txt text\n"), ("a.bin", &text(&pointer))]);
    assert_eq!(told(&fixture.prepare(&head, false, true).await.unwrap()), []);
    assert_eq!((fixture.tree("a.bin").unwrap(), fixture.lfs.requests()), (text(&pointer), 0));
    assert!(!fixture.tree(".git/config").unwrap().contains("filter"));
}

#[tokio::test]
async fn the_setting_off_leaves_pointers() {
    let mut fixture = with_lfs().await;
    fixture.project.settings.checkout.lfs = Lfs::Off;
    let pointer = fixture.lfs.store(b"content");
    let head = fixture.commit("main", &[ATTRIBUTES, ("a.bin", &text(&pointer))]);
    assert_eq!(told(&fixture.prepare(&head, false, true).await.unwrap()), []);
    assert_eq!((fixture.tree("a.bin").unwrap(), fixture.lfs.requests()), (text(&pointer), 0));
}

#[tokio::test]
async fn what_cannot_be_fetched_is_told_and_stays_a_pointer() {
    let mut fixture = with_lfs().await;
    let (there, gone) = (fixture.lfs.store(b"content"), fixture.lfs.store(b"gone"));
    fixture.lfs.remove(&gone.oid);
    let huge = Pointer { bytes: 1 << 40, ..there.clone() };
    let files = [ATTRIBUTES, ("a.bin", &text(&there)), ("b.bin", &text(&gone)), ("c.bin", &text(&huge))];
    let head = fixture.commit("main", &files);
    let not_fetched = fixture.prepare(&head, false, true).await.unwrap();
    assert!(not_fetched[0].detail.contains("limits.diskBytes"), "{not_fetched:?}");
    assert!(not_fetched[1].detail.contains("does not have its content"), "{not_fetched:?}");
    assert_eq!(told(&not_fetched).iter().map(|one| one.0).collect::<Vec<_>>(), ["c.bin", "b.bin"]);
    assert_eq!(fixture.tree("a.bin").unwrap(), "content");
    assert_eq!(fixture.tree("b.bin").unwrap(), text(&gone));
    assert_eq!(fixture.tree("c.bin").unwrap(), text(&huge));
    fixture.free = Some(FreeSpace { free_bytes: 1010, reserve_bytes: 1000 });
    let not_fetched = fixture.prepare(&head, false, true).await.unwrap();
    assert!(not_fetched.iter().any(|one| one.path.ends_with("a.bin") && one.detail.contains("disk of the worker")));
    assert_eq!(fixture.tree("a.bin").unwrap(), text(&there));
}

#[tokio::test]
async fn an_error_that_may_pass_is_tried_again_and_another_one_is_told() {
    let fixture = with_lfs().await;
    let pointer = fixture.lfs.store(b"content");
    let head = fixture.commit("main", &[ATTRIBUTES, ("a.bin", &text(&pointer))]);
    fixture.lfs.fail(Some(LfsError::Failed("HTTP 503".to_owned())));
    let Err(RunError::Failed { reason, retry: true }) = fixture.prepare(&head, false, true).await else {
        panic!("it may pass")
    };
    assert!(reason.text.contains("HTTP 503"), "{}", reason.text);
    fixture.lfs.fail(Some(LfsError::Credential("HTTP 401".to_owned())));
    let not_fetched = fixture.prepare(&head, false, true).await.unwrap();
    assert!(not_fetched[0].detail.contains("refused the credential: HTTP 401"), "{not_fetched:?}");
    assert_eq!(fixture.tree("a.bin").unwrap(), text(&pointer));
    fixture.lfs.fail(None);
    assert_eq!(told(&fixture.prepare(&head, false, true).await.unwrap()), []);
}

#[tokio::test]
async fn objects_on_another_server_are_not_used() {
    let fixture = with_lfs().await;
    let pointer = fixture.lfs.store(b"content");
    let config = (".lfsconfig", "[lfs]\n\turl = https://example.com/objects\n");
    let head = fixture.commit("main", &[ATTRIBUTES, config, ("a.bin", &text(&pointer))]);
    let not_fetched = fixture.prepare(&head, false, true).await.unwrap();
    assert!(not_fetched[0].detail.contains("another server (lfs.url in .lfsconfig)"), "{not_fetched:?}");
    assert_eq!(fixture.lfs.requests(), 0);
}

#[tokio::test]
async fn a_tree_that_moves_after_the_setup_gets_the_content_of_the_branch() {
    let fixture = fixture("test \"$(cat a.bin)\" = old; cp a.bin made; rm b.bin; ln -s /etc/hostname b.bin").await;
    let (old, new) = (fixture.lfs.store(b"old"), fixture.lfs.store(b"new"));
    fixture.commit("main", &[ATTRIBUTES, ("a.bin", &text(&old)), ("b.bin", &text(&old)), ("c.bin", &text(&old))]);
    let head = fixture.commit("journeyman/a-1", &[("a.bin", &text(&new)), ("b.bin", &text(&new))]);
    // The setup command has a secret, so it runs on the commit that people have accepted.
    assert_eq!(told(&fixture.prepare(&head, false, false).await.unwrap()), []);
    assert_eq!(fixture.tree("made").unwrap(), "old");
    for (path, content) in [("a.bin", "new"), ("b.bin", "new"), ("c.bin", "old")] {
        assert_eq!(fixture.tree(path).unwrap(), content, "{path}");
    }
    assert_eq!(fixture.status(false), "## journeyman/work-1\n?? made\n");
}
