//! Tests of hooks.rs.

use serde_json::json;

use super::*;

fn read_json(event: &str, mut body: Value) -> HookEvent {
    body["repository"] = json!({"id": 7, "full_name": "o/r", "owner": {"id": 1, "login": "o"}});
    body["sender"] = json!({"id": 2, "login": "bob", "username": "bob", "email": "bob@example.com"});
    read(event, body.to_string().as_bytes()).unwrap()
}

fn hook(headers: &[(&str, &str)]) -> RawHook {
    RawHook {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: b"Hello, World!".to_vec(),
    }
}

fn user(id: &str, name: &str) -> HostUser {
    HostUser { id: id.to_owned(), name: name.to_owned(), is_bot: false }
}

#[test]
fn a_signature_is_verified_and_an_empty_one_is_not() {
    let secret = SecretValue("It's a Secret to Everybody".to_owned());
    let right = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let common = format!("sha256={right}");
    for headers in [
        vec![("x-gitea-signature", right)],
        vec![("x-forgejo-signature", right)],
        vec![("x-gogs-signature", right)],
        vec![("x-hub-signature-256", common.as_str())],
    ] {
        assert!(is_signed(&secret, &hook(&headers)), "{headers:?}");
        let mut changed = hook(&headers);
        changed.body.push(b'!');
        assert!(!is_signed(&secret, &changed), "{headers:?}");
    }
    let mut form = hook(&[("x-gitea-signature", right)]);
    form.body = b"payload=Hello%2C+World%21".to_vec();
    assert!(is_signed(&secret, &form));
    for headers in [
        vec![],
        vec![("x-gitea-signature", ""), ("x-forgejo-signature", ""), ("x-hub-signature-256", "sha256=")],
        vec![("x-gitea-signature", &right[2..])],
        vec![("x-hub-signature-256", right)],
        vec![("x-hub-signature", common.as_str())],
    ] {
        assert!(!is_signed(&secret, &hook(&headers)), "{headers:?}");
    }
}

#[test]
fn the_type_of_an_event_is_preferred_to_its_name() {
    for (headers, expected) in [
        (
            vec![("x-gitea-delivery", "d"), ("x-gitea-event", "issues"), ("x-gitea-event-type", "issue_label")],
            "issue_label",
        ),
        (vec![("x-gitea-delivery", "d"), ("x-gitea-event", "issues"), ("x-gitea-event-type", "")], "issues"),
        (vec![("x-forgejo-delivery", "d"), ("x-forgejo-event", ""), ("x-forgejo-event-type", "package")], "package"),
        (vec![("x-gogs-delivery", "d"), ("x-gogs-event", "push")], "push"),
    ] {
        let found = envelope(&hook(&headers)).unwrap();
        assert_eq!((found.delivery.as_str(), found.event.as_str()), ("d", expected));
    }
    for (headers, missing) in [
        (vec![("x-gitea-event", "push"), ("x-github-delivery", "d")], "x-gitea-delivery"),
        (vec![("x-gitea-delivery", "d"), ("x-github-event", "push")], "x-gitea-event"),
    ] {
        assert_eq!(envelope(&hook(&headers)).err(), Some(HookRefusal::Header(missing)));
    }
}

fn commented(action: &str, issue: Value, comment: Value) -> Value {
    let mut body = json!({
        "action": action,
        "issue": issue,
        "comment": {
            "id": 88, "html_url": "https://h/o/r/pulls/12#issuecomment-88", "body": "hi",
            "pull_request_url": "https://h/o/r/pulls/12", "issue_url": "", "user": {"id": 5, "login": "ada"},
            "created_at": "2026-01-01T10:00:00Z", "updated_at": "2026-01-01T10:00:01Z",
        },
    });
    for (name, value) in comment.as_object().unwrap() {
        body["comment"][name] = value.clone();
    }
    body
}

fn comment_of(event: HookEvent) -> (u64, CommentAction, HostComment) {
    let HookContent::Comment { number, action, comment } = event.content else { panic!("{:?}", event.content) };
    (number, action, comment)
}

#[test]
fn a_comment_on_a_pull_request_is_told_from_one_on_an_issue() {
    let merged = json!({"merged": false, "merged_at": null});
    for (event, issue, is_pull, kind) in [
        ("issue_comment", json!({"number": 12, "pull_request": null}), json!(false), CommentKind::Issue),
        ("issue_comment", json!({"number": 12, "pull_request": merged}), json!(null), CommentKind::Pull),
        ("issue_comment", json!({"number": 12}), json!(true), CommentKind::Pull),
        ("pull_request_comment", json!({"number": 12}), json!(null), CommentKind::Pull),
    ] {
        let mut body = commented("created", issue, json!({}));
        body["is_pull"] = is_pull;
        let event = read_json(event, body);
        assert_eq!(event.repository, Some(EventRepository { id: "7".to_owned(), path: "o/r".to_owned() }));
        assert_eq!(event.sender, Some(user("2", "bob")));
        let (number, action, comment) = comment_of(event);
        assert_eq!((number, action, comment.kind), (12, CommentAction::Created, kind));
        assert_eq!((comment.id.as_str(), comment.version.as_str()), ("88", "2026-01-01T10:00:01Z"));
        assert_eq!((comment.body.as_str(), comment.author), ("hi", user("5", "ada")));
        assert_eq!(comment.url, "https://h/o/r/pulls/12#issuecomment-88");
    }
}

#[test]
fn comments_are_written_edited_and_deleted() {
    for (name, expected) in
        [("created", CommentAction::Created), ("edited", CommentAction::Edited), ("deleted", CommentAction::Deleted)]
    {
        let body = commented(name, json!({"number": 12}), json!({"body": null}));
        let (_, action, comment) = comment_of(read_json("issue_comment", body));
        assert_eq!((action, comment.body.as_str()), (expected, ""));
    }
}

#[test]
fn a_user_may_have_odd_fields() {
    for (given, expected) in [
        (json!({"id": 5, "login": null, "username": "ada"}), user("5", "ada")),
        (json!({"id": "5", "login": "ada", "full_name": 7, "is_admin": null}), user("5", "ada")),
        (json!({"id": -1, "login": "Ghost"}), user("-1", "Ghost")),
        (json!({"id": null}), user("", "")),
        (json!(null), user("", "")),
    ] {
        let body = commented("created", json!({"number": 1}), json!({"user": given}));
        assert_eq!(comment_of(read_json("issue_comment", body)).2.author, expected);
    }
}

fn reviewed(content: Value, updated_at: &str) -> Value {
    json!({
        "action": "reviewed",
        "number": 12,
        "pull_request": {
            "id": 5, "number": 12, "html_url": "https://h/o/r/pulls/12", "head": {"sha": "x"},
            "updated_at": updated_at,
        },
        "requested_reviewer": {"id": 2, "login": "bob"},
        "commit_id": "",
        "review": {"type": "pull_request_review_comment", "content": content},
    })
}

fn review_of(event: &str, body: Value) -> HostReview {
    let HookContent::Review { number: 12, action: CommentAction::Created, review } = read_json(event, body).content
    else {
        panic!("no review")
    };
    review
}

#[test]
fn a_review_has_no_id() {
    for (event, approves) in [
        ("pull_request_review_approved", true),
        ("pull_request_review_rejected", false),
        ("pull_request_review_comment", false),
        // Without the type.
        ("pull_request_approved", true),
        ("pull_request_rejected", false),
        ("pull_request_comment", false),
    ] {
        let review = review_of(event, reviewed(json!("Please."), "2026-01-01T10:00:00Z"));
        assert_eq!((review.id.as_str(), review.body.as_str(), review.approves), ("", "Please.", approves));
        assert_eq!((review.url.as_str(), review.author), ("https://h/o/r/pulls/12", user("2", "bob")));
    }
    let review = review_of("pull_request_review_comment", reviewed(json!(null), "2026-01-01T10:00:00Z"));
    assert_eq!((review.body.as_str(), review.version.split_once('/').unwrap().0), ("", "2026-01-01T10:00:00Z"));
}

#[test]
fn two_reviews_have_different_versions_and_a_redelivery_has_the_same() {
    let version = |content: &str, updated_at: &str| {
        review_of("pull_request_review_comment", reviewed(json!(content), updated_at)).version
    };
    let first = version("", "2026-01-01T10:00:00Z");
    assert_eq!(version("", "2026-01-01T10:00:00Z"), first);
    assert_ne!(version("", "2026-01-01T10:00:05Z"), first);
    assert_ne!(version("Please.", "2026-01-01T10:00:00Z"), first);
}

#[test]
fn states_of_pull_requests_are_mapped() {
    let head = |label: &str, name: &str| json!({"label": label, "ref": name, "sha": "a".repeat(40), "repo_id": 7});
    for (event, action, state, merged, expected) in [
        ("pull_request", "opened", "open", false, PullState::Open),
        ("pull_request", "reopened", "open", false, PullState::Open),
        ("pull_request", "edited", "open", false, PullState::Open),
        ("pull_request_sync", "synchronized", "open", false, PullState::Open),
        ("pull_request_label", "label_updated", "open", false, PullState::Open),
        ("pull_request_review_request", "review_requested", "open", false, PullState::Open),
        ("pull_request", "closed", "closed", false, PullState::Closed),
        ("pull_request", "closed", "closed", true, PullState::Merged),
        ("pull_request", "deleted", "open", false, PullState::Closed),
    ] {
        for head in [head("x", "refs/pull/12/head"), head("", "x")] {
            let pull = json!({"id": 5, "number": 12, "state": state, "merged": merged, "head": head});
            let body = json!({"action": action, "number": 12, "pull_request": pull, "review": null});
            let expected = HookContent::Pull {
                number: 12,
                state: expected,
                head: "x".to_owned(),
                head_sha: sha(&"a".repeat(40)).filter(|_| expected == PullState::Open),
            };
            assert_eq!(read_json(event, body).content, expected, "{event} {action}");
        }
    }
}

fn changed_issue(action: &str, labels: &[&str], more: Value) -> Value {
    let labels: Vec<Value> = labels.iter().map(|name| json!({"id": 3, "name": name})).collect();
    let mut body = json!({
        "action": action,
        "number": 31,
        "issue": {
            "id": 40, "number": 31, "title": "T", "body": "B", "state": "open", "user": {"id": 5, "login": "ada"},
            "html_url": "https://h/o/r/issues/31", "labels": labels, "assignees": null, "pull_request": null,
        },
        "commit_id": "",
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn issue_of(event: HookEvent) -> (IssueAction, HostIssue) {
    let HookContent::Issue { action, issue } = event.content else { panic!("{:?}", event.content) };
    (action, issue)
}

#[test]
fn an_opened_issue_is_read() {
    let (action, issue) = issue_of(read_json("issues", changed_issue("opened", &["bug"], json!({}))));
    assert_eq!((action, issue.number), (IssueAction::Opened, 31));
    assert_eq!((issue.title.as_str(), issue.body.as_str(), issue.author), ("T", "B", user("5", "ada")));
    assert_eq!((issue.url.as_str(), issue.labels), ("https://h/o/r/issues/31", vec!["bug".to_owned()]));
    let body = json!({"action": "opened", "issue": {"number": 1, "labels": null, "user": null, "body": null}});
    assert_eq!(issue_of(read_json("issues", body)).1.author, user("", ""));
}

#[test]
fn the_label_that_was_added_is_found() {
    let labeled = |name: &str| IssueAction::Labeled(name.to_owned());
    let label = |name: &str| json!({"id": 3, "name": name});
    for (labels, more, expected) in [
        (vec![], json!({}), IssueAction::Other),
        (vec!["bug", "Journeyman"], json!({"changes": null}), IssueAction::Updated),
        (vec!["bug", "go"], json!({"label": label("go")}), labeled("go")),
        (vec!["journeyman"], json!({"label": label("go")}), IssueAction::Other),
        (vec!["bug", "go"], json!({"changes": {"added_labels": [label("go")]}}), labeled("go")),
        (
            vec![],
            json!({"changes": {"added_labels": [label("go"), label("Journeyman")], "removed_labels": null}}),
            IssueAction::added(vec!["go".to_owned(), "Journeyman".to_owned()], Vec::new()),
        ),
        (
            vec!["journeyman"],
            json!({"changes": {"added_labels": null, "removed_labels": [label("go")]}}),
            IssueAction::Other,
        ),
    ] {
        let body = changed_issue("label_updated", &labels, more.clone());
        assert_eq!(issue_of(read_json("issue_label", body)).0, expected, "{labels:?} {more}");
    }
    let body = changed_issue("label_cleared", &["journeyman"], json!({}));
    assert_eq!(issue_of(read_json("issue_label", body)).0, IssueAction::Other);
}

#[test]
fn the_assigned_user_is_found() {
    for (users, expected) in [
        (json!([{"id": 9, "login": "bot"}]), IssueAction::Assigned(user("9", "bot"))),
        (json!([{"id": 5, "login": "ada"}, {"id": 9, "login": "bot"}]), IssueAction::Updated),
        (json!([]), IssueAction::Other),
        (json!(null), IssueAction::Other),
    ] {
        let mut body = changed_issue("assigned", &[], json!({}));
        body["issue"]["assignees"] = users.clone();
        let (action, issue) = issue_of(read_json("issue_assign", body));
        assert_eq!((action, issue.assignees.len()), (expected, users.as_array().map_or(0, Vec::len)), "{users}");
    }
}

#[test]
fn statuses_and_runs_are_checks_of_their_commit() {
    let commit = "b".repeat(40);
    for (event, body) in [
        ("status", json!({"id": 3, "sha": commit, "context": "ci / test (push)", "state": "failure"})),
        ("workflow_run", json!({"action": "completed", "workflow_run": {"id": 9, "head_sha": commit}})),
        ("workflow_job", json!({"action": "completed", "workflow_job": {"id": 21, "head_sha": commit}})),
        ("action_run_recover", json!({"action": "recover", "run": {"id": 9, "commit_sha": commit}})),
    ] {
        let expected = HookContent::Checks { sha: commit.parse().unwrap(), pull: None };
        assert_eq!(read_json(event, body).content, expected, "{event}");
    }
    assert_eq!(read_json("status", json!({"sha": "main"})).content, HookContent::Other);
}

#[test]
fn a_run_of_forgejo_has_the_repository_and_the_user() {
    let run = json!({
        "id": 9, "repository": {"id": 7, "full_name": "o/r"}, "trigger_user": {"id": 2, "login": "bob"},
        "commit_sha": "c".repeat(40), "status": "failure",
    });
    let body = json!({"action": "failure", "run": run, "last_run": null, "prior_status": "running"});
    let event = read("action_run_failure", body.to_string().as_bytes()).unwrap();
    assert_eq!(event.repository, Some(EventRepository { id: "7".to_owned(), path: "o/r".to_owned() }));
    assert_eq!(event.sender, Some(user("2", "bob")));
    assert_eq!(event.content, HookContent::Checks { sha: "c".repeat(40).parse().unwrap(), pull: None });
}

#[test]
fn other_events_are_read_without_an_error() {
    for (event, body, expected) in [
        ("repository", json!({"action": "deleted"}), HookContent::Repository),
        (
            "push",
            json!({"ref": "refs/heads/release/1", "commits": []}),
            HookContent::Push { branches: vec!["release/1".to_owned()] },
        ),
        ("push", json!({"ref": "refs/tags/v1", "commits": []}), HookContent::Other),
        ("create", json!({"sha": "x", "ref": "main", "ref_type": "branch"}), HookContent::Other),
        ("package", json!({"action": "created", "package": {}}), HookContent::Other),
        ("release", json!({"action": 7}), HookContent::Other),
        ("issue_comment", json!({"action": "pinned"}), HookContent::Other),
        ("", json!({}), HookContent::Other),
    ] {
        assert_eq!(read_json(event, body).content, expected, "{event}");
    }
}

#[test]
fn an_unreadable_body_is_an_error() {
    for (event, body) in [
        ("issue_comment", "no json"),
        ("push", ""),
        ("issue_comment", r#"{"action": "created"}"#),
        ("issue_comment", r#"{"action": "created", "issue": {"number": 1}}"#),
        ("issues", "[]"),
        ("issues", r#"{"issue": {"number": "x"}}"#),
        ("pull_request", r#"{"pull_request": null}"#),
        ("pull_request_review_approved", r#"{"pull_request": {"number": 1}, "sender": {"id": 2}}"#),
        ("pull_request_review_approved", r#"{"pull_request": {"number": 1}, "review": {}}"#),
        ("pull_request_review_approved", r#"{"pull_request": {"number": 1}, "review": {}, "sender": {}}"#),
    ] {
        assert!(read(event, body.as_bytes()).is_err(), "{event} {body}");
    }
}
