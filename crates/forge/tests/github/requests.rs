//! The comparison of all requests of the client, and of the stand-in's answers, with GitHub's descriptions.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use journeyman_core::checks::{CommitStatus, StatusState};
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{CommentRef, CommentTarget, InThread, NewReply, Reaction, Replied};
use journeyman_core::hook::{CommentKind, HostUser};
use journeyman_core::poll::{PollQuery, WatchedPull};
use journeyman_core::ports::{CreatedPull, Forge, HostAdmin as _};
use journeyman_core::position::Thread;
use journeyman_core::pull::PullChange;
use journeyman_core::time::Timestamp;
use journeyman_testkit::code_host::{
    ApiRequest, Check, CommentReply, CommentedOn, Exchange, Issue, Product, Review, ReviewComment, State,
};

use super::packages::{FOLDER, packaged};
use crate::described::description::descriptions;
use crate::described::recorded::{compare, is_graphql};
use crate::hosts::app;
use crate::hosts::fixtures::{Fixture, PATH, discussion, new_pull};

/// The operations that the client uses, as GitHub names them.
const OPERATIONS: [&str; 36] = [
    "actions/download-job-logs-for-workflow-run",
    "actions/list-jobs-for-workflow-run",
    "actions/list-workflow-runs-for-repo",
    "apps/create-from-manifest",
    "apps/create-installation-access-token",
    "apps/get-authenticated",
    "apps/get-repo-installation",
    "apps/list-installations",
    "checks/list-for-ref",
    "issues/add-assignees",
    "issues/add-labels",
    "issues/create-comment",
    "issues/get",
    "issues/list-comments",
    "issues/list-comments-for-repo",
    "issues/list-events",
    "issues/list-for-repo",
    "issues/update-comment",
    "pulls/create",
    "pulls/create-reply-for-review-comment",
    "pulls/get",
    "pulls/get-review",
    "pulls/list",
    "pulls/list-review-comments",
    "pulls/list-reviews",
    "pulls/request-reviewers",
    "pulls/update",
    "reactions/create-for-issue",
    "reactions/create-for-issue-comment",
    "reactions/create-for-pull-request-review-comment",
    "repos/create-commit-status",
    "repos/get",
    "repos/get-collaborator-permission-level",
    "repos/get-combined-status-for-ref",
    "users/get-authenticated",
    "users/get-by-username",
];

/// Uses everything that the client can do with a token, and returns the requests.
async fn with_token() -> Vec<Exchange> {
    let fixture = Fixture::new(Product::Github).await;
    let ada = fixture.server.state().add_user("ada", "write");
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let number = changed_pull(&*forge).await;
    forge.find_pulls("work").await.unwrap();
    let issue = fixture.server.state().by_path(PATH).unwrap().next_number();
    discuss(&fixture, &*forge, number, (issue, ada)).await;

    let checks = forge.checks().unwrap();
    let check =
        Check { id: 1, sha: sha.to_string(), name: "test".to_owned(), passed: Some(true), log: "passed".to_owned() };
    fixture.server.state().by_path(PATH).unwrap().checks = vec![check];
    for state in [StatusState::Pending, StatusState::Failure, StatusState::Success] {
        let status = CommitStatus {
            state,
            description: "Working".to_owned(),
            url: "https://j.example/1".to_owned(),
            branch: "work".to_owned(),
        };
        checks.set_status(&sha, &status).await.unwrap();
    }
    for is_fine_grained in [false, true] {
        fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().is_fine_grained = is_fine_grained;
        checks.of_commit(&sha).await.unwrap();
    }
    checks.log("1", 1000).await.unwrap().unwrap();

    let repository = forge.repository().await.unwrap().id;
    let head = "work".to_owned();
    let watched = WatchedPull { repository, number, head, head_sha: None, state: PullState::Open };
    let issue_label = Some("go".to_owned());
    let query =
        PollQuery { cursor: None, from: Timestamp::default(), pulls: vec![watched], issue_label, confirms: true };
    forge.changes().unwrap().poll(&query).await.unwrap();
    fixture.server.state().by_path(PATH).unwrap().has_no_issues = true;
    forge.changes().unwrap().poll(&query).await.unwrap();
    fixture.recorded.take()
}

/// Opens a pull request, makes every change of it, and returns its number.
async fn changed_pull(forge: &dyn Forge) -> u64 {
    let mut new = new_pull("work");
    new.draft = true;
    let CreatedPull::Created(pull) = forge.create_pull(&new).await.unwrap() else { panic!("not created") };
    assert_eq!(forge.create_pull(&new).await, Ok(CreatedPull::AlreadyExists));
    let change = PullChange {
        title: Some("Better".to_owned()),
        body: Some("More.".to_owned()),
        draft: Some(false),
        labels: vec!["bot".to_owned()],
        reviewers: vec!["ada".to_owned(), "acme/reviewers".to_owned()],
        assignees: vec!["ada".to_owned()],
    };
    forge.update_pull(pull.number, &change).await.unwrap();
    forge.update_pull(pull.number, &PullChange { draft: Some(true), ..PullChange::default() }).await.unwrap();
    pull.number
}

/// Writes and reads comments, reactions and reviews on a pull request and on a new issue by a user.
async fn discuss(fixture: &Fixture, forge: &dyn Forge, number: u64, (issue, author): (u64, u64)) {
    let line = ReviewComment { id: 31, body: "rename".into(), path: "a.rs".into(), line: 7, reactions: Vec::new() };
    let review = Review { id: 9, pull: number, author, body: "Please.".to_owned(), comments: vec![line] };
    let labeled =
        Issue { number: issue, title: "Crash".to_owned(), author, labels: vec!["go".to_owned()], ..Issue::default() };
    let comment = {
        let mut state = fixture.server.state();
        state.by_path(PATH).unwrap().reviews.push(review);
        state.by_path(PATH).unwrap().issues.push(labeled);
        state.add_comment(PATH, CommentedOn::Issue(issue), author, "@journeyman fix it")
    };
    let discussion = discussion(forge);
    discussion.me().await.unwrap();
    for target in [CommentTarget::Pull(number), CommentTarget::Issue(issue)] {
        discussion.comment(target, "<!-- journeyman:1 -->", "Working.").await.unwrap();
        discussion.show(target, "<!-- journeyman:1 -->", "Done.", false).await.unwrap().unwrap();
    }
    let (marker, text) = ("<!-- journeyman:2 -->".to_owned(), "Renamed.".to_owned());
    let to = InThread { kind: CommentKind::Line, id: "31".to_owned(), thread: Thread::begun_by("31"), review: None };
    let replied = discussion.reply(CommentTarget::Pull(number), &[NewReply { to, marker, text }]).await.unwrap();
    assert!(matches!(replied.as_slice(), [Replied::Written(_)]), "{replied:?}");
    for (kind, number, id) in [
        (CommentKind::Pull, number, comment.to_string()),
        (CommentKind::Issue, issue, comment.to_string()),
        (CommentKind::Issue, issue, String::new()),
        (CommentKind::Line, number, "31".to_owned()),
        (CommentKind::Review, number, "9".to_owned()),
    ] {
        for reaction in [Reaction::Seen, Reaction::Done, Reaction::Failed] {
            discussion.react(&CommentRef { kind, number, id: id.clone() }, reaction).await.unwrap();
        }
    }
    assert_eq!(discussion.review(number, "9").await.unwrap().len(), 1);
    // The reply is in a review of its own, without a text.
    assert_eq!(discussion.reviews(number).await.unwrap().len(), 2);
    assert_eq!(discussion.issue(issue).await.unwrap().unwrap().title, "Crash");
    let user = HostUser { id: author.to_string(), name: "ada".to_owned(), is_bot: false };
    discussion.permission(&user).await.unwrap();
}

/// Uses everything that the client can do with a GitHub App only, and returns the requests.
async fn with_app() -> Vec<Exchange> {
    let fixture = app::fixture().await;
    let forge = fixture.forge().await;
    forge.remote().await.unwrap();
    discussion(&*forge).me().await.unwrap();
    fixture.hosts.check_host(&fixture.host.id).await.unwrap().unwrap();
    fixture.server.state().manifest_codes.insert("good".to_owned(), Some("hook".to_owned()));
    fixture.hosts.created_app(&fixture.host, "good").await.unwrap();
    fixture.recorded.take()
}

#[tokio::test]
async fn all_requests_of_the_client_are_as_github_describes_them() {
    let mut exchanges = with_token().await;
    exchanges.extend(with_app().await);
    for described in descriptions(Product::Github) {
        let operations = exchanges.iter().filter_map(|exchange| described.operation(&exchange.call));
        let operations: BTreeSet<&str> = operations.map(|operation| operation.id).collect();
        assert_eq!(operations.into_iter().collect::<Vec<_>>(), OPERATIONS);
    }
    compare(Product::Github, &exchanges);
}

#[tokio::test]
async fn the_graphql_queries_of_the_client_match_githubs_schema() {
    let fixture = Fixture::new(Product::Github).await;
    fixture.server.state().add_user("ada", "write");
    let sha = fixture.branch("work").await;
    let forge = fixture.forge().await;
    let number = changed_pull(&*forge).await;
    threads(&fixture, &*forge, number).await;
    forge.checks().unwrap().of_commit(&sha).await.unwrap();
    fixture.server.state().by_path(PATH).unwrap().has_requirements = true;
    forge.auto_merge(number).await.unwrap();
    let exchanges = fixture.recorded.take();
    let calls: Vec<&ApiRequest> = exchanges.iter().map(|one| &one.call).filter(|call| is_graphql(call)).collect();
    assert_eq!(
        calls.len(),
        10,
        "drafts, threads, a reaction, the state of the merge, and the requests for a later one"
    );
    for call in calls {
        let problems = query_problems(call.body["query"].as_str().unwrap());
        assert!(problems.is_empty(), "{}: {problems}", call.body);
    }
    assert!(query_problems("mutation { convertPullRequestToDraft(input: {}) { wrong } }").contains("wrong"));
}

/// Reads and resolves the thread of a reply on a line, and reacts to its review.
async fn threads(fixture: &Fixture, forge: &dyn Forge, number: u64) {
    let ada = fixture.server.state().add_user("eve", "write");
    let (body, path) = ("rename it".to_owned(), "README.md".to_owned());
    let line = ReviewComment { id: 31, body, path, line: 1, reactions: Vec::new() };
    let review = Review { id: 9, pull: number, author: ada, body: String::new(), comments: vec![line] };
    let reply = CommentReply { id: 41, to: 31, author: ada, body: "to what?".to_owned() };
    {
        let mut state = fixture.server.state();
        let found = state.by_path(PATH).unwrap();
        found.reviews.push(review);
        found.replies.push(reply);
    }
    let thread = Thread::answering("31".to_owned());
    let of = InThread { kind: CommentKind::Line, id: "41".to_owned(), thread, review: None };
    let discussion = forge.discussion().unwrap();
    let found = discussion.threads(CommentTarget::Pull(number), std::slice::from_ref(&of)).await.unwrap();
    assert_eq!(found.len(), 1);
    discussion.resolve(CommentTarget::Pull(number), &[of]).await.unwrap();
    let review = CommentRef { kind: CommentKind::Review, number, id: "9".to_owned() };
    discussion.react(&review, Reaction::Seen).await.unwrap();
    let mut state = fixture.server.state();
    let found = state.by_path(PATH).unwrap();
    assert!(found.resolved.contains(&31));
    assert_eq!(found.review_reactions[&9], ["EYES"]);
}

/// Returns why GitHub's schema does not allow a query.
fn query_problems(query: &str) -> String {
    assert!(packaged("graphql-schema").exists(), "the schema of GitHub is missing; run: make setup-test");
    let mut node = Command::new("node");
    node.arg("check-query.mjs").current_dir(FOLDER).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = node.spawn().unwrap_or_else(|error| panic!("node: {error}; run: make setup-test"));
    running.stdin.take().unwrap().write_all(query.as_bytes()).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "node check-query.mjs: {}", ended.status);
    String::from_utf8(ended.stdout).unwrap()
}
