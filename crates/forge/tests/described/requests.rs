//! What the adapters request of the hosts, so that the comparison with the descriptions does not compare nothing.

use std::collections::BTreeSet;

use journeyman_core::checks::{CommitStatus, StatusState};
use journeyman_core::conversation::CommentTarget;
use journeyman_core::hook::HostUser;
use journeyman_core::ports::CreatedPull;
use journeyman_core::pull::PullChange;
use journeyman_testkit::code_host::Product;

use super::description::descriptions;
use super::recorded::compare;
use crate::hosts::fixtures::{Fixture, PATH, discussion, new_pull};

/// Opens, changes and discusses a pull request, reads its checks and sets the status of its commit. Returns the described
/// operations, as the method and the path with parameters.
async fn used(product: Product) -> BTreeSet<String> {
    let fixture = Fixture::new(product).await;
    let author = fixture.server.state().add_user("ada", "write").to_string();
    fixture.server.state().by_path(PATH).unwrap().labels.push("bot".to_owned());
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let CreatedPull::Created(pull) = forge.create_pull(&new_pull("work")).await.unwrap() else { panic!("not created") };
    forge.find_pulls("work").await.unwrap();
    let change = PullChange {
        title: Some("Better".to_owned()),
        body: Some("More.".to_owned()),
        reviewers: vec!["ada".to_owned()],
        ..PullChange::default()
    };
    forge.update_pull(pull.number, &change).await.unwrap();
    let discussion = discussion(&*forge);
    discussion.comment(CommentTarget::Pull(pull.number), "<!-- journeyman:1 -->", "Done.").await.unwrap();
    discussion.permission(&HostUser { id: author, name: "ada".to_owned(), is_bot: false }).await.unwrap();
    let status = CommitStatus {
        state: StatusState::Success,
        description: "Done".to_owned(),
        url: "https://j.example/1".to_owned(),
        branch: "work".to_owned(),
    };
    forge.checks().unwrap().set_status(&sha, &status).await.unwrap();
    forge.checks().unwrap().of_commit(&sha).await.unwrap();
    let exchanges = fixture.recorded.take();
    compare(product, &exchanges);
    let described = &descriptions(product)[0];
    let operations = exchanges.iter().filter_map(|one| Some((&one.call, described.operation(&one.call)?)));
    operations.map(|(call, operation)| format!("{} {}", call.method, operation.template)).collect()
}

async fn uses(product: Product, expected: &[&str]) {
    let used = used(product).await;
    for operation in expected {
        assert!(used.contains(*operation), "{product:?}: {operation} is not in {used:#?}");
    }
}

// A status is set only where the commit has a pipeline, which the tests of pipelines cover.
#[tokio::test]
async fn the_requests_to_gitlab_are_described() {
    uses(
        Product::Gitlab,
        &[
            "GET /projects/{id}",
            "POST /projects/{id}/merge_requests",
            "PUT /projects/{id}/merge_requests/{merge_request_iid}",
            "POST /projects/{id}/merge_requests/{noteable_id}/notes",
            "GET /projects/{id}/members/all/{user_id}",
            "GET /projects/{id}/repository/commits/{sha}/statuses",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_requests_to_gitea_and_forgejo_are_described() {
    for product in [Product::Gitea, Product::Forgejo] {
        uses(
            product,
            &[
                "GET /repos/{owner}/{repo}",
                "POST /repos/{owner}/{repo}/pulls",
                "PATCH /repos/{owner}/{repo}/pulls/{index}",
                "POST /repos/{owner}/{repo}/pulls/{index}/requested_reviewers",
                "POST /repos/{owner}/{repo}/issues/{index}/comments",
                "GET /repos/{owner}/{repo}/collaborators/{collaborator}/permission",
                "GET /repos/{owner}/{repo}/commits/{ref}/status",
                "POST /repos/{owner}/{repo}/statuses/{sha}",
            ],
        )
        .await;
    }
}

#[tokio::test]
async fn the_requests_to_bitbucket_are_described() {
    uses(
        Product::Bitbucket,
        &[
            "GET /repositories/{workspace}/{repo_slug}",
            "POST /repositories/{workspace}/{repo_slug}/pullrequests",
            "PUT /repositories/{workspace}/{repo_slug}/pullrequests/{pull_request_id}",
            "POST /repositories/{workspace}/{repo_slug}/pullrequests/{pull_request_id}/comments",
            "GET /workspaces/{workspace}/permissions/repositories/{repo_slug}",
            "GET /repositories/{workspace}/{repo_slug}/commit/{commit}/statuses",
            "POST /repositories/{workspace}/{repo_slug}/commit/{commit}/statuses/build",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_requests_to_bitbucket_data_center_are_described() {
    uses(
        Product::BitbucketDataCenter,
        &[
            "GET /api/latest/projects/{projectKey}/repos/{repositorySlug}",
            "POST /api/latest/projects/{projectKey}/repos/{repositorySlug}/pull-requests",
            "PUT /api/latest/projects/{projectKey}/repos/{repositorySlug}/pull-requests/{pullRequestId}",
            "POST /api/latest/projects/{projectKey}/repos/{repositorySlug}/pull-requests/{pullRequestId}/comments",
            "GET /build-status/latest/commits/{commitId}",
            "POST /api/latest/projects/{projectKey}/repos/{repositorySlug}/commits/{commitId}/builds",
        ],
    )
    .await;
}
