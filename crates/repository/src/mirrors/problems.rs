//! Tests with remotes that jobs cannot use.

use std::path::Path;

use journeyman_core::ids::JobId;
use journeyman_core::run::{Reason, ReasonCode};

use super::*;
use crate::fixture::{BRANCH, Fixture};
use crate::push::check_push;

/// Returns the final reason of a failure.
fn refused<T: std::fmt::Debug>(result: Result<T, RepositoryError>) -> Reason {
    let Err(RepositoryError::Failed { reason, retry: false }) = result else { panic!("{result:?}") };
    reason
}

/// Returns the file of a single object in a repository whose objects are all single.
fn object(repository: &Path, id: &str) -> PathBuf {
    repository.join("objects").join(&id[..2]).join(&id[2..])
}

async fn revision(fixture: &Fixture, name: &str) -> String {
    fixture.git.at(&fixture.origin(), ["rev-parse", name]).run().await.unwrap().text().unwrap()
}

#[tokio::test]
async fn a_shallow_clone_is_refused_with_the_remedy_each_time() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.publish("main").await;
    let url = format!("file://{}", fixture.origin().display());
    let clone = ["clone", "--quiet", "--bare", "--depth=1", &url, "shallow.git"];
    fixture.git.command(clone).directory(fixture.dir.path()).run().await.unwrap();
    let shallow = fixture.dir.path().join("shallow.git").to_str().unwrap().to_owned();
    let (mirrors, remote) = (fixture.mirrors(), Remote { url: shallow.clone(), ..fixture.remote() });
    for _ in 0..2 {
        let reason = refused(mirrors.fetch(remote.clone()).await);
        assert_eq!(reason.code, ReasonCode::RepositoryUnsupported);
        assert!(reason.text.contains("git fetch --unshallow"), "{}", reason.text);
    }
    let deepen = ["fetch", "--quiet", "--unshallow", "origin"];
    fixture.git.at(Path::new(&shallow), deepen).run().await.unwrap();
    assert_eq!(mirrors.fetch(remote).await.unwrap().heads.len(), 1, "the remedy works");
}

#[tokio::test]
async fn a_damaged_remote_is_refused_for_a_new_mirror_and_for_an_old_one() {
    for (name, content) in [("main", None), ("main^{tree}", None), ("main:a", None), ("main:a", Some("junk"))] {
        let fixture = Fixture::new().await;
        let mirrors = fixture.mirrors();
        let old = Arc::new(Mirrors::new(fixture.git.clone(), fixture.dir.path().join("old")));
        let old = old.of(&"shop".parse().unwrap());
        old.fetch(fixture.remote()).await.unwrap();
        fixture.commit(&[("a", Some("2"))]).await;
        fixture.publish("main").await;
        let file = object(&fixture.origin(), &revision(&fixture, name).await);
        std::fs::remove_file(&file).unwrap();
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        for mirrors in [&mirrors, &old] {
            let reason = refused(mirrors.fetch(fixture.remote()).await);
            assert_eq!(reason.code, ReasonCode::RepositoryUnsupported, "{name}: {}", reason.text);
            assert!(reason.text.contains("is damaged") && reason.text.contains("git fsck"), "{}", reason.text);
            let folder = fixture.dir.path().to_str().unwrap();
            assert!(!reason.text.contains(folder), "no path of the server: {}", reason.text);
        }
    }
}

#[tokio::test]
async fn a_damaged_mirror_is_not_mistaken_for_a_damaged_remote() {
    let fixture = Fixture::new().await;
    let mirrors = fixture.mirrors();
    let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
    std::fs::write(mirror.path.join("config"), "[x").unwrap();
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.publish("main").await;
    let damaged = mirrors.fetch(fixture.remote()).await;
    assert!(matches!(damaged, Err(RepositoryError::MirrorDamaged(_))), "{damaged:?}");
    mirrors.repair(&fixture.remote()).await.unwrap();
    mirrors.fetch(fixture.remote()).await.unwrap();
}

#[tokio::test]
async fn a_commit_with_a_path_that_git_does_not_check_out_is_not_mistaken_for_a_damaged_mirror() {
    let fixture = Fixture::new().await;
    let mirror = fixture.mirrors().fetch(fixture.remote()).await.unwrap();
    let tree = fixture.dir.path().join("checked-out");
    fixture
        .git
        .command(["clone", "--quiet", "--shared", "--no-checkout"])
        .argument(&mirror.path)
        .argument(&tree)
        .run()
        .await
        .unwrap();
    let check_out = async |commit: &Sha| {
        let reset = fixture.git.command(["reset", "--quiet", "--hard", commit.as_str()]).directory(&tree);
        reset.run().await.map(drop).map_err(RepositoryError::from)
    };
    check_out(&fixture.base).await.unwrap();
    for name in [".GIT", ".git", "git~1", ".."] {
        let blob = mirror.git.at(&mirror.path, ["hash-object", "-w", "--stdin"]).stdin("x").run().await.unwrap();
        let file = format!("100644 blob {}\tHEAD\n", blob.text().unwrap());
        let inner = mirror.git.at(&mirror.path, ["mktree"]).stdin(file).run().await.unwrap().sha().unwrap();
        let mut bytes = format!("40000 {name}\0").into_bytes();
        let digits = inner.as_str().as_bytes().chunks(2);
        bytes.extend(digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()));
        let literal = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        let outer = mirror.git.at(&mirror.path, literal).stdin(bytes).run().await.unwrap().sha().unwrap();
        let commit = mirror.git.at(&mirror.path, ["commit-tree", "-m", "x", outer.as_str()]).run().await.unwrap();
        let reason = refused(check_out(&commit.sha().unwrap()).await);
        assert_eq!(reason.code, ReasonCode::RepositoryUnsupported, "{name}: {}", reason.text);
        assert!(reason.text.contains("remove the path from the branch"), "{name}: {}", reason.text);
    }
}

#[tokio::test]
async fn a_damaged_repository_of_the_built_in_host_is_not_mistaken_for_a_damaged_mirror() {
    let fixture = Fixture::new().await;
    let remote = Remote { is_ours: true, ..fixture.remote() };
    std::fs::write(fixture.origin().join("config"), "[x").unwrap();
    let reason = refused(fixture.mirrors().fetch(remote).await);
    assert_eq!(reason.code, ReasonCode::RepositoryUnsupported, "{}", reason.text);
}

#[tokio::test]
async fn a_push_is_tested_without_pushing() {
    let fixture = Fixture::new().await;
    let mirrors = fixture.mirrors();
    let mirror = mirrors.fetch(fixture.remote()).await.unwrap();
    check_push(&mirror, &fixture.remote(), BRANCH, &fixture.base).await.unwrap();
    assert_eq!(fixture.pushed().await, None);
    // Someone has other commits there: the push will rebase.
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.publish(BRANCH).await;
    check_push(&mirror, &fixture.remote(), BRANCH, &fixture.base).await.unwrap();
    let job = JobId::from_uuid(uuid::Uuid::from_u128(1));
    mirror.keep(&format!("{job}/head"), &fixture.base).await.unwrap();
    std::fs::remove_dir_all(fixture.origin()).unwrap();
    let reason = refused(check_push(&mirror, &fixture.remote(), BRANCH, &fixture.base).await);
    assert_eq!(reason.code, ReasonCode::RepositoryNotFound, "{}", reason.text);
}
