//! Tests of pushes of commits that change files of CI pipelines, with real repositories.

use std::path::Path;

use journeyman_core::project::CiFiles;
use journeyman_core::run::ReasonCode;

use crate::RepositoryError;
use crate::fixture::{BRANCH, Fixture, WORKFLOW};
use crate::push::Pushed;

impl Fixture {
    async fn assert_pushed(&self) {
        let pushed = self.push(CiFiles::Refuse, false).await;
        assert!(matches!(pushed, Ok(Pushed::Done)), "{pushed:?}");
        assert_eq!(self.pushed().await, Some(self.head().await));
    }

    /// Asserts that nothing is pushed, because the named file is changed.
    async fn assert_refused(&self, file: &str) {
        let before = self.pushed().await;
        let refused = self.push(CiFiles::Refuse, false).await;
        let Err(RepositoryError::Failed { reason, retry: false }) = refused else { panic!("{refused:?}") };
        assert_eq!(reason.code, ReasonCode::CiFilesChanged);
        let text = reason.text;
        assert!(text.contains(&format!("{file:?}")) && text.contains("pullRequest.ciFiles"), "{text}");
        assert_eq!(self.pushed().await, before);
    }
}

#[tokio::test]
async fn commits_that_change_ci_files_are_pushed_only_if_the_project_allows_it() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.assert_pushed().await;
    fixture.commit(&[(WORKFLOW, Some("on: pull_request_target"))]).await;
    fixture.assert_refused(WORKFLOW).await;
    assert!(matches!(fixture.push(CiFiles::Allow, false).await, Ok(Pushed::Done)));
    fixture.commit(&[("a", Some("3"))]).await;
    fixture.assert_pushed().await;
}

#[tokio::test]
async fn the_built_in_host_runs_no_pipelines() {
    let fixture = Fixture::new().await;
    fixture.commit(&[(WORKFLOW, Some("on: release"))]).await;
    assert!(matches!(fixture.push(CiFiles::Refuse, true).await, Ok(Pushed::Done)));
}

#[tokio::test]
async fn a_project_names_more_ci_files() {
    let mut fixture = Fixture::new().await;
    fixture.ci_paths = vec!["deploy/".to_owned()];
    fixture.commit(&[("deploy/run.sh", Some("x"))]).await;
    fixture.assert_refused("deploy/run.sh").await;
    fixture.commit(&[("deploy/run.sh", None), ("a", Some("2"))]).await;
    assert!(matches!(fixture.push(CiFiles::Refuse, false).await, Ok(Pushed::Rebased { .. })), "pushed as one commit");
}

#[tokio::test]
async fn what_a_link_among_the_ci_files_leads_to_is_one_too() {
    use std::os::unix::fs::symlink;
    let mut fixture = Fixture::new().await;
    let tree = fixture.clone();
    std::fs::create_dir_all(tree.join("ci/more")).unwrap();
    std::fs::create_dir_all(tree.join(".circleci")).unwrap();
    for file in ["ci/real.yml", "ci/build", "ci/more/a", "ci/other"] {
        std::fs::write(tree.join(file), "1").unwrap();
    }
    symlink("../ci/link.yml", tree.join(".circleci/config.yml")).unwrap();
    symlink("real.yml", tree.join("ci/link.yml")).unwrap();
    symlink("./ci/build", tree.join("Jenkinsfile")).unwrap();
    symlink("ci/more", tree.join(".buildkite")).unwrap();
    symlink("../../../outside", tree.join(".circleci/outside")).unwrap();
    symlink("loop.yml", tree.join(".circleci/loop.yml")).unwrap();
    fixture.base = fixture.commit_all().await;
    fixture.publish("main").await;
    for (file, is_refused) in [("ci/build", true), ("ci/more/a", true), ("ci/other", false)] {
        fixture.commit(&[(file, Some("2"))]).await;
        if is_refused {
            fixture.assert_refused(file).await;
            fixture.run(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
        } else {
            fixture.assert_pushed().await;
        }
    }
}

#[tokio::test]
async fn files_that_ci_files_include_are_ci_files_too() {
    let mut fixture = Fixture::new().await;
    fixture.ci_paths = vec!["Main.yml".to_owned()];
    let tree = fixture.clone();
    std::fs::create_dir_all(tree.join("ci/deep")).unwrap();
    std::fs::create_dir_all(tree.join("tools/setup")).unwrap();
    let files = [
        (".gitlab-ci.yml", "include:\n  - local: /ci/A.yml\n"),
        ("ci/A.yml", "include: 'ci/deep/*.yml'\n"),
        ("ci/deep/b.yml", "include: ci/c.yml\n"),
        ("ci/c.yml", "include: .gitlab-ci.yml\n"),
        ("ci/other.yml", "1"),
        ("Main.yml", "include: ci/from-main.yml"),
        ("ci/from-main.yml", "1"),
        ("tools/setup/run.sh", "1"),
        ("tools/other.sh", "1"),
        (WORKFLOW, "jobs:\n  a:\n    steps:\n      - uses: ./tools/setup\n"),
    ];
    for (file, text) in files {
        std::fs::write(tree.join(file), text).unwrap();
    }
    fixture.base = fixture.commit_all().await;
    fixture.publish("main").await;
    for (file, is_refused) in [
        ("ci/A.yml", true),
        ("ci/deep/b.yml", true),
        ("ci/deep/new.yml", true),
        ("ci/c.yml", true),
        ("ci/from-main.yml", true),
        ("tools/setup/run.sh", true),
        ("ci/other.yml", false),
        ("tools/other.sh", false),
    ] {
        fixture.commit(&[(file, Some("2"))]).await;
        if is_refused {
            fixture.assert_refused(file).await;
            fixture.run(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
        } else {
            fixture.assert_pushed().await;
        }
    }
}

#[tokio::test]
async fn ci_files_are_found_in_every_kind_of_change() {
    type Change = fn(&Path);
    let changes: [(&str, &str, Change); 8] = [
        ("a new file", ".gitlab-ci.yml", |tree| std::fs::write(tree.join(".gitlab-ci.yml"), "x").unwrap()),
        ("a new file in another case", ".GitHub/Workflows/x.yml", |tree| {
            std::fs::create_dir_all(tree.join(".GitHub/Workflows")).unwrap();
            std::fs::write(tree.join(".GitHub/Workflows/x.yml"), "x").unwrap();
        }),
        ("a deletion", WORKFLOW, |tree| std::fs::remove_file(tree.join(WORKFLOW)).unwrap()),
        ("a rename out of the folder", WORKFLOW, |tree| std::fs::rename(tree.join(WORKFLOW), tree.join("x")).unwrap()),
        ("a rename into the folder", ".github/workflows/b", |tree| {
            std::fs::rename(tree.join("a"), tree.join(".github/workflows/b")).unwrap();
        }),
        ("another mode", WORKFLOW, |tree| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(tree.join(WORKFLOW), mode).unwrap();
        }),
        ("a link in place of the folder", ".gitea", |tree| {
            std::fs::create_dir_all(tree.join("ci/workflows")).unwrap();
            std::fs::write(tree.join("ci/workflows/x.yml"), "x").unwrap();
            std::os::unix::fs::symlink("ci", tree.join(".gitea")).unwrap();
        }),
        ("a link in place of a folder with files", ".github", |tree| {
            std::fs::rename(tree.join(".github"), tree.join("ci")).unwrap();
            std::os::unix::fs::symlink("ci", tree.join(".github")).unwrap();
        }),
    ];
    for (what, file, change) in changes {
        let fixture = Fixture::new().await;
        change(&fixture.clone());
        fixture.commit_all().await;
        fixture.assert_refused(file).await;
        assert_eq!(fixture.pushed().await, None, "{what}");
    }
}

#[tokio::test]
async fn a_change_that_the_agent_has_undone_is_pushed_without_the_commits_that_contain_it() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.assert_pushed().await;
    let before = fixture.head().await;
    fixture.commit(&[(WORKFLOW, Some("on: release")), ("b", Some("1"))]).await;
    fixture.assert_refused(WORKFLOW).await;
    fixture.commit(&[(WORKFLOW, Some("on: push"))]).await;
    let undone = fixture.head().await;
    let Ok(Pushed::Rebased { head, commits, bundle: None, .. }) = fixture.push(CiFiles::Refuse, false).await else {
        panic!("the commits were not replaced");
    };
    assert_eq!((fixture.pushed().await, commits.as_slice()), (Some(before.clone()), std::slice::from_ref(&head)));
    let pushed = fixture.push_commit(&head, CiFiles::Refuse, false).await;
    assert!(matches!(pushed, Ok(Pushed::Done)), "{pushed:?}");
    let origin = |arguments: &[&str]| fixture.git.at(&fixture.origin(), arguments).run();
    let parent = format!("{head}^");
    assert_eq!(origin(&["rev-parse", &parent]).await.unwrap().sha().unwrap(), before);
    let (ours, theirs) = (format!("{head}^{{tree}}"), format!("{undone}^{{tree}}"));
    let tree = fixture.run(&["rev-parse", &theirs]).await;
    assert_eq!(origin(&["rev-parse", &ours]).await.unwrap().text().unwrap(), tree);
    assert!(origin(&["cat-file", "-e", undone.as_str()]).await.is_err(), "the code host has no other commit");
}

#[tokio::test]
async fn a_change_that_people_have_accepted_may_be_merged_into_the_branch() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.assert_pushed().await;
    fixture.run(&["checkout", "--quiet", "-b", "people", fixture.base.as_str()]).await;
    fixture.commit(&[(WORKFLOW, Some("on: release"))]).await;
    fixture.publish("main").await;
    fixture.run(&["checkout", "--quiet", "main"]).await;
    fixture.run(&["merge", "--quiet", "--no-edit", "people"]).await;
    fixture.assert_pushed().await;
    // A merge that also changes the file itself is refused.
    fixture.run(&["checkout", "--quiet", "people"]).await;
    fixture.commit(&[("c", Some("1"))]).await;
    fixture.publish("main").await;
    fixture.run(&["checkout", "--quiet", "main"]).await;
    fixture.run(&["merge", "--quiet", "--no-commit", "people"]).await;
    fixture.commit(&[(WORKFLOW, Some("on: release and more"))]).await;
    fixture.assert_refused(WORKFLOW).await;
}

#[tokio::test]
async fn changes_of_people_on_the_branch_are_not_those_of_the_job() {
    let fixture = Fixture::new().await;
    fixture.commit(&[("a", Some("2"))]).await;
    fixture.assert_pushed().await;
    fixture.run(&["branch", "people"]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    let ours = fixture.head().await;
    fixture.run(&["checkout", "--quiet", "people"]).await;
    fixture.commit(&[(WORKFLOW, Some("on: release"))]).await;
    fixture.publish(BRANCH).await;
    fixture.run(&["checkout", "--quiet", "main"]).await;
    let rebased = fixture.push(CiFiles::Refuse, false).await;
    let Ok(Pushed::Rebased { head, .. }) = rebased else { panic!("{rebased:?}") };
    assert_ne!(head, ours);
    let pushed = fixture.push_commit(&head, CiFiles::Refuse, false).await;
    assert!(matches!(pushed, Ok(Pushed::Done)), "{pushed:?}");
}

#[tokio::test]
async fn commits_that_were_never_pushed_do_not_hide_a_change_behind_the_start_of_the_job() {
    let mut fixture = Fixture::new().await;
    // Another job has made this commit, and this job starts from it.
    fixture.base = fixture.commit(&[(WORKFLOW, Some("on: release"))]).await;
    fixture.commit(&[("b", Some("1"))]).await;
    fixture.assert_refused(WORKFLOW).await;
}
