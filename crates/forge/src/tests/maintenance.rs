//! Tests of the maintenance of repositories of the built-in host.

use std::time::Duration;

use journeyman_core::git_maintenance::Maintenance;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Maintains the repository at a time, as the first time in a week.
async fn maintain(setup: &Setup, now: Timestamp) {
    let record = Maintenance { packed_at: Some(now - DAY), swept_at: now - DAY, repacked_at: now - DAY * 8 };
    std::fs::write(setup.hosts.local().path("shop").join("journeyman-maintenance"), record.text()).unwrap();
    setup.hosts.local().maintain("shop", now).await.unwrap();
}

async fn git(setup: &Setup, arguments: &[&str]) -> String {
    let path = setup.hosts.local().path("shop");
    setup.git.at(&path, arguments).run().await.unwrap().text().unwrap()
}

async fn end(setup: &Setup, number: u64, state: PullState, between: (Sha, Sha)) {
    let ending = PullEnding { state, by: None, at: at(), between: Some(between), commit: None };
    setup.store.end_pull("shop", number, ending).await.unwrap();
}

#[tokio::test]
async fn pages_of_ended_pull_requests_keep_their_commits_after_the_branch_was_deleted() {
    let setup = setup().await;
    let (pages, base) = (setup.hosts.local(), setup.revision("main").await);
    for (number, branch) in [(1, "closed"), (2, "merged"), (3, "abandoned")] {
        setup.checkout(base.as_str()).await;
        setup.commit(branch, branch, "text\n").await;
        setup.open(&pull(branch)).await.unwrap();
        assert!(pages.ends(&setup.project, number).await.unwrap().is_some());
    }
    let closed = pages.ends(&setup.project, 1).await.unwrap().unwrap();
    end(&setup, 1, PullState::Closed, closed.clone()).await;
    let merged = pages.ends(&setup.project, 2).await.unwrap().unwrap();
    pages.merge(&setup.project, 2, &by_ci(MergeMethod::Merge)).await.unwrap();
    end(&setup, 2, PullState::Merged, merged).await;
    let before = [pages.pull(&setup.project, 1).await.unwrap(), pages.pull(&setup.project, 2).await.unwrap()];
    let abandoned = setup.revision("abandoned").await;
    for branch in ["closed", "merged", "abandoned"] {
        git(&setup, &["update-ref", "-d", &format!("refs/heads/{branch}")]).await;
    }
    let now = Timestamp::from_micros(1_900_000_000_000_000);
    maintain(&setup, now).await;
    let kept = git(&setup, &["for-each-ref", "--format=%(objectname) %(refname)", "refs/journeyman"]).await;
    assert_eq!(kept, format!("{} refs/journeyman/pulls/1/head", closed.1), "the branch main has the others");
    maintain(&setup, now + DAY * 30).await;
    for (number, before) in [(1, &before[0]), (2, &before[1])] {
        assert_eq!(&pages.pull(&setup.project, number).await.unwrap(), before);
    }
    let path = pages.path("shop");
    let gone = setup.git.at(&path, ["cat-file", "-e", abandoned.as_str()]).run().await;
    assert!(gone.is_err(), "nothing needs it");
    git(&setup, &["update-ref", "refs/heads/closed", closed.1.as_str()]).await;
    maintain(&setup, now + DAY * 60).await;
    assert_eq!(git(&setup, &["for-each-ref", "refs/journeyman"]).await, "", "a branch has the commit");
    git(&setup, &["fsck", "--strict"]).await;
}

#[tokio::test]
async fn only_repositories_are_listed() {
    let setup = setup().await;
    std::fs::create_dir(setup.dir.path().join("repos/.shop.1.0")).unwrap();
    assert_eq!(setup.hosts.local().names().await.unwrap(), ["shop"]);
}
