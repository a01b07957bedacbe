//! Tests of commits with files in Git LFS.

use journeyman_core::ids::Sha;
use journeyman_core::job::Branch;
use journeyman_core::left_out::LeftOutReason;
use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::{Blobs, LfsError};
use journeyman_core::project::Lfs;
use journeyman_core::run::ReasonCode;

use super::published;
use crate::commit::CollectedCommits;
use crate::commit::lfs_objects::Uploading;
use crate::error::RunError;
use crate::fixtures::{BRANCH, Built, Fixture, fixture};

fn pointer(content: &[u8]) -> Pointer {
    let mut hasher = Hasher::default();
    hasher.update(content);
    hasher.pointer()
}

/// Builds a tree with the files `a.bin` ("old content") and `b.txt`.
async fn with_object() -> (Fixture, Built) {
    let fixture = fixture("true").await;
    let old = fixture.lfs.store(b"old content");
    let attributes = (".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    fixture.commit("main", &[attributes, ("a.bin", &old.text()), ("b.txt", "1\n")]);
    let before = fixture.build().await;
    assert_eq!(fixture.tree("a.bin").unwrap(), "old content");
    (fixture, before)
}

impl Fixture {
    /// Returns the content of a file in a commit.
    async fn blob(&self, commit: &Sha, path: &str) -> String {
        let mirror = self.mirror().await;
        let file = format!("{commit}:{path}");
        let content = mirror.git.at(&mirror.path, ["cat-file", "blob", &file]).run().await.unwrap().stdout;
        String::from_utf8(content).unwrap()
    }

    /// Returns the first lines of the messages of the commits after the base, newest first.
    async fn subjects(&self, before: &Built, head: &Sha) -> Vec<String> {
        let mirror = self.mirror().await;
        let range = format!("{}..{head}", before.head);
        let log = mirror.git.at(&mirror.path, ["log", "--format=%s", &range]).run().await.unwrap().text().unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// Uploads the objects before a push of `head`.
    async fn upload(&self, before: &Built, head: &Sha) -> Result<(), RunError> {
        let mirror = self.mirror().await;
        let scratch = &self.sandbox.workspace.scratch;
        let (objects, blobs, remote) = (&*self.lfs, &self.blobs, &mirror.remote);
        let branch = Branch {
            name: BRANCH.to_owned(),
            generation: 1,
            base: before.head.clone(),
            head: head.clone(),
            pushed: None,
            repository: None,
            existed: false,
        };
        let uploading = Uploading { objects, blobs, mirror: &mirror, scratch, remote };
        uploading.upload(&self.claimed.job, &branch, head).await
    }

    async fn pending(&self) -> usize {
        self.blobs.list(&format!("bundles/{}", self.claimed.job.id), None, 9).await.unwrap().len()
    }
}

fn told(collected: &CollectedCommits) -> Vec<(&str, LeftOutReason)> {
    collected.left_out.iter().map(|one| (one.path.as_str(), one.reason)).collect()
}

#[tokio::test]
async fn new_content_is_committed_as_a_pointer_and_uploaded_before_the_push() {
    let (fixture, before) = with_object().await;
    fixture.run("printf 'new content' > a.bin; printf 'more' > c.bin; chmod +x c.bin; echo 2 > b.txt");
    let collected = fixture.collect(&before).await.unwrap();
    let found = published(&fixture, &before, collected.head.as_str()).await;
    assert_eq!(found, ["M\ta.bin", "M\tb.txt", "A\tc.bin"]);
    let (new, more) = (pointer(b"new content"), pointer(b"more"));
    assert_eq!(fixture.blob(&collected.head, "a.bin").await, new.text());
    assert_eq!(fixture.blob(&collected.head, "c.bin").await, more.text());
    let mirror = fixture.mirror().await;
    let entry = mirror.git.at(&mirror.path, ["ls-tree", collected.head.as_str(), "c.bin"]).run().await.unwrap();
    assert!(entry.text().unwrap().starts_with("100755"));
    assert!(collected.has_objects);
    assert_eq!((told(&collected), fixture.lfs.content(&new.oid), fixture.pending().await), (vec![], None, 2));
    // The agent sees a clean tree.
    assert_eq!(fixture.status(false), "## journeyman/work-1\n");
    assert_eq!(fixture.tree("a.bin").unwrap(), "new content");
    fixture.upload(&before, &collected.head).await.unwrap();
    assert_eq!(fixture.lfs.content(&new.oid).unwrap(), b"new content");
    assert_eq!(fixture.lfs.content(&more.oid).unwrap(), b"more");
    let left = std::fs::read_dir(fixture.dir.path().join("scratch")).unwrap().count();
    assert_eq!(left, 0, "no temporary file is left");
    // The next turn changes it back: the object exists.
    let next = fixture.next(&before, collected);
    fixture.run("printf 'old content' > a.bin");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(fixture.blob(&collected.head, "a.bin").await, pointer(b"old content").text());
}

#[tokio::test]
async fn the_same_content_is_no_change() {
    let (fixture, before) = with_object().await;
    fixture.run("printf 'old content' > x; mv x a.bin; echo 2 > b.txt");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\tb.txt"]);
    let next = fixture.next(&before, collected);
    fixture.run("chmod +x a.bin");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\ta.bin", "M\tb.txt"]);
    assert_eq!(fixture.blob(&collected.head, "a.bin").await, pointer(b"old content").text(), "only the mode changed");
    assert_eq!(fixture.pending().await, 0);
    // The pointer itself in the place of the content is no change either.
    let next = fixture.next(&before, collected);
    fixture.run("git show HEAD:a.bin > a.bin");
    assert_eq!(fixture.collect(&next).await.unwrap().head, next.head);
}

#[tokio::test]
async fn an_object_that_is_too_large_is_left_out() {
    let (fixture, before) = with_object().await;
    fixture.run("head -c 2000 /dev/zero > a.bin; echo 2 > b.txt");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\tb.txt"]);
    assert_eq!(told(&collected), [("a.bin", LeftOutReason::TooLarge { bytes: 2000 })]);
}

#[tokio::test]
async fn content_that_the_code_host_would_not_accept_is_left_out() {
    for (error, is_left_out) in [
        (LfsError::Denied("over quota".to_owned()), true),
        (LfsError::Unsupported("no server".to_owned()), true),
        (LfsError::Failed("HTTP 503".to_owned()), false),
    ] {
        let (fixture, before) = with_object().await;
        fixture.run("printf 'new content' > a.bin; echo 2 > b.txt");
        fixture.lfs.fail(Some(error.clone()));
        let collected = fixture.collect(&before).await.unwrap();
        let expected: &[_] = if is_left_out { &[("a.bin", LeftOutReason::LfsContent)] } else { &[] };
        assert_eq!(told(&collected), expected, "{error}");
        let found = published(&fixture, &before, collected.head.as_str()).await;
        assert_eq!(found.len(), if is_left_out { 1 } else { 2 }, "{error}: {found:?}");
    }
}

#[tokio::test]
async fn without_lfs_content_is_left_out() {
    let (mut fixture, before) = with_object().await;
    fixture.project.settings.checkout.lfs = Lfs::Off;
    fixture.run("printf 'new content' > a.bin; echo 2 > b.txt");
    let requests = fixture.lfs.requests();
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(told(&collected), [("a.bin", LeftOutReason::LfsContent)]);
    assert_eq!((fixture.lfs.requests(), fixture.pending().await), (requests, 0));
    // A commit of the agent with the content is replaced.
    let next = fixture.next(&before, collected);
    fixture.run("git config --remove-section filter.lfs; git add -A; git commit -qm own");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(told(&collected), [("a.bin", LeftOutReason::LfsContent)]);
}

#[tokio::test]
async fn commits_of_the_agent_with_pointers_are_taken_with_their_objects() {
    let (fixture, before) = with_object().await;
    fixture.run(
        "printf 'first' > a.bin; git commit -qam first; printf 'second' > a.bin; git commit -qam second; \
         git rm -q --cached b.txt; rm b.txt; git commit -qm third",
    );
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(fixture.subjects(&before, &collected.head).await, ["third", "second", "first"]);
    assert_eq!(fixture.blob(&collected.head, "a.bin").await, pointer(b"second").text());
    assert_eq!((told(&collected), fixture.pending().await), (vec![], 2));
    fixture.upload(&before, &collected.head).await.unwrap();
    for content in [b"first".as_slice(), b"second"] {
        assert_eq!(fixture.lfs.content(&pointer(content).oid).unwrap(), content);
    }
}

#[tokio::test]
async fn commits_of_the_agent_with_content_are_replaced_by_one_with_a_pointer() {
    let (fixture, before) = with_object().await;
    // Without the filter, and although the newest commit has a pointer again.
    fixture.run(
        "git config --remove-section filter.lfs; printf 'raw' > a.bin; git commit -qam raw; git checkout -q HEAD~ a.bin; \
         git commit -qm back; printf 'new' > a.bin",
    );
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(fixture.subjects(&before, &collected.head).await, ["x"]);
    assert_eq!(fixture.blob(&collected.head, "a.bin").await, pointer(b"new").text());
    let history = fixture.mirror().await;
    let range = format!("{}..{}", before.head, collected.head);
    let raw = history.git.at(&history.path, ["log", "-Sraw", "--format=%H", &range]).run().await.unwrap();
    assert_eq!(raw.text().unwrap(), "", "the content is in no commit");
}

#[tokio::test]
async fn a_pointer_is_published_only_if_its_object_exists() {
    let (fixture, before) = with_object().await;
    let (own, hosted, nowhere) = (pointer(b"own"), fixture.lfs.store(b"hosted"), pointer(b"nowhere"));
    let wrong = Pointer { bytes: 3, ..pointer(b"wro") };
    for (name, found) in [("own", &own), ("hosted", &hosted), ("nowhere", &nowhere), ("wrong", &wrong)] {
        std::fs::write(fixture.sandbox.workspace.tree.join(format!("{name}.bin")), found.text()).unwrap();
    }
    // As the agent's git stores content; that of one object does not match its name.
    for (found, content) in [(&own, "own"), (&wrong, "bad")] {
        let folder = format!(".git/lfs/objects/{}/{}", &found.oid[..2], &found.oid[2..4]);
        fixture.run(&format!("mkdir -p {folder}; printf {content} > {folder}/{}", found.oid));
    }
    let collected = fixture.collect(&before).await.unwrap();
    let found = published(&fixture, &before, collected.head.as_str()).await;
    assert_eq!(found, ["A\thosted.bin", "A\town.bin"]);
    let expected = ["nowhere.bin", "wrong.bin"].map(|path| (path, LeftOutReason::LfsContent));
    assert_eq!(told(&collected), expected);
    assert_eq!(fixture.pending().await, 1);
    // Such a pointer in a commit of the agent, too.
    let next = fixture.next(&before, collected);
    fixture.run("git add -A; git commit -qm own; echo 2 > b.txt");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(told(&collected), expected);
    assert_eq!(published(&fixture, &next, collected.head.as_str()).await, ["M\tb.txt"]);
}

#[tokio::test]
async fn objects_on_another_server_are_left_out() {
    let fixture = fixture("true").await;
    let old = fixture.lfs.store(b"old content");
    let attributes = (".gitattributes", "*.bin filter=lfs -text\n");
    let config = (".lfsconfig", "[lfs]\n\turl = https://example.com/lfs\n");
    fixture.commit("main", &[attributes, config, ("a.bin", &old.text())]);
    let before = fixture.build().await;
    fixture.run("printf 'new content' > a.bin; echo 2 > b.txt");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(told(&collected), [("a.bin", LeftOutReason::LfsContent)]);
    assert_eq!(fixture.lfs.requests(), 0);
}

#[tokio::test]
async fn a_failed_upload_says_whether_it_may_pass() {
    let (fixture, before) = with_object().await;
    fixture.run("printf 'new content' > a.bin");
    let head = fixture.collect(&before).await.unwrap().head;
    for (error, code, again) in [
        (LfsError::Failed("HTTP 503".to_owned()), ReasonCode::PushRefused, true),
        (LfsError::Credential("HTTP 401".to_owned()), ReasonCode::CredentialRefused, false),
        (LfsError::Denied("quota".to_owned()), ReasonCode::PermissionMissing, false),
        (LfsError::Unsupported("none".to_owned()), ReasonCode::PushRefused, false),
        (LfsError::Refused("no".to_owned()), ReasonCode::PushRefused, false),
    ] {
        fixture.lfs.fail(Some(error.clone()));
        let Err(RunError::Failed { reason, retry }) = fixture.upload(&before, &head).await else { panic!("{error}") };
        assert_eq!((reason.code, retry), (code, again));
        assert!(reason.text.contains("nothing was pushed") && reason.text.contains(&error.to_string()));
    }
    // The object is kept for the next attempt.
    fixture.lfs.fail(None);
    fixture.upload(&before, &head).await.unwrap();
    assert!(fixture.lfs.content(&pointer(b"new content").oid).is_some());
}
