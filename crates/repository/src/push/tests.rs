//! Tests of commits that are repeated on top of those of people.

use journeyman_core::ids::Sha;
use journeyman_core::project::CiFiles;
use journeyman_core::run::ReasonCode;

use super::Pushed;
use crate::RepositoryError;
use crate::fixture::{BRANCH, Fixture};

/// Returns a fixture whose branch has a commit of people with these files. The clone is at the base again.
async fn with_people(base: &[(&str, Option<&str>)], people: &[(&str, Option<&str>)]) -> Fixture {
    let mut fixture = Fixture::new().await;
    if !base.is_empty() {
        fixture.base = fixture.commit(base).await;
        fixture.publish("main").await;
    }
    fixture.commit(people).await;
    fixture.publish(BRANCH).await;
    fixture.run(&["reset", "--quiet", "--hard", fixture.base.as_str()]).await;
    fixture
}

/// Pushes, and returns the new head.
async fn rebased(fixture: &Fixture) -> Sha {
    match fixture.push(CiFiles::Allow, false).await {
        Ok(Pushed::Rebased { head, .. }) => head,
        other => panic!("{other:?}"),
    }
}

async fn show(fixture: &Fixture, arguments: &[&str]) -> String {
    let mirror = fixture.mirrors().path(&fixture.remote().url);
    fixture.git.at(&mirror, arguments.iter().copied()).run().await.unwrap().text().unwrap()
}

#[tokio::test]
async fn commits_keep_their_order_authors_and_messages() {
    let fixture = with_people(&[], &[("people", Some("1"))]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    let author =
        ["commit", "--quiet", "--allow-empty", "--message", "Subject\n\nText", "--author", "Ada <ada@a.example>"];
    fixture.run(&[&author[..], &["--date", "@1700000000 +0530"]].concat()).await;
    fixture.commit(&[("b", None), ("d/c", Some("1"))]).await;
    let head = rebased(&fixture).await;
    let log = show(&fixture, &["log", "--format=%an|%ae|%ad|%cn|%s|%b", "--max-count=4", head.as_str()]).await;
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 4, "{log}");
    assert_eq!(lines[1], "Ada|ada@a.example|Wed Nov 15 03:43:20 2023 +0530|Journeyman|Subject|Text");
    let files = show(&fixture, &["ls-tree", "-r", "--name-only", head.as_str()]).await;
    assert!(files.ends_with("a\nd/c\npeople"), "{files}");
    assert!(!fixture.dir.path().join("rebase").exists(), "no file was checked out");
}

#[tokio::test]
async fn a_commit_whose_changes_people_have_made_too_is_left_out() {
    let fixture = with_people(&[], &[("a", Some("2")), ("people", Some("1"))]).await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    let head = rebased(&fixture).await;
    assert_eq!(show(&fixture, &["rev-list", "--count", &format!("{}..{head}", fixture.base)]).await, "2");
}

#[tokio::test]
async fn attributes_of_the_branch_apply_as_in_a_working_tree() {
    let log = |lines: &str| format!("{lines}end\n");
    let base = [(".gitattributes", Some("log merge=union\n")), ("log", Some("end\n"))];
    let (theirs, ours) = (log("theirs\n"), log("ours\n"));
    let fixture = with_people(&base, &[("log", Some(&theirs))]).await;
    fixture.commit(&[("log", Some(&ours))]).await;
    // Git before 2.43 reads no attributes there, and finds a conflict, which is told.
    match fixture.push(CiFiles::Allow, false).await {
        Ok(Pushed::Rebased { head, .. }) => {
            assert_eq!(show(&fixture, &["cat-file", "blob", &format!("{head}:log")]).await, "theirs\nours\nend");
        }
        Err(RepositoryError::Failed { reason, retry: false }) => assert_eq!(reason.code, ReasonCode::PushConflict),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn conflicting_commits_are_on_a_branch_of_their_own() {
    for merges in [false, true] {
        let fixture = with_people(&[], &[("a", Some("2"))]).await;
        if merges {
            fixture.run(&["checkout", "--quiet", "-b", "side"]).await;
            fixture.commit(&[("side", Some("1"))]).await;
            fixture.run(&["checkout", "--quiet", "main"]).await;
        }
        let head = fixture.commit(&[("a", Some("3"))]).await;
        let head = match merges {
            false => head,
            true => {
                fixture.run(&["merge", "--quiet", "--no-edit", "side"]).await;
                fixture.head().await
            }
        };
        let refused = fixture.push(CiFiles::Allow, false).await;
        let Err(RepositoryError::Failed { reason, retry: false }) = refused else { panic!("{refused:?}") };
        assert_eq!(reason.code, ReasonCode::PushConflict);
        let branch = format!("{BRANCH}-conflict-{}", &head.as_str()[..8]);
        assert!(reason.text.contains(&branch), "{}", reason.text);
        let found = fixture.git.at(&fixture.origin(), ["rev-parse", "--verify", &branch]).run().await.unwrap();
        assert_eq!(found.sha().unwrap(), head);
    }
}

#[tokio::test]
async fn a_resolved_merge_is_kept() {
    let fixture = with_people(&[], &[("people", Some("1"))]).await;
    fixture.run(&["checkout", "--quiet", "-b", "side"]).await;
    fixture.commit(&[("side", Some("1"))]).await;
    fixture.run(&["checkout", "--quiet", "main"]).await;
    fixture.commit(&[("a", Some("3"))]).await;
    fixture.run(&["merge", "--quiet", "--message", "Join\n\nJourneyman-Message: msg_1", "side"]).await;
    let own = fixture.head().await;
    let head = rebased(&fixture).await;
    let parents = show(&fixture, &["log", "-1", "--format=%P", head.as_str()]).await;
    assert!(parents.ends_with(own.as_str()), "{parents}");
    let message = show(&fixture, &["log", "-1", "--format=%B", head.as_str()]).await;
    assert_eq!(message, "Merge the newest commits of the branch\n\nJourneyman-Message: msg_1");
    assert!(show(&fixture, &["ls-tree", "--name-only", head.as_str()]).await.ends_with("a\npeople\nside"));
}
