//! Tests of bitbucket_data_center.rs.

use std::sync::Arc;

use journeyman_core::code_host::HostKind;
use journeyman_net::{Client, Policy, Settings};
use journeyman_testkit::World;
use journeyman_testkit::code_host::{CodeHostServer, CommentReply, CommentedOn, Product, Review, ReviewComment, State};

use super::*;
use crate::http::Throttle;

const PATH: &str = "acme/shop";

async fn client() -> (CodeHostServer, BitbucketDataCenter, HostRepository) {
    let server = CodeHostServer::start(Product::BitbucketDataCenter).await;
    server.repository(PATH).await;
    server.commit(PATH, "work", "a.txt", "a").await;
    let http = Http {
        others: Client::new(Settings::default()),
        client: Client::new(Settings { policy: Policy::Any, ..Settings::default() }),
        clock: World::new(),
        throttle: Arc::new(Throttle::new(HostKind::BitbucketDataCenter)),
        base: format!("{}/rest", server.url),
        headers: Vec::new(),
    };
    let client = BitbucketDataCenter { http, token: SecretValue(State::TOKEN.to_owned()), username: None };
    let repository = client.repository(&RepositoryPath::parse(PATH).unwrap()).await.unwrap();
    (server, client, repository)
}

async fn open(client: &BitbucketDataCenter, repository: &HostRepository) -> u64 {
    let new = NewPull {
        title: "Change".to_owned(),
        body: "Done.".to_owned(),
        head: "work".to_owned(),
        base: None,
        draft: false,
        labels: Vec::new(),
        reviewers: Vec::new(),
        assignees: Vec::new(),
        auto_merge: false,
    };
    match client.create_pull(repository, &new, "main").await.unwrap() {
        CreatedPull::Created(pull) => pull.number,
        other => panic!("not created: {other:?}"),
    }
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let (server, client, repository) = client().await;
    let number = open(&client, &repository).await;
    let title = PullChange { title: Some("Better".to_owned()), ..PullChange::default() };
    let body = PullChange { body: Some("More.".to_owned()), ..PullChange::default() };
    let draft = PullChange { draft: Some(true), ..PullChange::default() };
    let changes = [&title, &body, &draft].map(|change| client.update_pull(&repository, number, change));
    assert!(futures::future::join_all(changes).await.iter().all(Result::is_ok));
    let now = client.pull(&repository, number).await.unwrap().unwrap();
    assert_eq!((now.title.as_str(), now.body.as_str(), now.draft), ("Better", "More.", true));
    assert_eq!(server.state().by_path(PATH).unwrap().pulls[0].version, 3);
}

#[tokio::test]
async fn a_user_who_cannot_review_does_not_prevent_the_others() {
    let (server, client, repository) = client().await;
    let number = open(&client, &repository).await;
    for name in ["ada", "bob", "theirs"] {
        server.state().add_user(name, "read");
    }
    server.state().by_path(PATH).unwrap().pulls[0].reviewers.push("theirs".to_owned());
    let reviewers = ["ada", "acme/team", "unknown", "ADA", "bob"].map(str::to_owned).to_vec();
    let change = PullChange { reviewers, ..PullChange::default() };
    let error = client.update_pull(&repository, number, &change).await.unwrap_err().to_string();
    assert!(error.contains("acme/team: ") && error.contains("unknown: ") && !error.contains("ada"), "{error}");
    assert_eq!(server.state().by_path(PATH).unwrap().pulls[0].reviewers, ["theirs", "ada", "bob"]);
    let now = client.pull(&repository, number).await.unwrap().unwrap();
    assert_eq!((now.title.as_str(), now.body.as_str()), ("Change", "Done."));
}

#[tokio::test]
async fn all_pages_of_comments_are_read() {
    let (server, client, repository) = client().await;
    let number = open(&client, &repository).await;
    for text in 0..230 {
        server.state().add_comment(PATH, CommentedOn::Pull(number), State::BOT, &text.to_string());
    }
    let comments = client.comments(&repository, CommentTarget::Pull(number)).await.unwrap();
    assert_eq!((comments.len(), comments[229].body.as_str()), (230, "0"));
    let page = format!("{}/projects/acme/repos/shop/pull-requests/{number}", server.url);
    assert!(comments[0].url.starts_with(&format!("{page}/overview?commentId=")), "{}", comments[0].url);
    let issue = client.add_comment(&repository, CommentTarget::Issue(1), "x").await;
    assert!(matches!(issue, Err(ForgeError::Refused(_))), "{issue:?}");
}

#[tokio::test]
async fn the_line_of_a_comment_is_read_if_the_webhook_does_not_say_it() {
    let (server, client, repository) = client().await;
    let number = open(&client, &repository).await;
    let author = server.state().add_user("ada", "write");
    let plain = server.state().add_comment(PATH, CommentedOn::Pull(number), author, "a");
    let line = ReviewComment { id: 31, body: "b".into(), path: "a.rs".into(), line: 7, reactions: Vec::new() };
    let review = Review { id: 9, pull: number, author, body: String::new(), comments: vec![line] };
    server.state().by_path(PATH).unwrap().reviews.push(review);
    let reply = CommentReply { id: 41, to: 31, author, body: "c".into() };
    server.state().by_path(PATH).unwrap().replies.push(reply);
    let answering = || Some(Thread::answering("31".to_owned()));
    for (id, thread, expected) in [
        (31, None, Some("`a.rs`, line 7")),
        (41, answering(), Some("`a.rs`, line 7")),
        (plain, None, None),
        (4711, None, None),
        (4711, answering(), None),
    ] {
        let comment = HostComment {
            kind: CommentKind::Pull,
            id: id.to_string(),
            version: "0".to_owned(),
            url: String::new(),
            author: HostUser { id: author.to_string(), name: "ada".to_owned(), is_bot: false },
            body: "@journeyman rename it".to_owned(),
            position: None,
            hunk: None,
            thread,
            review: None,
        };
        let found = client.complete_comment(&repository, number, comment).await.unwrap();
        assert_eq!(found.position.map(|position| position.to_string()).as_deref(), expected, "{id}");
        let root = found.thread.and_then(|thread| thread.id);
        assert_eq!(root.as_deref(), if expected.is_some() { Some("31") } else { root.as_deref() }, "{id}");
    }
}

#[tokio::test]
async fn git_gets_a_user_name_only_if_the_token_has_one() {
    let (_server, mut client, repository) = client().await;
    assert_eq!(repository.can_push, Some(true));
    let path = RepositoryPath::parse(PATH).unwrap();
    assert_eq!(client.git_credential(&path).await.unwrap().username, "");
    client.username = Some("ada".to_owned());
    assert_eq!(client.git_credential(&path).await.unwrap().username, "ada");
}

#[tokio::test]
async fn a_personal_repository_has_its_own_pages() {
    let (server, client, _) = client().await;
    let location = Location::of(&RepositoryPath::parse("~ada/shop").unwrap());
    assert_eq!(client.page(&location, 2), format!("{}/users/ada/repos/shop/pull-requests/2", server.url));
    assert_eq!(location.below(API), "/api/latest/projects/~ada/repos/shop");
}

#[tokio::test]
async fn the_case_of_a_path_does_not_matter() {
    let (server, client, _) = client().await;
    let written = RepositoryPath::parse("acme/Shop").unwrap();
    server.state().by_path(PATH).unwrap().path = "ACME/shop".to_owned();
    let repository = client.repository(&written).await.unwrap();
    assert_eq!(repository.path, "ACME/shop");
    let number = open(&client, &repository).await;
    assert_eq!(client.find_pulls(&repository, "work").await.unwrap().len(), 1);
    let url = client.pull(&repository, number).await.unwrap().unwrap().url;
    assert_eq!(url, format!("{}/projects/ACME/repos/shop/pull-requests/{number}", server.url));
    let ada = server.state().add_user("ada", "write");
    let user = HostUser { id: ada.to_string(), name: "ada".to_owned(), is_bot: false };
    assert_eq!(client.permission(&repository, &user).await.unwrap(), Permission::Write);
    let personal = Location::of(&RepositoryPath::parse("~ADA/shop").unwrap());
    assert_eq!(client.page(&personal, 2), format!("{}/users/ada/repos/shop/pull-requests/2", server.url));
}
