//! Tests of the changes of a job, and of the parts that the files of a pull request share with them.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::ids::JobId;
use journeyman_core::ports::JobStore as _;
use journeyman_core::user::Role;

use super::pulls::{Fake, detail, job_with_pull};
use super::{Fixture, Reply, fixture};

/// The commit that the job of the fixture has made.
const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

async fn with_changes() -> (Fixture, JobId, String) {
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    shown.commits[0].sha = COMMIT.parse().unwrap();
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let (id, _) = job_with_pull(&fixture).await;
    let path = format!("/projects/shop/jobs/{id}/changes");
    (fixture, id, path)
}

impl Fixture {
    async fn member(&self, method: Method, path: &str, form: &str) -> Reply {
        self.send(Some(Role::Member), method, path, form).await
    }
}

#[tokio::test]
async fn the_changes_of_a_message_and_of_a_commit_are_shown() {
    let (fixture, _, path) = with_changes().await;
    for page in [path.clone(), "/projects/shop/pulls/8/files".to_owned()] {
        for query in ["message=1", "commit=aaaaaaaa", &format!("commit={COMMIT}&view=split")] {
            let shown = fixture.member(Method::GET, &format!("{page}?{query}"), "").await;
            assert_eq!(shown.status, StatusCode::OK, "{page} {query}");
            assert!(shown.body.contains("data-path=\"a.txt\""), "the diff of the commit: {}", shown.body);
        }
        let commit = fixture.member(Method::GET, &format!("{page}?commit=aaaaaaaa"), "").await.body;
        for part in [
            "<a href=\"?view=unified\">All",
            "<a href=\"?view=unified&#38;message=1\">Message 1",
            &format!("<a href=\"?view=unified&#38;commit={COMMIT}\" aria-current=\"true\">Commit aaaaaaaa"),
            &format!("/lines?tip={COMMIT}&#38;commit={COMMIT}&#38;view=unified&#38;path=a.txt\""),
        ] {
            assert!(commit.contains(part), "{part} is not in {commit}");
        }
        for query in ["commit=bbbbbbbb", "commit=aaa", "message=2", "message=0"] {
            let missing = fixture.member(Method::GET, &format!("{page}?{query}"), "").await;
            assert_eq!(missing.status, StatusCode::NOT_FOUND, "{page} {query}");
        }
    }
}

#[tokio::test]
async fn more_lines_are_read_from_the_commit_that_the_page_shows() {
    let (fixture, _, path) = with_changes().await;
    for page in [path, "/projects/shop/pulls/8/files".to_owned()] {
        let get = async |query: &str| fixture.member(Method::GET, &format!("{page}/lines?{query}"), "").await;
        let some = get(&format!("tip={COMMIT}&path=x.txt&from=7&to=8&shift=-2")).await;
        assert_eq!(some.status, StatusCode::OK, "{}", some.body);
        let row = format!(
            "<tr class=\"same\"><td class=\"no\">5</td><td class=\"no\">7</td><td class=\"sign\"></td><td class=\"code\">&#60;7 of {COMMIT}&#62;</td></tr>"
        );
        assert!(some.body.starts_with(&row), "{row}: {}", some.body);
        assert_eq!(some.body.matches("<tr").count(), 2, "{}", some.body);
        let split = get(&format!("tip={COMMIT}&path=x.txt&from=7&to=7&shift=0&view=split")).await;
        assert_eq!(split.body.matches("&#60;7 of").count(), 2, "on both sides: {}", split.body);
        let many = get(&format!("tip={COMMIT}&path=x.txt&from=1&to=499&shift=0")).await;
        assert_eq!(many.body.matches("<tr").count(), 200, "at most 200 lines");
        let beyond = get(&format!("tip={COMMIT}&path=x.txt&from=4294967295&to=4294967295&shift=0")).await;
        assert_eq!((beyond.status, beyond.body.as_str()), (StatusCode::OK, ""));
        let missing = get(&format!("tip={COMMIT}&path=y.txt&from=1&to=9&shift=0")).await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND);
        let stale = get(&format!("tip={}&path=x.txt&from=1&to=9&shift=0", "b".repeat(40))).await;
        assert_eq!(stale.status, StatusCode::CONFLICT);
        assert!(stale.body.contains("Reload it"), "{}", stale.body);
    }
}

#[tokio::test]
async fn comments_on_lines_become_one_message_to_the_job() {
    let (fixture, id, path) = with_changes().await;
    let page = fixture.member(Method::GET, &format!("{path}?at=1-n2"), "").await.body;
    for part in [
        "Send to the agent</button>",
        "data-pending hidden>",
        &format!("action=\"{path}/comments\"><input type=\"hidden\" name=\"path\" value=\"x.txt\">"),
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    // As the script sends the comments that it has collected.
    let held = |line: u64, side: &str, body: &str| {
        let json = serde_json::json!({"path": "x.txt", "side": side, "line": line, "body": body}).to_string();
        format!("comment={}", crate::words::in_query(&json))
    };
    let form = format!("{}&{}&once=k&part=&view=unified", held(2, "new", "Rename it"), held(2, "old", "Why?"));
    for _ in 0..2 {
        let sent = fixture.member(Method::POST, &format!("{path}/comments"), &form).await;
        let page = format!("{path}?done=comments_sent");
        assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, page.as_str()), "{}", sent.body);
    }
    let messages = fixture.store.messages(id).await.unwrap();
    assert_eq!(messages.len(), 2, "the same form is sent once");
    let prompt = &messages[1].prompt;
    for part in [
        "member reviewed the changes of this job (2 comments).",
        "## Comment 1 on `x.txt`, line 2 (member)",
        "@@ -1,2 +1,2 @@\n same\n-old\n+new\n",
        "Rename it",
        "Why?",
    ] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}

#[tokio::test]
async fn a_comment_on_the_changes_of_a_message_names_it() {
    let (fixture, id, path) = with_changes().await;
    let form = "path=a.txt&side=new&line=1&body=Why%3F&part=message%3D1&view=split";
    let sent = fixture.member(Method::POST, &format!("{path}/comments"), form).await;
    let page = format!("{path}?view=split&message=1&done=comments_sent");
    assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, page.as_str()), "{}", sent.body);
    let prompt = fixture.store.messages(id).await.unwrap().remove(1).prompt;
    assert!(
        prompt.contains("the changes of message 1 of this job") && prompt.contains("on `a.txt`, line 1"),
        "{prompt}"
    );
}

#[tokio::test]
async fn refused_comments_say_why_and_keep_the_text() {
    let (fixture, id, path) = with_changes().await;
    for (form, parts) in [
        (
            "path=x.txt&side=new&line=9&body=Rename+it",
            &["The comments were not sent.", "Line 9 of x.txt is no longer", "Rename it</textarea>"][..],
        ),
        ("path=x.txt&side=new&line=2&body=+", &["The comment was not added.", "A comment must have 1 to 60000"]),
        ("path=x.txt&side=both&line=2&body=x", &["choose the line again"]),
        ("comment=%7B%7D", &["choose the line again"]),
    ] {
        let refused = fixture.member(Method::POST, &format!("{path}/comments"), form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        for part in parts {
            assert!(refused.body.contains(part), "{form}: {part} is not in {}", refused.body);
        }
    }
    assert_eq!(fixture.store.messages(id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn changes_of_whitespace_are_hidden_on_request() {
    let (fixture, _, path) = with_changes().await;
    for page in [path.clone(), "/projects/shop/pulls/8/files".to_owned()] {
        let all = fixture.member(Method::GET, &format!("{page}?message=1"), "").await.body;
        for part in [
            "<a class=\"button quiet\" href=\"?view=unified&#38;w=1&#38;message=1\">Hide whitespace</a>",
            " above</button>@@ -20 +20 @@",
            "id=\"f2-R2\"",
        ] {
            assert!(all.contains(part), "{part} is not in {all}");
        }
        let hidden = fixture.member(Method::GET, &format!("{page}?message=1&w=1"), "").await.body;
        for part in [
            "<a class=\"button quiet\" href=\"?view=unified&#38;message=1\">Show whitespace</a>",
            "<a href=\"?view=unified&#38;w=1\">All",
            "<a href=\"?view=unified&#38;w=1&#38;message=1\" aria-current=\"true\">Message 1",
            "<a href=\"?view=split&#38;w=1&#38;message=1\">Side by side</a>",
            "<tr class=\"same\"><td class=\"no\" id=\"f2-L1\">1</td><td class=\"no\" id=\"f2-R1\">",
            "<tr class=\"del\"><td class=\"no\" id=\"f2-L2\">",
        ] {
            assert!(hidden.contains(part), "{part} is not in {hidden}");
        }
        assert!(!hidden.contains("@@ -20 +20 @@"), "{hidden}");
        let split = fixture.member(Method::GET, &format!("{page}?message=1&w=1&view=split"), "").await.body;
        let old = "<td class=\"no same\" id=\"f2-L1\">1</td>";
        assert!(split.contains(old) && !split.contains("@@ -20 +20 @@"), "{split}");
    }
    let job = fixture.member(Method::GET, &format!("{path}?message=1&w=1"), "").await.body;
    for part in [
        "<a href=\"?w=1&amp;message=1&amp;at=2-n1#f2-R1\"",
        "name=\"view\" value=\"unified\"><input type=\"hidden\" name=\"w\" value=\"1\">",
    ] {
        assert!(job.contains(part), "{part} is not in {job}");
    }
}

#[tokio::test]
async fn the_answer_to_a_comment_keeps_changes_of_whitespace_hidden() {
    let (fixture, _, path) = with_changes().await;
    let form = "path=s.txt&side=old&line=1&body=Why%3F&part=message%3D1&view=split&w=1";
    let sent = fixture.member(Method::POST, &format!("{path}/comments"), form).await;
    let page = format!("{path}?view=split&w=1&message=1&done=comments_sent");
    assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, page.as_str()), "{}", sent.body);
    // The form is shown again at its line, also in a hunk that is hidden otherwise.
    let form = "path=s.txt&side=new&line=20&body=+&part=message%3D1&view=unified&w=1";
    let refused = fixture.member(Method::POST, &format!("{path}/comments"), form).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    for part in ["Show whitespace</a>", "@@ -20 +20 @@", "The comment was not added."] {
        assert!(refused.body.contains(part), "{part} is not in {}", refused.body);
    }
}
