//! GitHub's examples of webhooks, of github.com and of versions of GitHub Enterprise Server.

use std::collections::BTreeSet;

use journeyman_core::code_host::{CodeHost, HostKind, PullState};
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, IssueAction};
use journeyman_core::ports::Hooks as _;
use journeyman_core::position::Position;
use journeyman_testkit::code_host::Product;
use serde_json::Value;

use super::packages::{packaged, read};
use crate::hosts::fixtures::Fixture;

/// An example, and the event that the service reads from it.
struct Example {
    /// The name of the example in failures.
    name: String,
    event: String,
    body: Value,
    read: HookEvent,
}

impl Example {
    fn action(&self) -> &str {
        self.body["action"].as_str().unwrap_or_default()
    }
}

/// Reads all examples.
async fn examples() -> Vec<Example> {
    let finder = Fixture::new(Product::Github).await.hosts.finder().clone();
    let host = CodeHost::of_address("host".parse().unwrap(), HostKind::Github, "https://github.com".to_owned());
    let folders = std::fs::read_dir(packaged("webhooks-examples"));
    let folders = folders.unwrap_or_else(|error| panic!("the examples are missing ({error}); run: make setup-test"));
    let folders = folders.map(|entry| entry.unwrap()).filter(|entry| entry.path().join("index.json").exists());
    let mut examples = Vec::new();
    for folder in folders.map(|entry| entry.file_name().into_string().unwrap()) {
        for definition in read(&format!("webhooks-examples/{folder}/index.json")).as_array().unwrap() {
            let event = definition["name"].as_str().unwrap().to_owned();
            for (number, body) in definition["examples"].as_array().unwrap().iter().enumerate() {
                let name = format!("example {number} of {event} ({}) in {folder}", body["action"]);
                let read = finder.read(&host, &event, body.to_string().as_bytes());
                let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
                examples.push(Example { name, event: event.clone(), body: body.clone(), read });
            }
        }
    }
    examples
}

/// Returns the expected kind of an event. `pushed` is the name of the ref, if there is one.
fn kind(event: &str, action: &str, pushed: &str) -> &'static str {
    match (event, action) {
        ("ping", _) => "ping",
        ("issue_comment" | "pull_request_review_comment", _) => "comment",
        ("pull_request_review", _) => "review",
        ("pull_request", _) => "pull",
        ("issues", _) => "issue",
        ("check_run" | "check_suite" | "workflow_run" | "status", _) => "checks",
        ("push", _) if pushed.starts_with("refs/heads/") => "push",
        ("repository", _) => "repository",
        ("installation", "created" | "unsuspend" | "new_permissions_accepted") => "access",
        ("installation_repositories", "added") => "access",
        _ => "other",
    }
}

#[tokio::test]
async fn every_example_of_github_is_read_as_its_kind_of_event() {
    let examples = examples().await;
    let mut kinds = BTreeSet::new();
    for example in &examples {
        let read = serde_json::to_value(&example.read.content).unwrap();
        let found = read["kind"].as_str().unwrap().to_owned();
        assert_eq!(
            found,
            kind(&example.event, example.action(), example.body["ref"].as_str().unwrap_or_default()),
            "{}",
            example.name
        );
        kinds.insert(found);
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    assert!(examples.len() > 700, "{}", examples.len());
}

#[tokio::test]
async fn the_repository_and_the_sender_of_every_example_are_read() {
    for Example { name, body, read, .. } in examples().await {
        let repository = read.repository.map(|repository| (repository.id, repository.path));
        let described = &body["repository"];
        let expected = described.is_object().then(|| (described["id"].to_string(), text(&described["full_name"])));
        assert_eq!(repository, expected, "{name}");
        let sender = read.sender.map(|sender| (sender.id, sender.name, sender.is_bot));
        let described = &body["sender"];
        let user = || (described["id"].to_string(), text(&described["login"]), described["type"] == "Bot");
        assert_eq!(sender, described.is_object().then(user), "{name}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn comment_action(action: &str) -> CommentAction {
    match action {
        "created" | "submitted" => CommentAction::Created,
        "edited" => CommentAction::Edited,
        "deleted" | "dismissed" => CommentAction::Deleted,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn comments_and_reviews_of_the_examples_are_complete() {
    for example in examples().await {
        let Example { name, event, body, read, .. } = &example;
        let subject = if event == "issue_comment" { &body["issue"] } else { &body["pull_request"] };
        match &read.content {
            HookContent::Comment { number, action, comment } => {
                let described = &body["comment"];
                assert_eq!((*number, *action), (subject["number"].as_u64().unwrap(), comment_action(example.action())));
                let kind = match (event.as_str(), &subject["pull_request"]) {
                    ("issue_comment", Value::Null) => CommentKind::Issue,
                    ("issue_comment", _) => CommentKind::Pull,
                    _ => CommentKind::Line,
                };
                assert_eq!(comment.kind, kind, "{name}");
                let found = (&comment.id, &comment.url, &comment.body, &comment.version, &comment.author.id);
                let [url, written, version] = ["html_url", "body", "updated_at"].map(|field| text(&described[field]));
                let (id, author) = (described["id"].to_string(), described["user"]["id"].to_string());
                assert_eq!(found, (&id, &url, &written, &version, &author), "{name}");
                let line = described["line"].as_u64().or(described["original_line"].as_u64());
                let line = line.filter(|_| described["subject_type"] != "file");
                let position = comment.position.as_ref();
                let path = position.map(|position| position.path.as_str());
                let found = (path, position.and_then(Position::line), comment.review.as_deref());
                let review = &described["pull_request_review_id"];
                let review = review.is_u64().then(|| review.to_string());
                assert_eq!(found, (described["path"].as_str(), line, review.as_deref()), "{name}");
            }
            HookContent::Review { number, action, review } => {
                let described = &body["review"];
                assert_eq!((*number, *action), (subject["number"].as_u64().unwrap(), comment_action(example.action())));
                let found = (&review.id, &review.url, &review.body, &review.version, &review.author.id);
                let [url, written, version] = ["html_url", "body", "submitted_at"].map(|field| text(&described[field]));
                let (id, author) = (described["id"].to_string(), described["user"]["id"].to_string());
                assert_eq!(found, (&id, &url, &written, &version, &author), "{name}");
                assert_eq!(review.approves, described["state"] == "approved", "{name}");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn pull_requests_and_issues_of_the_examples_are_complete() {
    for example in examples().await {
        let Example { name, body, read, .. } = &example;
        match &read.content {
            HookContent::Pull { number, state, head, head_sha } => {
                let described = &body["pull_request"];
                let expected = match (text(&described["state"]).as_str(), described["merged"].as_bool().unwrap()) {
                    ("open", _) => PullState::Open,
                    (_, true) => PullState::Merged,
                    (_, false) => PullState::Closed,
                };
                assert_eq!((Some(*number), *state), (described["number"].as_u64(), expected), "{name}");
                let sha = head_sha.as_ref().map(ToString::to_string);
                let end = &described["head"];
                assert_eq!((head, sha), (&text(&end["ref"]), Some(text(&end["sha"]))), "{name}");
            }
            HookContent::Issue { action, issue } => {
                let expected = match (example.action(), &body["label"], &body["assignee"]) {
                    ("opened", ..) => IssueAction::Opened,
                    ("labeled", label @ Value::Object(_), _) => IssueAction::Labeled(text(&label["name"])),
                    ("assigned", _, user @ Value::Object(_)) => {
                        let IssueAction::Assigned(assigned) = action else { panic!("{name}: {action:?}") };
                        assert_eq!(assigned.id, user["id"].to_string(), "{name}");
                        action.clone()
                    }
                    _ => IssueAction::Other,
                };
                assert_eq!(*action, expected, "{name}");
                let described = &body["issue"];
                let found = (Some(issue.number), &issue.title, &issue.body, &issue.url, &issue.author.id);
                let [title, written, url] = ["title", "body", "html_url"].map(|field| text(&described[field]));
                let author = described["user"]["id"].to_string();
                assert_eq!(found, (described["number"].as_u64(), &title, &written, &url, &author), "{name}");
                let labels = described["labels"].as_array().into_iter().flatten().map(|label| text(&label["name"]));
                assert_eq!(issue.labels, labels.collect::<Vec<_>>(), "{name}");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_commits_of_checks_and_the_added_repositories_of_the_examples_are_read() {
    for example in examples().await {
        let Example { name, event, body, read, .. } = &example;
        match &read.content {
            HookContent::Checks { sha, .. } => {
                let described = if event == "status" { &body["sha"] } else { &body[event]["head_sha"] };
                assert_eq!(sha.as_str(), text(described), "{name}");
            }
            HookContent::Access { added } => {
                let described = body["repositories"].as_array().or(body["repositories_added"].as_array());
                let expected =
                    described.into_iter().flatten().map(|one| (one["id"].to_string(), text(&one["full_name"])));
                let found = added.iter().map(|one| (one.id.clone(), one.path.clone()));
                assert!(found.eq(expected), "{name}: {added:?}");
            }
            _ => {}
        }
    }
}
