//! Tests of hooks.rs.

use serde_json::json;

use super::*;

const SHA: &str = "ddc19f786996396d57e17c8f6d1d05d00318ad10";

fn user() -> Value {
    json!({
        "name": "admin",
        "emailAddress": "admin@example.com",
        "id": 1,
        "displayName": "Administrator",
        "active": true,
        "slug": "admin",
        "type": "NORMAL",
    })
}

fn repository(key: &str, id: u64) -> Value {
    json!({
        "slug": "shop",
        "id": id,
        "name": "Shop",
        "project": {"key": key, "id": 85, "name": "project", "public": false, "type": "NORMAL"},
        "public": false,
    })
}

fn pull(state: &str) -> Value {
    json!({
        "id": 11,
        "version": 1,
        "title": "A cool PR",
        "state": state,
        "open": state == "OPEN",
        "closed": state != "OPEN",
        "createdDate": 1_505_783_860_548_u64,
        "updatedDate": "2026-05-24T14:11:04.000Z",
        "fromRef": {
            "id": "refs/heads/feature/a",
            "displayId": "feature/a",
            "latestCommit": SHA,
            "repository": repository("~ada", 90),
        },
        "toRef": {
            "id": "refs/heads/master",
            "displayId": "master",
            "latestCommit": "7e48f426f0a6e47c5b5e862c31be6ca965f82c9c",
            "repository": repository("PROJ", 84),
        },
        "author": {"user": user(), "role": "AUTHOR", "approved": false, "status": "UNAPPROVED"},
        "reviewers": [],
        "links": {"self": [null]},
    })
}

fn comment(text: &str) -> Value {
    json!({
        "properties": {"repositoryId": 84},
        "id": 62,
        "version": 0,
        "text": text,
        "author": user(),
        "createdDate": 1_505_784_066_751_u64,
        "updatedDate": 1_505_784_066_751_u64,
        "comments": [],
        "tasks": [],
    })
}

fn read_json(event: &str, mut body: Value) -> HookEvent {
    body["eventKey"] = event.into();
    body["date"] = "2017-09-19T11:21:06+1000".into();
    body["actor"] = user();
    read(event, body.to_string().as_bytes()).unwrap()
}

fn read_comment(event: &str, comment: Value) -> (CommentAction, HostComment) {
    match read_json(event, json!({"pullRequest": pull("OPEN"), "comment": comment})).content {
        HookContent::Comment { number: 11, action, comment } => (action, comment),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_comment_has_the_repository_of_the_target() {
    let body = json!({"pullRequest": pull("OPEN"), "comment": comment("I am a PR comment"), "commentParentId": 43});
    let event = read_json("pr:comment:added", body);
    let author = HostUser { id: "1".to_owned(), name: "admin".to_owned(), is_bot: false };
    let repository = EventRepository { id: "84".to_owned(), path: "PROJ/shop".to_owned() };
    assert_eq!((event.repository, event.sender.as_ref()), (Some(repository), Some(&author)));
    let expected = HostComment {
        kind: CommentKind::Pull,
        id: "62".to_owned(),
        version: "0".to_owned(),
        url: "/projects/PROJ/repos/shop/pull-requests/11/overview?commentId=62".to_owned(),
        author,
        body: "I am a PR comment".to_owned(),
        position: None,
        hunk: None,
        thread: Some(Thread::answering("43".to_owned())),
        review: None,
    };
    let action = CommentAction::Created;
    assert_eq!(event.content, HookContent::Comment { number: 11, action, comment: expected });
}

#[test]
fn a_personal_repository_has_the_user_in_its_path() {
    let mut pull = pull("OPEN");
    pull["toRef"]["repository"] = repository("~ADA", 90);
    let body = json!({"pullRequest": pull, "comment": comment("a")});
    let event = read_json("pr:comment:added", body.clone());
    assert_eq!(event.repository.unwrap().path, "~ADA/shop");
    let url = |event: HookEvent| match event.content {
        HookContent::Comment { comment, .. } => comment.url,
        other => panic!("{other:?}"),
    };
    let page = "/users/ada/repos/shop/pull-requests/11";
    assert_eq!(url(read_json("pr:comment:added", body.clone())), format!("{page}/overview?commentId=62"));
    let mut linked = body;
    linked["pullRequest"]["links"] = json!({"self": [{"href": format!("https://b.example{page}")}]});
    let expected = format!("https://b.example{page}/overview?commentId=62");
    assert_eq!(url(read_json("pr:comment:added", linked)), expected);
}

#[test]
fn edited_and_deleted_comments_are_told_apart() {
    for (event, expected, text) in [
        ("pr:comment:added", CommentAction::Created, "a"),
        ("pr:comment:edited", CommentAction::Edited, "a"),
        ("pr:comment:deleted", CommentAction::Deleted, ""),
    ] {
        let (action, comment) = read_comment(event, comment("a"));
        assert_eq!((action, comment.body.as_str()), (expected, text), "{event}");
    }
    let edited = |previous: &str| {
        let body = json!({"pullRequest": pull("OPEN"), "comment": comment("new"), "previousComment": previous});
        read_json("pr:comment:edited", body).content
    };
    assert!(matches!(edited("old"), HookContent::Comment { action: CommentAction::Edited, .. }));
    assert_eq!(edited("new"), HookContent::Other);
}

#[test]
fn the_version_of_a_comment_changes_with_each_edit() {
    for (version, date, expected) in [
        (json!(3), json!(1_505_784_066_751_u64), "3"),
        (Value::Null, json!(1_505_784_066_751_u64), "1505784066751"),
        (Value::Null, json!("2026-05-24T14:11:04.000Z"), "2026-05-24T14:11:04.000Z"),
        (Value::Null, Value::Null, ""),
    ] {
        let mut comment = comment("a");
        comment["version"] = version;
        comment["updatedDate"] = date;
        assert_eq!(read_comment("pr:comment:edited", comment).1.version, expected);
    }
}

#[test]
fn the_thread_of_a_comment_is_read() {
    for (parent, resolved, expected) in [
        (json!(null), json!(null), Thread::begun_by("62")),
        (json!(null), json!(true), Thread { is_resolved: Some(true), ..Thread::begun_by("62") }),
        (json!(43), json!(false), Thread { is_resolved: Some(false), ..Thread::answering("43".to_owned()) }),
    ] {
        let mut comment = comment("a");
        comment["threadResolved"] = resolved;
        let body = json!({"pullRequest": pull("OPEN"), "comment": comment, "commentParentId": parent});
        let HookContent::Comment { comment, .. } = read_json("pr:comment:added", body).content else {
            panic!("no comment")
        };
        assert_eq!(comment.thread, Some(expected));
    }
}

#[test]
fn a_comment_with_an_anchor_is_on_a_line() {
    let in_folder = json!({"path": {"components": ["b", "a.txt"], "toString": "b/a.txt"}, "line": 0});
    for (anchor, expected) in [
        (json!({"path": "a.txt", "line": 7, "lineType": "ADDED", "fileType": "TO"}), Some("`a.txt`, line 7")),
        (json!({"path": "a.txt", "diffType": "EFFECTIVE"}), Some("`a.txt`, the whole file")),
        (in_folder, Some("`b/a.txt`, the whole file")),
        (json!({"path": null, "line": -1}), None),
    ] {
        let mut comment = comment("a");
        comment["anchor"] = anchor.clone();
        let (_, comment) = read_comment("pr:comment:added", comment);
        let position = comment.position.map(|position| position.to_string());
        assert_eq!((comment.kind, position.as_deref()), (CommentKind::Pull, expected), "{anchor}");
    }
}

#[test]
fn hidden_markers_of_a_comment_are_shown() {
    let (_, comment) = read_comment("pr:comment:added", comment("Done.\n\n[//]: # (<!-- journeyman:answer -->)"));
    assert_eq!(comment.body, "Done.\n<!-- journeyman:answer -->");
}

#[test]
fn the_user_of_a_repository_token_is_a_bot() {
    let mut comment = comment("a");
    comment["author"]["type"] = "SERVICE".into();
    assert!(read_comment("pr:comment:added", comment).1.author.is_bot);
}

#[test]
fn an_event_of_a_pull_request_has_its_state() {
    for (event, state, expected) in [
        ("pr:opened", "OPEN", PullState::Open),
        ("pr:from_ref_updated", "OPEN", PullState::Open),
        ("pr:modified", "OPEN", PullState::Open),
        ("pr:merged", "MERGED", PullState::Merged),
        ("pr:declined", "DECLINED", PullState::Closed),
        ("pr:deleted", "OPEN", PullState::Closed),
        ("pr:deleted", "MERGED", PullState::Merged),
        ("pr:reviewer:approved", "OPEN", PullState::Open),
        ("pr:reviewer:unapproved", "OPEN", PullState::Open),
        ("pr:reviewer:needs_work", "OPEN", PullState::Open),
        ("pr:reviewer:changes_requested", "OPEN", PullState::Open),
    ] {
        let participant = json!({"user": user(), "role": "REVIEWER", "approved": true, "status": "APPROVED"});
        let body = json!({"pullRequest": pull(state), "participant": participant, "previousStatus": "UNAPPROVED"});
        let event_read = read_json(event, body);
        assert_eq!(event_read.repository.unwrap().id, "84", "{event}");
        let head_sha = Some(SHA.parse().unwrap());
        let expected = HookContent::Pull { number: 11, state: expected, head: "feature/a".to_owned(), head_sha };
        assert_eq!(event_read.content, expected, "{event}");
    }
    let trimmed = read_json("pr:reviewer:approved", json!({"pullRequest": {"id": 10, "state": "OPEN"}}));
    assert!(matches!(trimmed.content, HookContent::Pull { number: 10, head_sha: None, .. }));
    assert_eq!(trimmed.repository, None);
}

#[test]
fn a_renamed_repository_has_its_new_path() {
    let mut new = repository("PROJ", 84);
    new["slug"] = "store".into();
    let event = read_json("repo:modified", json!({"old": repository("PROJ", 84), "new": new}));
    let repository = EventRepository { id: "84".to_owned(), path: "PROJ/store".to_owned() };
    assert_eq!((event.repository, event.content), (Some(repository), HookContent::Repository));
}

#[test]
fn a_push_is_read() {
    let change = |name: &str| json!({"ref": {"id": name, "type": "BRANCH"}, "type": "UPDATE"});
    let changes = [change("refs/heads/main"), change("refs/tags/v1"), change("refs/heads/topic/1")];
    let read = read_json("repo:refs_changed", json!({"repository": repository("PROJ", 84), "changes": changes}));
    assert_eq!(read.content, HookContent::Push { branches: vec!["main".to_owned(), "topic/1".to_owned()] });
    assert_eq!(read.repository.map(|repository| repository.id).as_deref(), Some("84"));
}

#[test]
fn other_events_are_read_without_an_error() {
    for (event, body, expected) in [
        ("repo:refs_changed", json!({"repository": repository("PROJ", 84), "changes": []}), Some("84")),
        ("repo:comment:added", json!({"repository": repository("PROJ", 84), "comment": comment("a")}), Some("84")),
        ("pr:to_ref_updated", json!({"pullRequest": pull("OPEN")}), Some("84")),
        ("pr:reviewer:updated", json!({"pullRequest": pull("OPEN"), "addedReviewers": [user()]}), Some("84")),
        ("project:modified", json!({"old": {"key": "A", "id": 1}, "new": {"key": "B", "id": 1}}), None),
        ("something:new", json!({"old": "a", "new": 1, "repository": {}}), None),
    ] {
        let read = read_json(event, body);
        let id = read.repository.map(|repository| repository.id);
        assert_eq!((read.content, id.as_deref()), (HookContent::Other, expected), "{event}");
    }
    let ping = HookEvent { repository: None, sender: None, content: HookContent::Ping };
    assert_eq!(read("diagnostics:ping", br#"{"test":true}"#), Ok(ping));
}

#[test]
fn a_body_in_another_form_is_an_error() {
    for (event, body) in [
        ("pr:comment:added", "no json"),
        ("something:new", ""),
        ("pr:comment:added", r#"{"pullRequest": {"id": 1}}"#),
        ("pr:comment:added", r#"{"comment": {"id": 1}}"#),
        ("pr:opened", "{}"),
        ("pr:opened", r#"{"pullRequest": {"id": 1}}"#),
        ("pr:deleted", r#"{"pullRequest": {"state": "OPEN"}}"#),
    ] {
        assert!(read(event, body.as_bytes()).is_err(), "{event} {body}");
    }
}

fn hook(headers: &[(&str, &str)]) -> RawHook {
    RawHook {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: b"Hello World!".to_vec(),
    }
}

#[test]
fn a_webhook_without_a_signature_is_refused() {
    let secret = SecretValue("It's a Secret to Everybody".to_owned());
    let right = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
    let wrong = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c8";
    assert!(is_signed(&secret, &hook(&[("x-hub-signature", right)])));
    for headers in [
        &[][..],
        &[("x-hub-signature", "")],
        &[("x-hub-signature", "sha256=")],
        &[("x-hub-signature", wrong)],
        &[("x-hub-signature", &right["sha256=".len()..])],
        &[("x-hub-signature-256", right)],
    ] {
        assert!(!is_signed(&secret, &hook(headers)), "{headers:?}");
    }
    assert!(!is_signed(&SecretValue("another".to_owned()), &hook(&[("x-hub-signature", right)])));
}

#[test]
fn the_headers_name_the_delivery_and_the_event() {
    let read = |headers: &[(&str, &str)]| envelope(&hook(headers)).map(|envelope| (envelope.delivery, envelope.event));
    let both = read(&[("x-event-key", "pr:opened"), ("x-request-id", "e3")]);
    assert_eq!(both, Ok(("e3".to_owned(), "pr:opened".to_owned())));
    assert_eq!(read(&[("x-request-id", "e3")]), Err(HookRefusal::Header("x-event-key")));
    assert_eq!(read(&[("x-event-key", "pr:opened")]), Err(HookRefusal::Header("x-request-id")));
}
