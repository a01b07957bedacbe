//! Tests of wire.rs.

use super::*;

#[test]
fn a_prefix_marks_a_draft() {
    for title in ["Add x", "WIP: Add x", "wip:Add x", "[WIP] Add x", "[wip]Add x"] {
        assert_eq!((titled(title, true).as_str(), titled(title, false).as_str()), ("WIP: Add x", "Add x"), "{title}");
    }
    assert_eq!(titled("Wipe the disk", false), "Wipe the disk");
    assert_eq!(titled("ä", true), "WIP: ä");
}

#[test]
fn the_newest_commit_of_the_branch_is_not_that_of_an_ended_pull_request() {
    let commit = "a".repeat(40);
    for (state, merged, expected) in [("open", false, sha(&commit)), ("closed", true, None), ("closed", false, None)] {
        let end = serde_json::json!({"label": "x", "ref": "x", "sha": commit, "repo_id": 7});
        let pull = serde_json::json!({
            "number": 1, "html_url": "u", "state": state, "merged": merged, "title": "T", "head": end, "base": end,
        });
        let pull = serde_json::from_value::<PullRequest>(pull).unwrap().into_pull();
        assert_eq!(pull.head_sha, expected, "{state} {merged}");
    }
}

#[test]
fn a_reference_is_found_by_its_whole_name() {
    let one = |name: &str, digit: &str| {
        let object = serde_json::json!({"type": "commit", "sha": digit.repeat(40)});
        serde_json::json!({"ref": name, "url": "u", "object": object})
    };
    let several = serde_json::json!([one("refs/pull/1/head2", "a"), one("refs/pull/1/head", "b")]);
    for (body, expected) in [(several, sha(&"b".repeat(40))), (one("refs/pull/1/head", "c"), sha(&"c".repeat(40)))] {
        let found: References = serde_json::from_value(body).unwrap();
        assert_eq!(found.commit("refs/pull/1/head"), expected);
        assert_eq!(found.commit("refs/pull/1"), None);
    }
}

#[test]
fn a_change_of_an_issue_says_what_was_added() {
    let change = |fields: serde_json::Value| serde_json::from_value::<Change>(fields).unwrap();
    let label = serde_json::json!({"id": 3, "name": "Journeyman"});
    let me = HostUser { id: "9".to_owned(), name: "bot".to_owned(), is_bot: false };
    for (fields, is_label, is_me) in [
        (serde_json::json!({"type": "label", "body": "1", "label": label, "assignee": null}), true, false),
        (serde_json::json!({"type": "label", "body": "", "label": label}), false, false),
        (serde_json::json!({"type": "assignees", "assignee": {"id": 9, "login": "bot"}}), false, true),
        (serde_json::json!({"type": "assignees", "assignee": {"id": 9}, "removed_assignee": true}), false, false),
        (serde_json::json!({"type": "assignees", "assignee": {"id": 8}}), false, false),
        (serde_json::json!({"type": "comment", "body": "1", "label": null}), false, false),
    ] {
        let change = change(fields);
        assert_eq!((change.adds("journeyman"), change.assigns(&me)), (is_label, is_me), "{change:?}");
    }
}

#[test]
fn only_submitted_reviews_count() {
    let review = |state: &str, dismissed: bool| {
        let fields = serde_json::json!({
            "id": 9, "user": {"id": 5, "login": "ada"}, "team": null, "state": state, "body": "Please.",
            "dismissed": dismissed, "submitted_at": "2026-01-01T10:00:00Z", "html_url": "u#issuecomment-8",
        });
        serde_json::from_value::<Review>(fields).unwrap().into_review()
    };
    for (state, approves) in [("APPROVED", true), ("COMMENT", false), ("REQUEST_CHANGES", false)] {
        let found = review(state, false).unwrap();
        assert_eq!((found.id.as_str(), found.body.as_str(), found.approves), ("9", "Please.", approves));
        assert_eq!((found.version.as_str(), found.url.as_str()), ("2026-01-01T10:00:00Z", "u#issuecomment-8"));
        assert_eq!((found.author.id.as_str(), found.author.name.as_str()), ("5", "ada"));
        assert_eq!(review(state, true), None, "{state}");
    }
    for state in ["PENDING", "REQUEST_REVIEW", ""] {
        assert_eq!(review(state, false), None, "{state}");
    }
}

#[test]
fn fields_of_a_review_may_be_missing() {
    let fields = serde_json::json!({
        "id": 9, "user": null, "state": "COMMENT", "body": null, "html_url": "", "pull_request_url": "u",
    });
    let found = serde_json::from_value::<Review>(fields).unwrap().into_review().unwrap();
    assert_eq!((found.author.id.as_str(), found.body.as_str(), found.url.as_str()), ("", "", "u"));
}

#[test]
fn reviews_are_ordered_by_their_submission() {
    let age = |id: u64, submitted_at: &str, updated_at: &str| {
        let fields = serde_json::json!({"id": id, "submitted_at": submitted_at, "updated_at": updated_at});
        serde_json::from_value::<Review>(fields).unwrap().age()
    };
    let begun_first = age(1, "2026-01-01T10:00:00Z", "2026-01-01T10:30:00Z");
    assert!(begun_first > age(2, "2026-01-01T10:10:00Z", "2026-01-01T10:10:00Z"));
    assert!(begun_first < age(2, "2026-01-01T11:40:00+01:00", ""));
    assert!(age(1, "", "") < age(2, "", ""));
}

#[test]
fn the_page_of_a_job_is_found() {
    let sha: Sha = "0123456789012345678901234567890123456789".parse().unwrap();
    let page = JobPage::of(&sha, "/sub/acme/shop/actions/runs/12/jobs/1").unwrap();
    assert_eq!(JobPage::parse(&page.to_string()), Some(page.clone()));
    assert!(page.is_of_run("https://git.example/sub/acme/shop/actions/runs/12"));
    assert!(!page.is_of_run("https://git.example/sub/acme/shop/actions/runs/112"));
    let job = |id: u64, url: Option<&str>| Job { id: Id(id.to_string()), html_url: url.map(str::to_owned) };
    let named = |url: &str| Some(format!("https://git.example{url}"));
    let (first, second) = (named("/acme/shop/actions/runs/12/jobs/0"), named("/acme/shop/actions/runs/12/jobs/1"));
    assert_eq!(page.find(vec![job(7, second.as_deref()), job(8, first.as_deref())]).as_deref(), Some("7"));
    assert_eq!(page.find(vec![job(7, None), job(8, None)]).as_deref(), Some("8"));
    for other in
        ["https://ci.example/actions/runs/1/jobs/2", "/acme/shop/actions/runs/1", "/x/actions/runs/1/job/2", ""]
    {
        assert_eq!(JobPage::of(&sha, other), None, "{other}");
    }
}
