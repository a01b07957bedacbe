//! Tests of comments and reviews on the pages of pull requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use journeyman_app::Caller;
use journeyman_core::code_host::PullState;
use journeyman_core::engine::Control;
use journeyman_core::ids::JobId;
use journeyman_core::ports::{InboxFilter, InboxStore as _, JobStore as _, PullStore as _};
use journeyman_core::position::DiffSide;
use journeyman_core::pull::comment::SERVICE;
use journeyman_core::pull::{LinePosition, NewComment};
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_testkit::{PATIENCE, Seeds as _};
use tower::ServiceExt as _;

use super::job::complete;
use super::pulls::{Fake, SPACES, assert_harmless, detail, hostile, job_with_pull};
use super::{Fixture, fixture, project, token};

/// The mark of a comment that addresses the job.
const SENT: &str = " sent to the agent</span>";

/// Creates a fixture whose pages show a pull request that a job has opened. Returns the path of the pull request's page
/// and the job.
async fn with_job() -> (Fixture, String, JobId) {
    // The job opens the next pull request after those of the fixture.
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let (id, number) = job_with_pull(&fixture).await;
    (fixture, format!("/projects/shop/pulls/{number}"), id)
}

impl Fixture {
    /// Sends a form, and returns the page to which the answer redirects.
    async fn form(&self, path: &str, form: &str) -> String {
        let sent = self.send(Some(Role::Member), Method::POST, path, form).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
        self.send(Some(Role::Member), Method::GET, sent.header("location"), "").await.body
    }

    async fn carry_out(&self) {
        while self.cases.carry_out_due_events().await.unwrap() > 0 {}
    }

    /// Opens a stream as a viewer.
    async fn open(&self, path: &str) -> Body {
        let cookie = format!("journeyman={}", token(Role::Viewer));
        let request = Request::builder().uri(path).header("cookie", cookie).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body()
    }
}

/// Returns the next event of a stream; an empty text if there is none within this time. Skips comments, which keep the
/// connection open.
async fn event(stream: &mut Body, within: Duration) -> String {
    let next = async {
        loop {
            let frame = stream.frame().await.unwrap().unwrap();
            let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
            if !text.starts_with(':') {
                return text;
            }
        }
    };
    tokio::time::timeout(within, next).await.unwrap_or_default()
}

/// Returns the URL of the stream of a page; `None` if the page has no stream.
fn source(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("<turbo-stream-source id=\"live-")?;
    let (_, rest) = rest.split_once(" src=\"")?;
    Some(rest.split_once('"')?.0.replace("&#38;", "&"))
}

#[tokio::test]
async fn a_comment_for_the_job_that_is_sent_twice_is_added_once() {
    let (fixture, path, id) = with_job().await;
    for _ in 0..2 {
        let form = "body=@journeyman+go+on&once=k1";
        let sent = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/comments"), form).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
        assert_eq!(sent.header("location"), format!("{path}?done=sent"));
    }
    fixture.carry_out().await;
    assert_eq!(fixture.store.messages(id).await.unwrap().len(), 2, "the first prompt, and the comment");
    assert_eq!(fixture.store.comments("shop".into(), 8).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_comment_says_what_became_of_it() {
    let (fixture, path, id) = with_job().await;
    let ordinary = fixture.form(&format!("{path}/comments"), "body=Looks+good").await;
    assert!(ordinary.contains("id=\"c-1\"") && !ordinary.contains(SENT), "{ordinary}");
    let at_once = fixture.form(&format!("{path}/comments"), "body=Go+on,+@journeyman").await;
    assert!(at_once.contains(SENT), "{at_once}");
    fixture.carry_out().await;
    let message = fixture.store.messages(id).await.unwrap().remove(1).id;
    let page = fixture.page(Role::Viewer, &path).await;
    let link =
        format!("<span class=\"mark queued\"></span> <a href=\"/projects/shop/jobs/{id}#m-{message}\">queued</a>");
    assert!(page.contains(&link), "{link}: {page}");

    // The worker of the first turn has priority for a moment.
    fixture.world.advance(Duration::from_secs(10));
    complete(&fixture, id, 40, Vec::new()).await;
    let (page, list) =
        (fixture.page(Role::Viewer, &path).await, fixture.page(Role::Viewer, "/projects/shop/pulls").await);
    let size = "<span class=\"plus\">+1,145</span> <span class=\"minus\">−18</span>";
    let sha = "b".repeat(40);
    let pushed =
        format!("pushed <a class=\"commit\" href=\"{path}/files?commit={sha}\"><code>bbbbbbbb</code></a> {size}</li>");
    assert!(page.contains("worked 40 s") && page.contains(&pushed), "{pushed}: {page}");
    assert!(list.contains(&format!("<span>{size}</span>")), "{list}");

    let answer = NewComment {
        author: SERVICE.to_owned(),
        author_id: Some(SERVICE.to_owned()),
        body: "Done, **@journeyman**".to_owned(),
        at: fixture.world.now(),
        ..NewComment::default()
    };
    fixture.store.comment_once("shop".into(), 8, "m".to_owned(), answer).await.unwrap();
    let page = fixture.page(Role::Viewer, &path).await;
    assert!(page.contains("<bdi>journeyman</bdi></strong> <span class=\"chip\">agent</span>"), "{page}");
    assert_eq!(page.matches(SENT).count(), 1, "an answer is not sent to the job: {page}");
}

#[tokio::test]
async fn a_comment_that_the_job_did_not_get_says_why() {
    let (fixture, path, id) = with_job().await;
    fixture.form(&format!("{path}/comments"), "body=@journeyman+go+on").await;
    fixture.engine.control(&"shop".parse().unwrap(), id, Control::Archive, None).await.unwrap();
    fixture.carry_out().await;
    let page = fixture.page(Role::Viewer, &path).await;
    assert!(page.contains("<span class=\"badge warning push\">not sent: The job is archived</span>"), "{page}");
    let late = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/comments"), "body=@journeyman+hi").await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(late.body.contains("is archived") && late.body.contains(">@journeyman hi</textarea>"), "{}", late.body);
}

#[tokio::test]
async fn the_number_of_a_line_opens_a_form_for_a_comment_on_it() {
    let (fixture, path, _) = with_job().await;
    for (at, side, line, view) in
        [("1-n2", "new", 2, "unified"), ("1-o2", "old", 2, "unified"), ("1-n1", "new", 1, "split")]
    {
        let page = fixture.page(Role::Member, &format!("{path}/files?view={view}&at={at}")).await;
        for part in [
            "<tr class=\"talk\"><td colspan=",
            "<form class=\"note writing\" id=\"remark\" method=\"post\" action=\"/projects/shop/pulls/8/lines\">",
            &format!(
                "name=\"path\" value=\"x.txt\"><input type=\"hidden\" name=\"side\" value=\"{side}\"><input type=\"hidden\" \
                 name=\"line\" value=\"{line}\"><input type=\"hidden\" name=\"view\" value=\"{view}\">"
            ),
        ] {
            assert!(page.contains(part), "{at}: {part} is not in {page}");
        }
    }
    let viewer = fixture.page(Role::Viewer, &format!("{path}/files?at=1-n2")).await;
    assert!(!viewer.contains("id=\"remark\"") && !viewer.contains("at=1-n1"), "{viewer}");
    assert!(viewer.contains("<a href=\"#f1-R2\" aria-label=\"Link to line 2\">2</a>"), "{viewer}");
    let missing = fixture.page(Role::Member, &format!("{path}/files?at=1-n9")).await;
    assert_eq!(missing.matches("id=\"remark\"").count(), 1, "only the pattern for scripts: {missing}");
}

#[tokio::test]
async fn a_comment_on_a_change_of_whitespace_is_shown_where_such_changes_are_hidden() {
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    shown.diff = SPACES.to_owned();
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    job_with_pull(&fixture).await;
    let path = "/projects/shop/pulls/8";
    let lines = format!("{path}/lines");
    let hunk = "@@ -20 +20 @@";
    let before = fixture.page(Role::Member, &format!("{path}/files?w=1")).await;
    assert!(before.contains("Show whitespace</a>") && !before.contains(hunk), "{before}");

    let blank = "path=s.txt&side=new&line=20&body=+&w=1";
    let refused = fixture.send(Some(Role::Member), Method::POST, &lines, blank).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    for part in [hunk, "The comment was not added.", "name=\"w\" value=\"1\">"] {
        assert!(refused.body.contains(part), "{part} is not in {}", refused.body);
    }

    for (line, text) in [(1, "Why+one%3F"), (20, "Why+three%3F")] {
        let form = format!("path=s.txt&side=old&line={line}&body={text}&as=comment&view=unified&w=1");
        let sent = fixture.send(Some(Role::Member), Method::POST, &lines, &form).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
        assert_eq!(sent.header("location"), format!("{path}/files?w=1&done=commented#files"));
    }
    for view in ["unified", "split"] {
        let page = fixture.page(Role::Member, &format!("{path}/files?view={view}&w=1")).await;
        assert_eq!(page.matches("<tr class=\"talk\">").count(), 2, "{page}");
        for part in ["Why one?", "Why three?", hunk] {
            assert!(page.contains(part), "{view}: {part} is not in {page}");
        }
    }
}

#[tokio::test]
async fn comments_on_lines_are_collected_and_submitted_as_one_review() {
    let (fixture, path, _) = with_job().await;
    let lines = format!("{path}/lines");
    fixture.form(&lines, "path=x.txt&side=new&line=2&body=Rename+**it**&as=draft&once=a").await;
    let collected = fixture.form(&lines, "path=x.txt&side=old&line=2&body=Why%3F&as=draft&view=split&once=b").await;
    for part in [
        "The comment is added to your review. Submit the review when it is complete.",
        "<article class=\"entry draft\" id=\"r-1\">",
        "<span class=\"badge queued push\">not submitted</span>",
        " 2<span class=\"unseen\"> comments</span></span></summary>",
        "Submit review</button>",
        "<table class=\"lines split\">",
    ] {
        assert!(collected.contains(part), "{part} is not in {collected}");
    }
    let conversation = fixture.page(Role::Member, &path).await;
    for part in [
        "<article class=\"entry draft\" id=\"c-2\">",
        "<h2 class=\"panel-head\" id=\"review-head\">Your review <span class=\"count\">2</span></h2>",
        "<input type=\"radio\" name=\"verdict\" value=\"approve\"> Approve",
        "Submit review</button>",
        "<a href=\"/projects/shop/pulls/8/files#r-1\"><code><bdi>x.txt</bdi></code>, line 2</a>",
    ] {
        assert!(conversation.contains(part), "{part} is not in {conversation}");
    }
    let other = fixture.page(Role::Administrator, &path).await;
    assert!(!other.contains("Why?") && !other.contains("Submit review</button>"), "drafts are private: {other}");
    let removed = fixture.form(&format!("{path}/drafts/2/remove"), "").await;
    assert!(!removed.contains("Why?") && removed.contains("Your review <span class=\"count\">1</span>"), "{removed}");

    let submitted = fixture.form(&format!("{path}/review"), "body=&once=c").await;
    assert!(submitted.contains("The review is submitted, and sent to the agent."), "{submitted}");
    for page in [submitted, fixture.page(Role::Viewer, &path).await] {
        for part in [
            "<span>reviewed</span>",
            SENT,
            "<ol class=\"replies\"><li><div id=\"thread-1\" data-thread=\"1 open\"><article class=\"entry\" id=\"c-1\">",
            "<pre class=\"patch\" tabindex=\"0\" aria-label=\"The lines that the comment is about\"><span class=\"muted\"> same\n</span>",
            "<p>Rename <strong>it</strong></p>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("Submit review</button>"), "{page}");
    }
    let files = fixture.page(Role::Viewer, &format!("{path}/files")).await;
    assert!(files.contains("<article class=\"entry\" id=\"r-1\">"), "{files}");
    let events = fixture.store.inbox(InboxFilter::newest(None, 9)).await.unwrap();
    assert_eq!(events.len(), 1, "one event for the whole review");
    let empty = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/review"), "body=").await;
    assert_eq!(empty.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(empty.body.contains("The review is empty; write a summary"), "{}", empty.body);
}

#[tokio::test]
async fn a_thread_on_a_line_is_resolved_into_one_line_and_opened_again() {
    const FOLDED: &str = "<details class=\"resolved\"";
    let (fixture, path, _) = with_job().await;
    let (lines, files) = (format!("{path}/lines"), format!("{path}/files"));
    let write = async |body: &str| {
        fixture.form(&lines, &format!("path=x.txt&side=new&line=2&body={body}&as=comment")).await;
    };
    write("Rename+it").await;
    write("Indeed").await;
    for page in [&files, &path] {
        let open = fixture.page(Role::Member, page).await;
        assert_eq!(open.matches("/resolve\"").count(), 1, "one button for the thread: {open}");
        assert!(open.contains(&format!("action=\"{path}/comments/2/resolve\"")) && !open.contains(FOLDED), "{open}");
        let reply = format!("<a class=\"button small\" href=\"{files}?at=1-n2#f1-R2\" data-reply>");
        assert_eq!(open.matches("data-reply").count(), 1, "{open}");
        assert!(open.contains(&reply), "{reply}: {open}");
        let viewer = fixture.page(Role::Viewer, page).await;
        assert!(!viewer.contains("/resolve\"") && !viewer.contains("data-reply"), "{viewer}");
    }
    let split = fixture.page(Role::Member, &format!("{files}?view=split&w=1")).await;
    let reply = format!("href=\"{files}?view=split&#38;w=1&#38;at=1-n2#f1-R2\" data-reply>");
    assert!(split.contains(&reply), "the appearance is kept, {reply}: {split}");
    let change = async |number: u64, form: &str| {
        let path = format!("{path}/comments/{number}/resolve");
        let sent = fixture.send(Some(Role::Member), Method::POST, &path, form).await;
        sent.header("location").to_owned()
    };
    assert_eq!(change(2, "resolved=yes&at=files").await, format!("{files}?done=resolved#t-2"));
    let shown = fixture.page(Role::Viewer, &files).await;
    for part in [
        "<details class=\"resolved\" id=\"t-2\">",
        "<strong>Resolved</strong> <span>by <bdi>member</bdi> ",
        "<span>2 comments</span>",
        "<article class=\"entry\" id=\"r-1\">",
        "<article class=\"entry\" id=\"r-2\">",
    ] {
        assert_eq!(shown.matches(part).count(), 1, "{part}: {shown}");
    }
    assert!(!shown.contains("/resolve\"") && !shown.contains("data-reply"), "{shown}");
    let conversation = fixture.page(Role::Member, &path).await;
    assert_eq!(conversation.matches(FOLDED).count(), 2, "each comment is folded: {conversation}");
    assert!(conversation.contains("<code><bdi>x.txt</bdi></code>, line 2</span>"), "{conversation}");

    write("Not+yet").await;
    let reopened = fixture.page(Role::Member, &files).await;
    assert!(!reopened.contains(FOLDED) && reopened.contains("/comments/3/resolve\""), "{reopened}");
    change(3, "resolved=yes").await;
    assert_eq!(change(1, "resolved=no").await, format!("{path}?done=reopened#c-1"));
    let comments = fixture.store.comments("shop".into(), 8).await.unwrap();
    assert!(comments.iter().all(|one| one.comment.resolved.is_none()), "{comments:?}");
}

// The clock stands still until all tasks wait, so a stream has its event at once or only after its interval.
#[tokio::test(start_paused = true)]
async fn open_pages_learn_that_comments_are_added_resolved_or_opened_again() {
    const CHANGED: &str = "<turbo-stream action=\"comments\"></turbo-stream>";
    const NOW: Duration = Duration::from_millis(50);
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let path = "/projects/shop/pulls/7";
    let (files, lines) = (format!("{path}/files"), format!("{path}/lines"));
    let url = async |page: &str| source(&fixture.page(Role::Viewer, page).await).unwrap();
    let open = url(&files).await;
    assert!(open.starts_with(&format!("{path}/live?comments=")), "{open}");
    assert_eq!(url(path).await, open, "no job has opened the pull request");
    let mut stream = fixture.open(&open).await;
    assert_eq!(event(&mut stream, NOW).await, "", "nothing has changed");
    fixture.form(&lines, "path=x.txt&side=new&line=2&body=Draft").await;
    assert_eq!(event(&mut stream, NOW).await, "", "others do not see a draft");
    for (action, form) in [
        ("lines", "path=x.txt&side=new&line=2&body=Why&as=comment"),
        ("comments/2/resolve", "resolved=yes"),
        ("comments/2/resolve", "resolved=no"),
        ("comments", "body=Hello"),
        ("review", "verdict=approve&body="),
    ] {
        assert_eq!(event(&mut stream, NOW).await, "", "nothing has changed before {action}");
        fixture.form(&format!("{path}/{action}"), form).await;
        let changed = event(&mut stream, NOW).await;
        assert!(changed.contains(CHANGED), "{action} {form}: {changed}");
    }
    assert_eq!(event(&mut stream, NOW).await, "");
    // The page of another process resolves them.
    let (caller, project) = (Caller::command_line(), project().id);
    fixture.cases.resolve_comments(&caller, &project, 7, 2, true).await.unwrap();
    let changed = event(&mut stream, PATIENCE).await;
    assert!(changed.contains(CHANGED), "the interval has passed: {changed}");
    let late = event(&mut fixture.open(&open).await, PATIENCE).await;
    assert!(late.contains(CHANGED), "they were resolved before the connection: {late}");

    let missing = fixture.page(Role::Viewer, "/projects/shop/pulls/404/live?comments=x").await;
    assert!(missing.contains("There is no such pull request."), "{missing}");
}

#[tokio::test]
async fn the_state_of_a_thread_changes_with_each_comment_and_each_resolution() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let path = "/projects/shop/pulls/7";
    let mut states = BTreeSet::new();
    let on_line = "path=x.txt&side=new&line=2&body=Why&as=comment";
    for (action, form) in [
        ("lines", on_line),
        ("comments/1/resolve", "resolved=yes"),
        ("lines", on_line),
        ("comments/1/resolve", "resolved=yes"),
    ] {
        fixture.form(&format!("{path}/{action}"), form).await;
        for page in [path.to_owned(), format!("{path}/files")] {
            let page = fixture.page(Role::Viewer, &page).await;
            let state = page.split_once("<div id=\"thread-1\" data-thread=\"").unwrap().1.split_once('"').unwrap().0;
            states.insert(state.to_owned());
        }
    }
    assert_eq!(states.len(), 4, "{states:?}");
}

#[tokio::test]
async fn the_conversation_follows_the_log_and_the_comments_over_one_stream() {
    let (fixture, path, id) = with_job().await;
    let seq = fixture.store.job(id).await.unwrap().unwrap().last_seq;
    let page = fixture.page(Role::Viewer, &path).await;
    let url = source(&page).unwrap();
    assert!(url.starts_with(&format!("{path}/live?after={seq}&comments=")), "{url}");
    assert_eq!(page.matches("<turbo-stream-source").count(), 1, "{page}");
    let stream = fixture.send(Some(Role::Viewer), Method::GET, &url, "").await;
    assert!(stream.body.contains("action=\"refresh\""), "the stream ends with the log: {}", stream.body);
}

#[tokio::test]
async fn the_verdicts_of_reviews_are_above_the_button_to_merge() {
    let (fixture, path, _) = with_job().await;
    for (verdict, done, word, reason) in [
        ("request_changes", "review_sent", "<span>requested changes</span>", "Changes requested by member"),
        ("approve", "reviewed", "<span>approved</span>", "Approved by member"),
    ] {
        let body = if verdict == "approve" { "" } else { "Please+rename+it." };
        let form = format!("verdict={verdict}&body={body}");
        let sent = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/review"), &form).await;
        assert_eq!(sent.header("location"), format!("{path}?done={done}"), "{}", sent.body);
        let page = fixture.page(Role::Viewer, &path).await;
        for part in [word, reason] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
    let page = fixture.page(Role::Viewer, &path).await;
    assert!(!page.contains("Changes requested by"), "the latest verdict counts: {page}");
    assert!(page.contains("No conflicts with main"), "a verdict does not block the merge: {page}");
}

#[tokio::test]
async fn a_refused_review_keeps_its_verdict_and_its_text() {
    let (fixture, path, _) = with_job().await;
    let long = "a".repeat(60_001);
    for (verdict, text) in [("request_changes", ""), ("approve", long.as_str())] {
        let form = format!("verdict={verdict}&body={text}");
        let refused = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/review"), &form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
        for part in [
            "The review was not submitted.",
            &format!("name=\"verdict\" value=\"{verdict}\" checked>"),
            &format!("{text}</textarea>"),
        ] {
            assert!(refused.body.contains(part), "{verdict}: {part} is not in {}", refused.body);
        }
        assert!(!refused.body.contains("value=\"comment\" checked"), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_review_is_for_people_while_the_job_is_archived() {
    let (fixture, path, id) = with_job().await;
    fixture.engine.control(&"shop".parse().unwrap(), id, Control::Archive, None).await.unwrap();
    let files = fixture.page(Role::Member, &format!("{path}/files")).await;
    for part in ["For people: the job of this pull request is archived.", "because its job is archived."] {
        assert!(files.contains(part), "{part} is not in {files}");
    }
    fixture.form(&format!("{path}/review"), "verdict=request_changes&body=Rename+it").await;
    fixture.carry_out().await;
    let page = fixture.page(Role::Viewer, &path).await;
    for part in ["Changes requested by member", "not sent: The job is archived</span>"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains(SENT), "{page}");
}

#[tokio::test]
async fn the_box_to_merge_says_what_is_missing() {
    let (fixture, path, _) = with_job().await;
    let page = fixture.page(Role::Member, &path).await;
    assert!(page.contains("No review yet") && !page.contains("unresolved comment"), "{page}");
    let on_line = "path=x.txt&side=new&line=2&body=Why&as=comment";
    fixture.form(&format!("{path}/lines"), on_line).await;
    fixture.form(&format!("{path}/lines"), &on_line.replace("new", "old")).await;
    let page = fixture.page(Role::Member, &path).await;
    assert!(page.contains("<a href=\"#c-1\">2 unresolved comments</a>"), "{page}");
    fixture.form(&format!("{path}/comments/1/resolve"), "resolved=yes").await;
    fixture.form(&format!("{path}/review"), "verdict=comment&body=Hm").await;
    let page = fixture.page(Role::Member, &path).await;
    for part in ["<a href=\"#c-2\">1 unresolved comment</a>", "Not approved yet"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    fixture.form(&format!("{path}/review"), "verdict=approve&body=").await;
    let page = fixture.page(Role::Member, &path).await;
    assert!(page.contains("Approved by member") && !page.contains("Not approved yet"), "{page}");
}

#[tokio::test]
async fn the_form_for_a_line_says_what_its_buttons_do() {
    const AGENT: &str = "which goes to the agent as one message";
    let (with_job, path, _) = with_job().await;
    let page = with_job.page(Role::Member, &format!("{path}/files")).await;
    assert!(page.contains(AGENT) && !page.contains("becomes a follow-up"), "{page}");
    let alone = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let page = alone.page(Role::Member, "/projects/shop/pulls/7/files").await;
    assert!(page.contains("only you see the comment until you finish the review.") && !page.contains(AGENT), "{page}");
}

#[tokio::test]
async fn a_refused_comment_on_a_line_keeps_its_text() {
    let (fixture, path, _) = with_job().await;
    for (form, status, parts) in [
        (
            "path=x.txt&side=new&line=2&body=+&as=draft",
            StatusCode::UNPROCESSABLE_ENTITY,
            &["id=\"remark\"", "A comment must have 1 to 60000 characters"][..],
        ),
        (
            "path=x.txt&side=new&line=99&body=Rename+it&as=comment",
            StatusCode::UNPROCESSABLE_ENTITY,
            &["The line is no longer part of the changes", "placeholder=\"Write a comment\">Rename it</textarea>"],
        ),
        ("path=x.txt&side=both&line=2&body=x", StatusCode::UNPROCESSABLE_ENTITY, &["choose the line again"]),
    ] {
        let refused = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/lines"), form).await;
        assert_eq!(refused.status, status, "{form}: {}", refused.body);
        for part in parts {
            assert!(refused.body.contains(part), "{form}: {part} is not in {}", refused.body);
        }
    }
    assert_eq!(fixture.store.comments("shop".into(), 8).await.unwrap(), []);
}

#[tokio::test]
async fn a_comment_on_a_line_that_has_changed_is_only_in_the_conversation() {
    let (fixture, path, _) = with_job().await;
    let hunk = "@@ -1 +1 @@\n+<b>earlier</b>".to_owned();
    let line = Some(LinePosition { path: "x.txt".into(), side: DiffSide::New, line: 2, hunk });
    let comment = NewComment { author: hostile("author"), body: hostile("body"), line, ..NewComment::default() };
    fixture.store.comment("shop", 8, comment).await.unwrap();
    let page = fixture.page(Role::Member, &path).await;
    assert!(page.contains("<span class=\"badge archived\">outdated</span>") && !page.contains("id=\"r-1\""), "{page}");
    assert!(!page.contains("data-reply"), "there is no line to answer at: {page}");
    assert!(page.contains("<span class=\"plus\">+&#60;b&#62;earlier&#60;/b&#62;"), "{page}");
    assert_harmless(&page, &["author"]);
}
