//! Tests of turns that merge the branch of people, or that end with conflicts.

use journeyman_core::ids::Sha;
use journeyman_core::run::ReasonCode;

use super::{published, with_base};
use crate::commit::{CollectedCommits, Work};
use crate::fixtures::{Built, Fixture};

/// Commits to `main` as people do, and shows it to the agent.
async fn people_commit(fixture: &Fixture, files: &[(&str, &str)]) -> Sha {
    let commit = fixture.commit("main", files);
    fixture.mirror().await;
    fixture.sandbox.workspace.set_upstream("main", &commit).await.unwrap();
    commit
}

/// Returns the parents of a commit.
async fn parents(fixture: &Fixture, commit: &Sha) -> Vec<Sha> {
    let mirror = fixture.mirror().await;
    let listed = ["rev-list", "--parents", "--max-count=1", commit.as_str()];
    let line = mirror.git.at(&mirror.path, listed).run().await.unwrap().text().unwrap();
    line.split_whitespace().skip(1).map(|sha| sha.parse().unwrap()).collect()
}

/// Collects a turn whose work must be unfinished, and returns the prompt for the agent.
async fn unfinished(fixture: &Fixture, before: &Built) -> String {
    match fixture.work(before).await.unwrap() {
        Work::Unfinished(unfinished) => {
            assert_eq!(unfinished.reason().code, ReasonCode::UnresolvedConflicts);
            unfinished.prompt()
        }
        Work::Committed(CollectedCommits { head, .. }) => panic!("{head} is committed"),
    }
}

/// A job whose first turn has changed line 2 of `a`, while people have changed line `theirs`.
async fn two_sides(theirs: usize) -> (Fixture, Built, Sha) {
    let (fixture, before) = with_base("printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n' > a").await;
    fixture.run("sed -i 's/^2$/two/' a; git commit -qam two");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(collected.commits.len(), 1);
    let next = fixture.next(&before, collected);
    let lines: Vec<String> =
        (1..10).map(|line| if line == theirs { "changed".to_owned() } else { line.to_string() }).collect();
    let upstream = people_commit(&fixture, &[("a", &format!("{}\n", lines.join("\n"))), ("theirs", "1")]).await;
    (fixture, next, upstream)
}

#[tokio::test]
async fn a_merge_keeps_its_parents_and_only_the_agents_commits_count() {
    let (fixture, before, upstream) = two_sides(8).await;
    fixture
        .run("echo mine > b; git add b; git commit -qm mine; git merge -q -m 'Merge main' origin/main; echo after > c");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(collected.commits.len(), 3, "its commit, its merge, and what it has not committed");
    assert!(!collected.commits.contains(&upstream));
    assert_eq!(parents(&fixture, &collected.commits[1]).await, [collected.commits[0].clone(), upstream]);
    let found = published(&fixture, &before, collected.head.as_str()).await;
    assert_eq!(found, ["M\ta", "A\tb", "A\tc", "A\ttheirs"]);
    let next = fixture.next(&before, collected);
    assert_eq!(fixture.collect(&next).await.unwrap().head, next.head);
}

#[tokio::test]
async fn a_rebase_onto_the_branch_of_people_is_published_as_a_merge() {
    let (fixture, before, upstream) = two_sides(8).await;
    fixture.run("git rebase -q origin/main; echo mine > b");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(collected.commits, std::slice::from_ref(&collected.head));
    assert_eq!(parents(&fixture, &collected.head).await, [before.head.clone(), upstream]);
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\ta", "A\tb", "A\ttheirs"]);
    assert_eq!(fixture.head().await, collected.head.to_string(), "the agent goes on from there");
}

#[tokio::test]
async fn following_the_branch_of_people_is_no_work() {
    let (fixture, before) = with_base("echo 1 > a").await;
    let upstream = people_commit(&fixture, &[("theirs", "1")]).await;
    fixture.run("git merge -q origin/main");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!((&collected.head, collected.commits.len()), (&before.head, 0));
    let next = fixture.next(&before, collected);
    fixture.run("echo 2 > a");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(parents(&fixture, &collected.head).await, [upstream]);
    assert_eq!(published(&fixture, &next, collected.head.as_str()).await, ["M\ta", "A\ttheirs"]);
}

#[tokio::test]
async fn conflicts_are_not_published_until_they_are_resolved() {
    let (fixture, before, upstream) = two_sides(2).await;
    fixture.run("echo mine > b; git merge -q origin/main || true");
    let prompt = unfinished(&fixture, &before).await;
    assert!(prompt.contains("a merge is not concluded, and there are conflicts in a."), "{prompt}");
    fixture.run("git add a; git commit -qm 'with the marks'");
    let prompt = unfinished(&fixture, &before).await;
    assert!(prompt.contains("published: there are conflicts in a."), "{prompt}");
    fixture.run("printf '1\\nboth\\n' > a; git commit -qam resolved");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\ta", "A\tb", "A\ttheirs"]);
    let merged = parents(&fixture, &collected.commits[0]).await;
    assert_eq!(merged, [before.head.clone(), upstream]);
}

#[tokio::test]
async fn files_beside_conflicts_are_published_once_the_conflicts_are_resolved() {
    // The service has stored the new file for a commit that it did not make.
    let (fixture, before) = with_base("echo 1 > a").await;
    fixture.run("echo new > b; printf '<<<<<<< a\\n=======\\n>>>>>>> b\\n' > a");
    unfinished(&fixture, &before).await;
    fixture.run("echo resolved > a");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\ta", "A\tb"]);
}

#[tokio::test]
async fn an_operation_that_is_not_concluded_is_named() {
    for (commands, operation) in [
        ("git rebase -q origin/main || true", "rebase"),
        ("git cherry-pick origin/main || true", "cherry-pick"),
        ("git revert --no-edit origin/main || true", "revert"),
    ] {
        let (fixture, before, _) = two_sides(2).await;
        fixture.run(commands);
        let prompt = unfinished(&fixture, &before).await;
        assert!(prompt.contains(&format!("a {operation} is not concluded")), "{prompt}");
    }
}

#[tokio::test]
async fn marks_that_were_there_before_do_not_count() {
    let marks = "<<<<<<< a\\n=======\\n>>>>>>> b\\n";
    let (fixture, before) = with_base(&format!("printf '{marks}' > example")).await;
    people_commit(&fixture, &[("other", "<<<<<<< a\n=======\n>>>>>>> b\n")]).await;
    fixture.run("echo more >> example; git merge -q origin/main; echo more >> other");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["M\texample", "A\tother"]);
    let next = fixture.next(&before, collected);
    fixture.run(r"cp example copy; printf '<<<<<<< a\n1\n=======\n>>>>>>> b\n' > new");
    let prompt = unfinished(&fixture, &next).await;
    assert!(prompt.contains("conflicts in new"), "{prompt}");
}
