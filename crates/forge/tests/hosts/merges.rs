//! The merge of pull requests when all requirements are met, and what hosts tell about it.

use http::Method;
use journeyman_core::checks::{Check, CheckState};
use journeyman_core::open_pull::{Ensure, Ensured};
use journeyman_core::pull::NewPull;
use journeyman_testkit::code_host::{Fault, Product, PullState};
use serde_json::json;

use super::fixtures::{Fixture, PATH, PRODUCTS, new_pull};

/// Opens a pull request that is to be merged, and returns its number and what could not be set.
async fn opened(fixture: &Fixture, new: NewPull) -> (u64, String) {
    let head = fixture.branch(&new.head).await;
    let forge = fixture.forge().await;
    let ensure = Ensure { forge: &*forge, locks: &*fixture.store, clock: &*fixture.world, ids: &*fixture.world };
    match ensure.run(&new, &head).await.unwrap() {
        Ensured::Opened { pull, incomplete } => (pull.number, incomplete.join("; ")),
        other => panic!("{other:?}"),
    }
}

fn to_be_merged() -> NewPull {
    NewPull { auto_merge: true, ..new_pull("work") }
}

/// The products whose interfaces have a request to merge later.
const MERGING: [Product; 5] =
    [Product::Github, Product::Gitlab, Product::Gitea, Product::Forgejo, Product::BitbucketDataCenter];

#[tokio::test]
async fn a_pull_request_is_merged_when_its_requirements_are_met() {
    for product in MERGING {
        let fixture = Fixture::new(product).await;
        {
            let mut state = fixture.server.state();
            let repository = state.by_path(PATH).unwrap();
            repository.has_requirements = true;
            "ci_still_running".clone_into(&mut repository.merge_status);
        }
        let (number, incomplete) = opened(&fixture, to_be_merged()).await;
        assert_eq!(incomplete, "", "{product:?}");
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        assert_eq!(repository.auto_merges, [number], "{product:?}");
        assert_eq!(repository.pulls[0].state, PullState::Open, "{product:?}");
    }
}

#[tokio::test]
async fn a_pull_request_without_requirements_is_not_merged() {
    for product in MERGING {
        let fixture = Fixture::new(product).await;
        "mergeable".clone_into(&mut fixture.server.state().by_path(PATH).unwrap().merge_status);
        let (_, incomplete) = opened(&fixture, to_be_merged()).await;
        assert!(incomplete.contains("nothing is left to wait for"), "{product:?}: {incomplete}");
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        assert_eq!(repository.auto_merges, [] as [u64; 0], "{product:?}");
        assert_eq!(repository.pulls[0].state, PullState::Open, "{product:?}");
    }
}

#[tokio::test]
async fn what_prevents_the_request_is_told() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let (_, incomplete) = opened(&fixture, NewPull { draft: true, ..to_be_merged() }).await;
        assert!(incomplete.contains("because it is a draft"), "{product:?}: {incomplete}");
    }
    let fixture = Fixture::new(Product::Bitbucket).await;
    let (_, incomplete) = opened(&fixture, to_be_merged()).await;
    assert!(incomplete.contains("has no request for it"), "{incomplete}");
    for (product, text) in [
        (Product::Github, "does not allow auto-merge"),
        (Product::BitbucketDataCenter, "auto-merge is not enabled for the repository"),
    ] {
        let fixture = Fixture::new(product).await;
        {
            let mut state = fixture.server.state();
            let repository = state.by_path(PATH).unwrap();
            (repository.forbids_auto_merge, repository.has_requirements) = (true, true);
        }
        let (_, incomplete) = opened(&fixture, to_be_merged()).await;
        assert!(incomplete.contains(text), "{product:?}: {incomplete}");
    }
    // The user may push, and not merge.
    let fixture = Fixture::new(Product::Gitlab).await;
    "not_approved".clone_into(&mut fixture.server.state().by_path(PATH).unwrap().merge_status);
    fixture.server.fault(Fault::Unauthorized, Method::PUT, "/merge", 1);
    let (_, incomplete) = opened(&fixture, to_be_merged()).await;
    assert!(incomplete.contains("may not merge into the target branch"), "{incomplete}");
    // GitLab still looks for conflicts after some seconds.
    let fixture = Fixture::new(Product::Gitlab).await;
    let (_, incomplete) = opened(&fixture, to_be_merged()).await;
    assert!(incomplete.contains("had not found out in time"), "{incomplete}");
}

/// Returns what is told about the merge of the pull request of a new branch with this base.
async fn note(fixture: &Fixture, branch: &str, base: &str) -> Option<Check> {
    let new = NewPull { base: Some(base.to_owned()), ..new_pull(branch) };
    opened(fixture, new).await;
    let sha = fixture.server.head(PATH, branch).await.unwrap().parse().unwrap();
    let found = fixture.forge().await.checks().unwrap().of_commit(&sha).await.unwrap();
    found.into_iter().find(|check| matches!(check.name.as_str(), "Pull request" | "Merge request"))
}

#[tokio::test]
async fn a_stacked_pull_request_is_told() {
    for product in [Product::Gitlab, Product::Gitea, Product::Forgejo, Product::Bitbucket, Product::BitbucketDataCenter]
    {
        let fixture = Fixture::new(product).await;
        assert_eq!(note(&fixture, "step", "main").await, None, "{product:?}");
        let note = note(&fixture, "work", "step").await.unwrap_or_else(|| panic!("{product:?}"));
        assert_eq!(note.state, CheckState::Ignored, "{product:?}");
        let summary = note.summary.unwrap();
        assert!(summary.starts_with("It is stacked on "), "{product:?}: {summary}");
    }
}

#[tokio::test]
async fn the_merge_queue_and_code_owners_of_github_are_told() {
    let fixture = Fixture::new(Product::Github).await;
    let owner = json!({"asCodeOwner": true, "requestedReviewer": {"login": "ada"}});
    fixture.server.state().by_path(PATH).unwrap().merge_state = json!({
        "mergeStateStatus": "BLOCKED", "reviewDecision": "REVIEW_REQUIRED", "isInMergeQueue": true,
        "mergeQueueEntry": {"position": 2, "state": "QUEUED"}, "reviewRequests": {"nodes": [owner]},
        "baseRef": {"associatedPullRequests": {"nodes": [{"number": 9}]}},
    });
    let summary = note(&fixture, "work", "main").await.unwrap().summary.unwrap();
    for part in ["approvals are missing", "ada (code owner)", "number 2 in the merge queue", "stacked on #9"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
}
