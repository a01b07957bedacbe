//! Tests of hooks.rs.

use journeyman_core::position::Thread;
use serde_json::json;

use super::*;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SIGNATURE: &str = "v1,sIihleF/lWWqAw56Vyw1/kOTc0bt2S192EVeitT2lXg=";
const ID: (&str, &str) = ("webhook-id", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f");
const TIME: (&str, &str) = ("webhook-timestamp", "1700000000");

fn hook(headers: &[(&str, &str)]) -> RawHook {
    RawHook {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: b"{\"object_kind\":\"note\"}".to_vec(),
    }
}

fn verifies(secret: &str, headers: &[(&str, &str)]) -> bool {
    is_signed(&SecretValue(secret.to_owned()), &hook(headers))
}

fn read_json(event: &str, mut body: Value) -> HookEvent {
    let project = json!({"id": 5, "path_with_namespace": "gitlab-org/gitlab-test", "default_branch": "master"});
    body["project"] = project;
    if body["user"].is_null() {
        body["user"] = json!({"id": 1, "name": "Administrator", "username": "root", "email": "[REDACTED]"});
    }
    read(event, body.to_string().as_bytes()).unwrap()
}

/// Returns the body of a note with other attributes.
fn note(attributes: Value) -> Value {
    let mut body = json!({
        "object_kind": "note",
        "event_type": "note",
        "project_id": 5,
        "object_attributes": {
            "id": 50_772_639, "note": "check spelling", "noteable_type": "MergeRequest", "noteable_id": 6_632_669,
            "author_id": 1, "created_at": "2017-12-10 17:05:56 UTC", "updated_at": "2017-12-10 17:06:00 UTC",
            "system": false, "type": null, "action": "create", "st_diff": null, "position": null,
            "url": "http://example.com/gitlab-org/gitlab-test/merge_requests/1#note_50772639",
        },
        "merge_request": {"id": 7, "iid": 1, "state": "opened", "source_branch": "feature"},
        "issue": {"id": 92, "iid": 17, "title": "test", "labels": [], "state": "closed"},
    });
    for (name, value) in attributes.as_object().unwrap() {
        body["object_attributes"][name] = value.clone();
    }
    body
}

fn comment_of(event: HookEvent) -> (u64, CommentAction, HostComment) {
    let HookContent::Comment { number, action, comment } = event.content else { panic!("{:?}", event.content) };
    (number, action, comment)
}

fn issue_of(event: HookEvent) -> (IssueAction, HostIssue) {
    let HookContent::Issue { action, issue } = event.content else { panic!("{:?}", event.content) };
    (action, issue)
}

#[test]
fn a_signature_is_verified() {
    let others = format!("v1a,AAAA v1,AAAA {SIGNATURE}");
    for (secret, signature, expected) in [
        (SECRET, SIGNATURE, true),
        (SECRET, others.as_str(), true),
        (SECRET.trim_start_matches(SIGNING), SIGNATURE, true),
        (SECRET.trim_end_matches('='), SIGNATURE, true),
        ("whsec_AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SIGNATURE, false),
        (SECRET, &SIGNATURE[3..], false),
        (SECRET, "v1,", false),
        (SECRET, "", false),
        ("whsec_no base64", SIGNATURE, false),
    ] {
        assert_eq!(verifies(secret, &[ID, TIME, ("webhook-signature", signature)]), expected, "{secret} {signature}");
    }
}

#[test]
fn the_delivery_and_the_time_are_signed_too() {
    let signature = ("webhook-signature", SIGNATURE);
    for headers in [
        vec![ID, TIME],
        vec![ID, signature],
        vec![TIME, signature],
        vec![("webhook-id", "another"), TIME, signature],
        vec![ID, ("webhook-timestamp", "1700000001"), signature],
    ] {
        assert!(!verifies(SECRET, &headers), "{headers:?}");
    }
    let mut changed = hook(&[ID, TIME, signature]);
    changed.body.push(b' ');
    assert!(!is_signed(&SecretValue(SECRET.to_owned()), &changed));
}

#[test]
fn a_signature_with_an_empty_key_is_refused() {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"").unwrap();
    mac.update(format!("{}.{}.", ID.1, TIME.1).as_bytes());
    mac.update(&hook(&[]).body);
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    for secret in ["whsec_", "whsec_=", ""] {
        assert!(!verifies(secret, &[ID, TIME, ("webhook-signature", &signature)]), "{secret}");
    }
}

#[test]
fn a_token_is_verified_unless_the_secret_signs() {
    for (secret, token, expected) in [
        ("a secret", "a secret", true),
        ("a secret", "a secret ", false),
        ("a secret", "", false),
        ("", "", false),
        (SECRET, SECRET, false),
    ] {
        assert_eq!(verifies(secret, &[("x-gitlab-token", token)]), expected, "{secret} {token}");
    }
    assert!(!verifies("a secret", &[]));
}

#[test]
fn the_delivery_is_in_the_newest_header_that_there_is() {
    let event = ("x-gitlab-event", "Note Hook");
    let (key, one, two) =
        (("idempotency-key", "key"), ("x-gitlab-webhook-uuid", "one"), ("x-gitlab-event-uuid", "two"));
    for (headers, expected) in [
        (vec![event, one, two, key, ID], ID.1),
        (vec![event, one, two, key], "key"),
        (vec![event, one, two, ("idempotency-key", "")], "one/two"),
    ] {
        let found = envelope(&hook(&headers)).unwrap();
        assert_eq!((found.delivery.as_str(), found.event.as_str()), (expected, "Note Hook"));
    }
    for (headers, missing) in [
        (vec![key], "x-gitlab-event"),
        (vec![event, two], "x-gitlab-webhook-uuid"),
        (vec![event, one], "x-gitlab-event-uuid"),
    ] {
        assert_eq!(envelope(&hook(&headers)).err(), Some(HookRefusal::Header(missing)));
    }
}

#[test]
fn a_comment_on_a_merge_request_is_told_from_one_on_an_issue() {
    let event = read_json("Note Hook", note(json!({})));
    let repository = event.repository.clone().unwrap();
    assert_eq!((repository.id.as_str(), repository.path.as_str()), ("5", "gitlab-org/gitlab-test"));
    let (number, action, comment) = comment_of(event);
    assert_eq!((number, action, comment.kind), (1, CommentAction::Created, CommentKind::Pull));
    assert_eq!(comment.id, "50772639");
    assert_eq!(comment.version, "2017-12-10T17:06:00Z");
    assert_eq!(comment.body, "check spelling");
    assert_eq!(comment.author, HostUser { id: "1".to_owned(), name: "root".to_owned(), is_bot: false });
    assert!(comment.url.ends_with("#note_50772639"));
    assert_eq!((comment.position, comment.hunk, comment.thread, comment.review), (None, None, None, None));
    let body = note(json!({"noteable_type": "Issue", "action": "update"}));
    let (number, action, comment) = comment_of(read_json("Note Hook", body));
    assert_eq!((number, action, comment.kind), (17, CommentAction::Edited, CommentKind::Issue));
}

#[test]
fn what_only_members_see_is_not_used() {
    let confidential = json!({"iid": 17, "confidential": true});
    let mut on_confidential = note(json!({"noteable_type": "Issue"}));
    on_confidential["issue"] = confidential;
    let mut issue = changed_issue("open", json!({}));
    let open = issue.clone();
    issue["object_attributes"]["confidential"] = json!(true);
    for (event, body) in [
        ("Note Hook", note(json!({"internal": true}))),
        ("note", note(json!({"confidential": true}))),
        ("Note Hook", on_confidential),
        ("Confidential Note Hook", note(json!({}))),
        ("Issue Hook", issue),
        ("Confidential Issue Hook", open),
    ] {
        assert_eq!(read_json(event, body).content, HookContent::Other, "{event}");
    }
}

#[test]
fn a_comment_on_a_line_has_its_position() {
    let position = |old_line: Value, new_line: Value| {
        json!({
            "base_sha": "2adc", "old_path": "OLD.md", "new_path": "README.md", "position_type": "text",
            "old_line": old_line, "new_line": new_line, "line_range": null,
        })
    };
    for (old, new, expected) in [
        (json!(null), json!(3), "`README.md`, line 3"),
        (json!(4), json!(null), "`README.md`, line 4 of the old version"),
        (json!(5), json!(6), "`README.md`, line 6"),
    ] {
        let body = note(json!({"type": "DiffNote", "position": position(old, new)}));
        let (_, _, comment) = comment_of(read_json("Note Hook", body));
        assert_eq!((comment.kind, comment.hunk), (CommentKind::Line, None));
        assert_eq!(comment.position.unwrap().to_string(), expected);
    }
    let body = note(json!({"type": "DiffNote", "st_diff": {"diff": "@@ -1 +1 @@\n-a\n+b", "new_path": "a"}}));
    let (_, _, comment) = comment_of(read_json("Note Hook", body));
    assert_eq!((comment.position, comment.hunk.as_deref()), (None, Some("@@ -1 +1 @@\n-a\n+b")));
}

#[test]
fn a_comment_on_lines_has_its_thread_and_the_commit_that_the_branch_has_left() {
    let (old, head) = ("4803c71e6b1833ca72b8b26ef2ecd5adc8a38031", "562e173be03b8ff2efb05345d12df18815438a4b");
    for (position_head, resolved_at, expected) in [
        (head, json!(null), "`lib/a.rb`, lines 5–7"),
        (
            old,
            json!("2026-05-05 10:00:00 UTC"),
            "`lib/a.rb`, lines 5–7, on commit 4803c71e6b18, which the branch has left behind; the lines may have moved",
        ),
    ] {
        let is_resolved = !resolved_at.is_null();
        let mut body = note(json!({
            "type": "DiffNote",
            "discussion_id": "8d2e1a",
            "resolved_at": resolved_at,
            "position": {
                "head_sha": position_head, "old_path": "lib/a.rb", "new_path": "lib/a.rb", "position_type": "text",
                "old_line": null, "new_line": 7,
                "line_range": {
                    "start": {"line_code": "c5_4_5", "type": "new", "old_line": null, "new_line": 5},
                    "end": {"line_code": "c5_4_7", "type": "new", "old_line": null, "new_line": 7},
                },
            },
        }));
        body["merge_request"]["last_commit"] = json!({"id": head});
        let (_, _, comment) = comment_of(read_json("Note Hook", body));
        assert_eq!(comment.position.unwrap().to_string(), expected);
        let thread = Thread { id: Some("8d2e1a".to_owned()), parent: None, is_resolved: Some(is_resolved) };
        assert_eq!(comment.thread, Some(thread));
    }
}

#[test]
fn a_comment_without_an_action_is_new() {
    let mut body = note(json!({"updated_at": null}));
    body["object_attributes"].as_object_mut().unwrap().remove("action");
    let (_, action, comment) = comment_of(read_json("Note Hook", body));
    assert_eq!((action, comment.version.as_str()), (CommentAction::Created, "2017-12-10T17:05:56Z"));
}

#[test]
fn the_author_of_a_comment_is_told_from_the_user_who_edits_it() {
    let known = |id: &str, name: &str, is_bot| HostUser { id: id.to_owned(), name: name.to_owned(), is_bot };
    for (user, author_id, expected) in [
        (json!({"id": 51, "username": "ada"}), json!(51), known("51", "ada", false)),
        (json!({"id": 52, "username": "bob"}), json!(51), known("51", "", false)),
        (json!({"name": "Ada", "username": "ada"}), json!(51), known("51", "ada", false)),
        (json!({"id": "51", "username": "ada", "name": ["x"]}), json!(null), known("51", "ada", false)),
        (json!({"id": 51, "username": null, "bot": null, "type": null}), json!(51), known("51", "", false)),
        (json!("ada"), json!(51), known("51", "", false)),
        (json!({"id": 9, "username": "project_5_bot"}), json!(9), known("9", "project_5_bot", true)),
        (json!({"id": 9, "username": "group_12_bot_0a"}), json!(9), known("9", "group_12_bot_0a", true)),
        (json!({"id": 9, "username": "project_x_bot"}), json!(9), known("9", "project_x_bot", false)),
        (json!({"id": 9, "username": "project_5_bottle"}), json!(9), known("9", "project_5_bottle", false)),
    ] {
        let mut body = note(json!({"author_id": author_id}));
        body["user"] = user;
        assert_eq!(comment_of(read_json("Note Hook", body)).2.author, expected);
    }
}

#[test]
fn a_body_without_a_user_has_no_sender() {
    for user in [json!(null), json!({}), json!({"id": null, "username": null}), json!("root")] {
        let mut body = note(json!({}));
        body["user"] = user;
        let event = read("Note Hook", body.to_string().as_bytes()).unwrap();
        assert_eq!((event.sender, event.repository), (None, None));
    }
}

#[test]
fn states_of_merge_requests_are_mapped() {
    for (state, action, expected) in [
        ("opened", "open", PullState::Open),
        ("opened", "update", PullState::Open),
        ("opened", "approved", PullState::Open),
        ("locked", "update", PullState::Open),
        ("closed", "close", PullState::Closed),
        ("merged", "merge", PullState::Merged),
    ] {
        let body = json!({
            "object_kind": "merge_request",
            "object_attributes": {
                "id": 99, "iid": 12, "action": action, "state": state, "source_branch": "ms-viewport",
                "target_branch": "master", "last_commit": {"id": "a".repeat(40)},
            },
            "changes": {"reviewers": [[], [{"id": 6, "state": "unreviewed"}]]},
        });
        let expected = HookContent::Pull {
            number: 12,
            state: expected,
            head: "ms-viewport".to_owned(),
            head_sha: sha(&"a".repeat(40)),
        };
        for event in ["Merge Request Hook", "System Hook"] {
            assert_eq!(read_json(event, body.clone()).content, expected, "{event} {state} {action}");
        }
    }
    let body = json!({"object_attributes": {"iid": 12, "source_branch": "b", "last_commit": null}});
    assert!(matches!(
        read_json("Merge Request Hook", body).content,
        HookContent::Pull { state: PullState::Open, head_sha: None, .. }
    ));
}

fn changed_issue(action: &str, changes: Value) -> Value {
    json!({
        "object_kind": "issue",
        "object_attributes": {
            "id": 301, "iid": 23, "action": action, "state": "opened", "title": "New API", "description": null,
            "author_id": 1, "url": "http://example.com/diaspora/issues/23",
        },
        "labels": [{"id": 206, "title": "API"}],
        "changes": changes,
    })
}

#[test]
fn an_opened_issue_is_read() {
    let (action, issue) = issue_of(read_json("Issue Hook", changed_issue("open", json!({}))));
    assert_eq!((action, issue.number, issue.title.as_str()), (IssueAction::Opened, 23, "New API"));
    assert_eq!((issue.body.as_str(), issue.author.name.as_str()), ("", "root"));
    assert_eq!(issue.labels, ["API"]);
    assert_eq!(issue.url, "http://example.com/diaspora/issues/23");
    let mut body = changed_issue("open", json!({}));
    body["object_attributes"]["labels"] = json!([{"id": 1, "title": "bug"}, {"id": 2, "title": "Journeyman"}]);
    assert_eq!(issue_of(read_json("Issue Hook", body)).1.labels, ["bug", "Journeyman"]);
    for (assignees, ids, expected) in [
        (json!([{"id": 6, "username": "ada"}, {"id": 7, "username": "bob"}]), json!([6, 7]), vec!["6", "7"]),
        (json!([{"name": "Ada", "username": "ada"}]), json!([6]), vec!["6"]),
        (json!(null), json!(null), vec![]),
    ] {
        let mut body = changed_issue("open", json!({}));
        body["assignees"] = assignees;
        body["object_attributes"]["assignee_ids"] = ids;
        let (_, issue) = issue_of(read_json("Issue Hook", body));
        assert_eq!(issue.assignees.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn all_labels_and_users_of_the_change_of_an_issue_are_read() {
    let labels = |previous: &[&str], current: &[&str]| {
        let all = |titles: &[&str]| titles.iter().map(|title| json!({"id": 1, "title": title})).collect::<Vec<_>>();
        json!({"previous": all(previous), "current": all(current)})
    };
    let users = |previous: &[(u64, &str)], current: &[(u64, &str)]| {
        let one = |user: &(u64, &str)| json!({"id": user.0, "username": user.1, "name": "x"});
        let all = |users: &[(u64, &str)]| users.iter().map(one).collect::<Vec<_>>();
        json!({"previous": all(previous), "current": all(current)})
    };
    let ada = HostUser { id: "6".to_owned(), name: "ada".to_owned(), is_bot: false };
    let bot = HostUser { id: "8".to_owned(), name: "project_5_bot".to_owned(), is_bot: true };
    for (action, changes, labels, users) in [
        ("update", json!({"labels": labels(&[], &["critical"])}), vec!["critical"], vec![]),
        ("update", json!({"labels": labels(&["a"], &["a", "b", "Journeyman"])}), vec!["b", "Journeyman"], vec![]),
        ("update", json!({"labels": labels(&["journeyman"], &["journeyman", "b"])}), vec!["b"], vec![]),
        ("update", json!({"labels": labels(&["a"], &[])}), vec![], vec![]),
        ("update", json!({"assignees": users(&[], &[(6, "ada")])}), vec![], vec![&ada]),
        ("update", json!({"assignees": users(&[(6, "ada")], &[(6, "ada"), (8, "project_5_bot")])}), vec![], vec![&bot]),
        ("update", json!({"assignees": users(&[], &[(6, "ada"), (8, "project_5_bot")])}), vec![], vec![&ada, &bot]),
        ("update", json!({"assignees": users(&[(6, "ada")], &[])}), vec![], vec![]),
        (
            "update",
            json!({
                "title": {"previous": "a", "current": "b"},
                "labels": labels(&[], &["bug", "journeyman"]),
                "assignees": users(&[], &[(6, "ada")]),
            }),
            vec!["bug", "journeyman"],
            vec![&ada],
        ),
        ("update", json!({"title": {"previous": "a", "current": "b"}}), vec![], vec![]),
        ("update", json!(null), vec![], vec![]),
        ("close", json!({"labels": labels(&[], &["critical"])}), vec![], vec![]),
        ("reopen", json!({}), vec![], vec![]),
    ] {
        let (found, _) = issue_of(read_json("Issue Hook", changed_issue(action, changes.clone())));
        let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
        let expected = IssueAction::added(labels, users.into_iter().cloned().collect());
        assert_eq!(found, expected, "{action} {changes}");
    }
}

#[test]
fn pipelines_and_jobs_are_checks_of_their_commit() {
    let commit = "b".repeat(40);
    let expected = |pull| HookContent::Checks { sha: commit.parse().unwrap(), pull };
    let pipeline = json!({
        "object_kind": "pipeline",
        "object_attributes": {"id": 31, "ref": "master", "sha": commit, "status": "failed"},
        "merge_request": null,
        "commit": {"id": commit},
    });
    assert_eq!(read_json("Pipeline Hook", pipeline.clone()).content, expected(None));
    let mut of_pull = pipeline;
    of_pull["merge_request"] = json!({"id": 1, "iid": 7, "title": "Test", "state": "opened"});
    assert_eq!(read_json("Pipeline Hook", of_pull).content, expected(Some(7)));
    let job = json!({
        "object_kind": "build", "ref": "main", "sha": commit, "build_id": 1977, "build_status": "failed",
        "project_id": 380, "project_name": "Gitlab Org / Gitlab Test", "commit": {"id": 2366, "sha": "x"},
    });
    assert_eq!(read_json("Job Hook", job.clone()).content, expected(None));
    let event = read("Job Hook", job.to_string().as_bytes()).unwrap();
    assert_eq!((event.content, event.repository), (expected(None), None));
    for (event, body) in [("Job Hook", json!({"sha": "main"})), ("Pipeline Hook", json!({"object_kind": "pipeline"}))] {
        assert_eq!(read_json(event, body).content, HookContent::Other);
    }
}

#[test]
fn a_renamed_project_is_read() {
    let body = json!({
        "event_name": "project_rename", "path": "underscore", "path_with_namespace": "jsmith/underscore",
        "project_id": 74, "old_path_with_namespace": "jsmith/overscore",
    });
    let event = read("System Hook", body.to_string().as_bytes()).unwrap();
    assert_eq!(event.content, HookContent::Repository);
    let expected = EventRepository { id: "74".to_owned(), path: "jsmith/underscore".to_owned() };
    assert_eq!(event.repository, Some(expected));
}

#[test]
fn a_push_is_read() {
    let body = json!({
        "object_kind": "push", "event_name": "push", "ref": "refs/heads/main", "project_id": 5, "commits": 7,
    });
    for event in ["Push Hook", "System Hook"] {
        let read = read_json(event, body.clone());
        assert_eq!(read.content, HookContent::Push { branches: vec!["main".to_owned()] }, "{event}");
        let expected = EventRepository { id: "5".to_owned(), path: "gitlab-org/gitlab-test".to_owned() };
        assert_eq!(read.repository, Some(expected), "{event}");
    }
}

#[test]
fn other_events_are_read_without_an_error() {
    for (event, body) in [
        ("Push Hook", json!({"object_kind": "push", "ref": "refs/tags/v1", "project_id": "x", "commits": 7})),
        ("Tag Push Hook", json!({"object_kind": "tag_push", "ref": "refs/tags/v1", "project_id": 7})),
        ("Emoji Hook", json!({"object_kind": "emoji", "object_attributes": {"action": "award"}})),
        ("Member Hook", json!({"event_name": "user_add_to_group"})),
        ("System Hook", json!({"event_name": "user_create"})),
        ("System Hook", json!({})),
        ("Note Hook", note(json!({"system": true}))),
        ("Note Hook", note(json!({"action": "destroy"}))),
        ("Note Hook", note(json!({"noteable_type": "Commit"}))),
        ("Note Hook", note(json!({"noteable_type": "Snippet"}))),
        ("note", json!({"object_attributes": {"id": 1}})),
    ] {
        assert_eq!(read_json(event, body).content, HookContent::Other, "{event}");
    }
}

#[test]
fn an_unreadable_body_is_an_error() {
    for (event, body) in [
        ("Note Hook", "no json"),
        ("Push Hook", ""),
        ("Note Hook", "[]"),
        ("Note Hook", r#"{"object_attributes": null}"#),
        ("Note Hook", r#"{"object_attributes": {"id": 1, "noteable_type": "Issue"}}"#),
        ("Note Hook", r#"{"object_attributes": {"note": "x"}}"#),
        ("Merge Request Hook", r#"{"object_attributes": {"iid": 1}}"#),
        ("Merge Request Hook", r#"{"object_attributes": {"iid": "x", "source_branch": "b"}}"#),
        ("Issue Hook", "{}"),
    ] {
        assert!(read(event, body.as_bytes()).is_err(), "{event} {body}");
    }
}
