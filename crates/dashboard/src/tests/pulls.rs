//! Tests of the pages of pull requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::engine::Admission;
use journeyman_core::ids::{JobId, Sha, WorkerId};
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::ports::{
    CommitLine, JobStore as _, KeyStore, PullDetail, PullMerge, PullPages, PullPagesError, PullStore,
    SpendingStore as _, Sums,
};
use journeyman_core::project::Project;
use journeyman_core::pull::base_comparison::{BaseComparison, Conflicts};
use journeyman_core::pull::{LocalPull, NewComment, NewMerge, NewPull, Pull, Verdict};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;
use uuid::Uuid;

use super::job::{create_job, prompt};
use super::{Fixture, Reply, fixture, project};

pub(super) const DIFF: &str =
    "diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n";

/// A change of which only a line has other changes than those of whitespace.
pub(super) const SPACES: &str = "diff --git a/s.txt b/s.txt\n--- a/s.txt\n+++ b/s.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n\
                                 +\tone\n+2\n@@ -20 +20 @@\n-three\n+three \n";

pub(super) struct Fake {
    pulls: Result<Vec<LocalPull>, PullPagesError>,
    detail: Result<PullDetail, PullPagesError>,
    change: Result<(), PullPagesError>,
    calls: Mutex<Vec<String>>,
    /// The branches of the repository.
    pub(super) branches: Mutex<Vec<String>>,
}

impl Fake {
    pub(super) fn with(detail: PullDetail) -> Self {
        let (calls, branches) = (Mutex::default(), Mutex::new(vec!["main".to_owned()]));
        Self { pulls: Ok(vec![detail.pull.clone()]), detail: Ok(detail), change: Ok(()), calls, branches }
    }

    pub(super) fn failing(error: &PullPagesError) -> Self {
        let (pulls, detail, change) = (Err(error.clone()), Err(error.clone()), Err(error.clone()));
        Self { pulls, detail, change, calls: Mutex::default(), branches: Mutex::default() }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl PullPages for Fake {
    async fn pulls(&self, _project: &Project) -> Result<Vec<LocalPull>, PullPagesError> {
        self.pulls.clone()
    }

    async fn branches(&self, _: &Project) -> Result<Vec<String>, PullPagesError> {
        Ok(self.branches.lock().unwrap().clone())
    }

    async fn commits(&self, _: &Project, _: &str, _: u64) -> Result<Option<u64>, PullPagesError> {
        Ok(Some(3))
    }

    async fn pull(&self, _project: &Project, _number: u64) -> Result<PullDetail, PullPagesError> {
        self.detail.clone()
    }

    async fn conflicts(&self, _project: &Project, _number: u64) -> Result<Conflicts, PullPagesError> {
        self.detail.clone().map(|detail| detail.conflicts)
    }

    async fn ahead(&self, _: &Project, base: Option<&str>, head: &str) -> Result<(String, u64), PullPagesError> {
        let commits = u64::from(head != "even");
        self.change.clone().map(|()| (base.unwrap_or("main").to_owned(), commits))
    }

    async fn merge(&self, project: &Project, number: u64, merge: &NewMerge) -> Result<PullMerge, PullPagesError> {
        let NewMerge { method, by, .. } = merge;
        self.calls.lock().unwrap().push(format!("{} {} {number} {by}", method.name(), project.id));
        self.change.clone().map(|()| PullMerge { between: (sha("a"), sha("b")), commit: Some(sha("c")), is_new: true })
    }

    async fn ends(&self, _project: &Project, _number: u64) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        self.change.clone().map(|()| None)
    }
}

fn sha(digit: &str) -> Sha {
    digit.repeat(40).parse().unwrap()
}

pub(super) fn detail(state: PullState) -> PullDetail {
    let ended = state != PullState::Open;
    PullDetail {
        pull: LocalPull {
            repository: "shop".into(),
            number: 7,
            title: "Fix the typo".into(),
            body: "First line\nsecond line".into(),
            state,
            draft: false,
            head: "journeyman/fix-the-typo-89abcdef".into(),
            base: "main".into(),
            labels: vec!["docs".into()],
            created_at: Timestamp::from_micros(1_795_224_330_123_456),
            ended_at: ended.then(|| Timestamp::from_micros(1_795_224_930_123_456)),
            ended_by: ended.then(|| "ada".to_owned()),
            ended_between: None,
            merge_commit: (state == PullState::Merged).then(|| sha("c")),
        },
        commits: vec![CommitLine {
            sha: "0123456789".repeat(4).parse().unwrap(),
            subject: "Fix it".into(),
            author: "Ada".into(),
            at: Timestamp::from_micros(1_795_224_330_123_456),
        }],
        diff: DIFF.into(),
        diff_cut: false,
        mergeable: !ended,
        conflicts: Conflicts::default(),
    }
}

async fn send(fake: &Arc<Fake>, role: Role, method: Method, path: &str) -> Reply {
    fixture(fake.clone()).await.send(Some(role), method, path, "").await
}

async fn get(fake: Fake, path: &str) -> Reply {
    send(&Arc::new(fake), Role::Member, Method::GET, path).await
}

async fn post(fake: Fake, path: &str) -> Reply {
    send(&Arc::new(fake), Role::Member, Method::POST, path).await
}

#[tokio::test]
async fn the_list_shows_each_pull_request() {
    let mut fake = Fake::with(detail(PullState::Open));
    let mut draft = detail(PullState::Open).pull;
    (draft.number, draft.draft) = (6, true);
    fake.pulls = Ok(vec![detail(PullState::Open).pull, draft, detail(PullState::Merged).pull]);
    let answer = get(fake, "/projects/shop/pulls").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    for part in [
        "<title>Pull requests · shop · Journeyman</title>",
        "href=\"/projects/shop/pulls/7\"><bdi>Fix the typo</bdi></a>",
        "href=\"/projects/shop/pulls/6\"><bdi>",
        "<span class=\"pill open\">",
        "#7 <span class=\"word\">Open</span></span>",
        "<span class=\"pill draft\">",
        "#6 <span class=\"word\">Draft</span></span>",
        "<time datetime=\"2026-11-21T01:25:30.123Z\" title=\"2026-11-21 01:25 UTC\" data-relative>now</time>",
        "journeyman/fix-the-typo-89abcdef",
        ">2 open</a>",
        "<a href=\"/projects/shop/pulls?state=merged\">1 merged</a>",
        "<a href=\"/projects/shop/pulls?state=closed\">0 closed</a>",
    ] {
        assert!(answer.body.contains(part), "{part} is not in {}", answer.body);
    }
}

#[tokio::test]
async fn the_list_shows_reviews_comments_and_whether_the_job_is_active() {
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    let mut ended = detail(PullState::Closed).pull;
    ended.number = 7;
    let fake = Fake { pulls: Ok(vec![shown.pull.clone(), ended]), ..Fake::with(shown) };
    let fixture = fixture(Arc::new(fake)).await;
    let (id, _) = job_with_pull(&fixture).await;
    let see = async |query: &str| {
        let path = format!("/projects/shop/pulls{query}");
        fixture.send(Some(Role::Viewer), Method::GET, &path, "").await.body
    };
    let before = see("").await;
    let job = format!("<span><a href=\"/projects/shop/jobs/{id}\">Job</a></span></p></div></li>");
    assert!(before.contains(&job), "a title that repeats is left out, and nothing is reviewed: {before}");
    assert!(before.contains("<p class=\"row-sub\"><span>opened <time"), "the time is first: {before}");
    let comment = |author: &str| NewComment {
        author: author.to_owned(),
        author_id: Some(author.to_owned()),
        body: "Why?".to_owned(),
        ..NewComment::default()
    };
    fixture.store.comment("shop", 8, comment("ada")).await.unwrap();
    let approval = NewComment { review: Some(2), verdict: Verdict::Approve, ..comment("ada") };
    fixture.store.comment("shop", 8, approval).await.unwrap();
    let approved = see("").await;
    assert!(approved.contains("<span>2 comments</span>"), "{approved}");
    assert!(approved.contains("<div class=\"row-side\"><span class=\"badge ok\">approved</span></div>"), "{approved}");
    let refusal = NewComment { review: Some(3), verdict: Verdict::RequestChanges, ..comment("bob") };
    fixture.store.comment("shop", 8, refusal).await.unwrap();
    fixture.engine.add_message(&project().id, id, prompt("And then"), Admission::default()).await.unwrap();
    let badges = "<span class=\"badge queued\">job waits</span><span class=\"badge danger\">changes requested</span>";
    let waiting = see("").await;
    assert!(waiting.contains(badges), "{waiting}");
    fixture.engine.claim(WorkerId::from_uuid(Uuid::nil()), Duration::from_secs(60)).await.unwrap().unwrap();
    let running = see("").await;
    assert!(running.contains("<span class=\"badge running\">agent works</span>"), "{running}");
    let refusal = NewComment { review: Some(1), verdict: Verdict::RequestChanges, ..comment("bob") };
    fixture.store.comment("shop", 7, refusal).await.unwrap();
    let closed = see("?state=closed").await;
    assert!(closed.contains("<span>1 comment</span>") && !closed.contains("changes requested"), "{closed}");
}

#[tokio::test]
async fn an_empty_list_explains_the_next_step() {
    let mut fake = Fake::with(detail(PullState::Open));
    fake.pulls = Ok(Vec::new());
    let answer = get(fake, "/projects/shop/pulls").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("Send a job.") && answer.body.contains("/v2/agent/shop/job"), "{}", answer.body);
}

#[tokio::test]
async fn a_pull_request_is_shown_with_its_actions() {
    let answer = get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7").await;
    assert_eq!(answer.status, StatusCode::OK);
    for part in [
        "<title>Fix the typo · #7 · shop · Journeyman</title>",
        "<li><a href=\"/projects/shop/jobs\">shop</a></li>",
        "<li><a href=\"/projects/shop/pulls\">Pull requests</a></li>",
        "<h1 class=\"cut\"><bdi>Fix the typo</bdi> <span class=\"muted\">#7</span></h1>",
        "<bdi>journeyman/fix-the-typo-89abcdef</bdi>",
        "<bdi>main</bdi>",
        "First line\nsecond line",
        "<a href=\"/projects/shop/pulls/7\" aria-current=\"page\">Conversation <span class=\"count\" id=\"comment-count\" data-of-comments></span></a>",
        "<a href=\"/projects/shop/pulls/7/commits\">Commits <span class=\"count\">1</span></a>",
        "Files changed <span class=\"count\">1</span>",
        "<span class=\"diffstat wide-only\">+1 −1</span>",
        "No conflicts with main",
        "git fetch origin journeyman/fix-the-typo-89abcdef\n",
        "<form class=\"stack\" method=\"post\" action=\"/projects/shop/pulls/7/merge\">",
        "<option value=\"squash\">",
        "action=\"/projects/shop/pulls/7/close\">",
        " data-comments></turbo-stream-source>",
    ] {
        assert!(answer.body.contains(part), "{part} is not in {}", answer.body);
    }
}

#[tokio::test]
async fn the_tabs_show_commits_and_files() {
    let commits = get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7/commits").await;
    let row = "<code class=\"commit\" title=\"0123456789012345678901234567890123456789\">01234567</code>";
    assert!(commits.body.contains("1 commit") && commits.body.contains(row), "{}", commits.body);
    let files = get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7/files").await;
    assert_eq!(files.status, StatusCode::OK);
    for part in [
        "<title>Files changed · Fix the typo · #7 · shop · Journeyman</title>",
        "1 file changed <span class=\"plus\">+1</span> <span class=\"minus\">−1</span></h2>",
        "<article class=\"file\" id=\"f1\" data-path=\"x.txt\" data-hash=\"",
        "<tr class=\"same\"><td class=\"no\">1</td><td class=\"no\" id=\"f1-R1\"><a href=\"?at=1-n1#f1-R1\" aria-label=\"Comment on line 1\">1</a></td><td class=\"sign\"></td><td class=\"code\">same</td></tr>",
        "<template id=\"line-form\"><form class=\"note writing\" id=\"remark\" method=\"post\" action=\"/projects/shop/pulls/7/lines\">",
    ] {
        assert!(files.body.contains(part), "{part} is not in {}", files.body);
    }
    assert!(!files.body.contains("the diff is large") && !files.body.contains("it is cut"));
}

#[tokio::test]
async fn one_button_is_filled_the_next_thing_that_a_person_does() {
    let merge = "<button class=\"button primary wide\">";
    let review = "<a class=\"button primary\" href=\"/projects/shop/pulls/7/files\"";
    let is_only =
        |page: &str, button: &str| page.contains(button) && page.matches("class=\"button primary").count() == 1;
    let open = || detail(PullState::Open);
    let mut draft = open();
    draft.pull.draft = true;
    let conflict =
        PullDetail { mergeable: false, conflicts: Conflicts { files: vec!["x.txt".into()], more: 0 }, ..open() };
    for (shown, role, expected) in [
        (open(), Role::Member, review),
        (open(), Role::Viewer, review),
        (draft, Role::Member, review),
        (conflict, Role::Member, review),
    ] {
        let reply = send(&Arc::new(Fake::with(shown)), role, Method::GET, "/projects/shop/pulls/7").await;
        assert!(is_only(&reply.body, expected), "{expected} for {role:?}: {}", reply.body);
    }
    let fixture = fixture(Arc::new(Fake::with(open()))).await;
    let path = "/projects/shop/pulls/7";
    let approved = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/review"), "verdict=approve").await;
    assert_eq!(approved.status, StatusCode::SEE_OTHER, "{}", approved.body);
    let page = fixture.send(Some(Role::Member), Method::GET, path, "").await.body;
    assert!(is_only(&page, merge), "{page}");
    let form = "path=x.txt&side=new&line=2&body=Why&as=review";
    let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/pulls/7/lines", form).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    let page = fixture.send(Some(Role::Member), Method::GET, "/projects/shop/pulls/7", "").await.body;
    assert!(is_only(&page, "<button class=\"button primary\">Submit review</button>"), "{page}");
}

#[tokio::test]
async fn an_ended_pull_request_has_no_buttons() {
    for state in [PullState::Merged, PullState::Closed] {
        let answer = get(Fake::with(detail(state)), "/projects/shop/pulls/7").await;
        assert!(!answer.body.contains("/merge\"") && !answer.body.contains("/close\""), "{}", answer.body);
        assert!(answer.body.contains("<a class=\"button\" href=\"/projects/shop/pulls/7/files\" id=\"review-link\""));
    }
}

#[tokio::test]
async fn the_conversation_says_who_ended_a_pull_request_and_when() {
    let hash = format!("<code title=\"{}\">cccccccc</code>", sha("c"));
    let by = "<strong><bdi>ada</bdi></strong>";
    let base = "<code class=\"branch\"><bdi>main</bdi></code>";
    let merged = || detail(PullState::Merged);
    let mut forwarded = merged();
    forwarded.pull.merge_commit = None;
    let (mut old_merged, mut old_closed) = (forwarded.clone(), detail(PullState::Closed));
    (old_merged.pull.ended_by, old_closed.pull.ended_by) = (None, None);
    for (shown, expected) in [
        (merged(), format!("{by} merged {hash} into {base}")),
        (forwarded, format!("{by} merged this into {base}")),
        (detail(PullState::Closed), format!("{by} closed this without merging")),
        (old_merged, format!("Merged into {base}")),
        (old_closed, "Closed without merging".to_owned()),
    ] {
        let page = get(Fake::with(shown), "/projects/shop/pulls/7").await.body;
        let line = format!("<p>{expected} <time datetime=\"2026-11-21T01:35:30.123Z\"");
        assert!(page.contains(&line), "{line} is not in {page}");
    }
    let open = get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7").await;
    assert!(!open.body.contains("id=\"ended\""), "{}", open.body);
}

#[tokio::test]
async fn the_end_of_a_pull_request_is_between_the_comments_from_before_and_after() {
    let shown = detail(PullState::Closed);
    let ended = shown.pull.ended_at.unwrap();
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let comment = |body: &str, at: Timestamp| NewComment {
        author: "bob".to_owned(),
        author_id: Some("bob".to_owned()),
        body: body.to_owned(),
        at,
        ..NewComment::default()
    };
    // The summary of a review, which contains a comment from before.
    let line = NewComment { review: Some(2), ..comment("In a review.", Timestamp::from_micros(1)) };
    let review = NewComment { review: Some(2), ..comment("A review.", ended) };
    for new in [line, review, comment("Afterwards.", ended + Duration::from_secs(1))] {
        fixture.store.comment("shop", 7, new).await.unwrap();
    }
    let page = fixture.send(Some(Role::Viewer), Method::GET, "/projects/shop/pulls/7", "").await.body;
    let parts = ["A review.", "In a review.", "id=\"ended\"", "Afterwards."];
    let positions = parts.map(|part| page.find(part).unwrap_or_else(|| panic!("{part} is not in {page}")));
    assert!(positions.is_sorted(), "{positions:?}: {page}");
}

#[tokio::test]
async fn a_pull_request_in_conflict_can_only_be_closed() {
    let answer =
        get(Fake::with(PullDetail { mergeable: false, ..detail(PullState::Open) }), "/projects/shop/pulls/7").await;
    assert!(!answer.body.contains("/merge\""), "{}", answer.body);
    assert!(answer.body.contains("/close\"") && answer.body.contains("It cannot be merged"), "{}", answer.body);
    assert!(answer.body.contains("disabled aria-describedby=\"reasons\""), "{}", answer.body);
}

#[tokio::test]
async fn the_agent_can_be_asked_to_resolve_conflicts() {
    let mut shown = detail(PullState::Open);
    (shown.pull.number, shown.mergeable) = (8, false);
    shown.conflicts = Conflicts { files: vec!["src/a.rs".into(), hostile("file")], more: 0 };
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let (id, _) = job_with_pull(&fixture).await;
    let page = fixture.send(Some(Role::Member), Method::GET, "/projects/shop/pulls/8", "").await.body;
    for part in
        ["2 files conflict with main", "<li><bdi>src/a.rs</bdi></li>", "Ask the agent to merge main in</button>"]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_harmless(&page, &["file"]);
    for _ in 0..2 {
        let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/pulls/8/update", "once=k").await;
        assert_eq!(
            (sent.status, sent.header("location")),
            (StatusCode::SEE_OTHER, "/projects/shop/pulls/8?done=asked")
        );
    }
    let messages = fixture.store.messages(id).await.unwrap();
    assert_eq!(messages.len(), 2, "the same form is sent once");
    assert!(
        messages[1].prompt.contains("Merge `origin/main`, which is its newest commit, into your branch")
            && messages[1].prompt.contains("- `src/a.rs`")
    );
    let refused = fixture.send(Some(Role::Viewer), Method::POST, "/projects/shop/pulls/8/update", "").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_stream_of_a_pull_request_does_not_read_the_repository() {
    let fixture = fixture(Arc::new(Fake::failing(&PullPagesError::Failed("it is busy".into())))).await;
    let (_, number) = job_with_pull(&fixture).await;
    let live = async |number| {
        let path = format!("/projects/shop/pulls/{number}/live?after=0");
        fixture.send(Some(Role::Viewer), Method::GET, &path, "").await
    };
    let stream = live(number).await;
    assert_eq!((stream.status, stream.header("content-type")), (StatusCode::OK, "text/event-stream"));
    assert_eq!(live(404).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_latest_answer_of_the_agent_is_the_description() {
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let (id, _) = job_with_pull(&fixture).await;
    let page = fixture.send(Some(Role::Viewer), Method::GET, "/projects/shop/pulls/8", "").await.body;
    for part in [
        "Asked in 1 message</summary>",
        &format!("<a class=\"button wide-only\" href=\"/projects/shop/jobs/{id}\" data-action=\"Open the job\">"),
        "<turbo-stream-source id=\"live-",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn the_details_have_the_duration_and_the_cost_of_the_job() {
    let mut shown = detail(PullState::Open);
    shown.pull.number = 8;
    let fixture = fixture(Arc::new(Fake::with(shown))).await;
    let (id, _) = job_with_pull(&fixture).await;
    let see = async || fixture.send(Some(Role::Viewer), Method::GET, "/projects/shop/pulls/8", "").await.body;
    let before = see().await;
    assert!(!before.contains("<dt>Took</dt>") && !before.contains("<dt>Cost</dt>"), "zeros are left out: {before}");
    fixture.engine.add_message(&project().id, id, prompt("Go on"), Admission::default()).await.unwrap();
    let claimed = fixture.engine.claim(WorkerId::from_uuid(Uuid::nil()), Duration::from_secs(60)).await.unwrap();
    fixture.world.advance(Duration::from_secs(30));
    let reason = Reason::new(ReasonCode::OutOfMemory, "out of memory");
    let outcome = Outcome::Failed { reason, retry: None };
    let finished = Report::Finished { outcome, usage: Usage::default() };
    fixture.engine.report(id, claimed.unwrap().lease.token, finished).await.unwrap();
    let sums = Sums { project: project().id, job: id, day: 1 };
    fixture.store.settle(&sums, None, 610_000).await.unwrap();
    let page = see().await;
    assert!(page.contains("<dt>Took</dt><dd>30 s</dd><dt>Cost</dt><dd>$0.61</dd>"), "{page}");
}

#[tokio::test]
async fn a_large_file_is_collapsed_and_a_huge_diff_is_cut() {
    let lines = 20_100;
    let diff = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{lines} @@\n{}", "+a\n".repeat(lines));
    let fake = Fake::with(PullDetail { diff, diff_cut: true, ..detail(PullState::Open) });
    let answer = get(fake, "/projects/shop/pulls/7/files").await;
    assert!(answer.body.contains("<input type=\"checkbox\" class=\"unseen\" autocomplete=\"off\">"), "it is folded");
    assert_eq!(answer.body.matches("<tr").count(), 20_000);
    assert!(answer.body.contains("Lines not shown, because the diff is large: 101"));
    assert!(answer.body.contains("it is cut"));
}

#[tokio::test]
async fn a_diff_with_very_many_files_shows_the_first_ones_and_says_so() {
    let file = |number: usize| format!("diff --git a/f{number}! b/f{number}!\nnew file mode 100644\nindex 0..1\n");
    for (files, note) in [(2_000, None), (2_003, Some("the last 3 are left out"))] {
        let diff = (0..files).map(file).collect();
        let fake = Fake::with(PullDetail { diff, ..detail(PullState::Open) });
        let body = get(fake, "/projects/shop/pulls/7/files").await.body;
        assert!(body.contains(&format!("{files} files changed")), "all files are counted");
        assert!(body.contains("f1999!") && !body.contains("f2000!"), "{files}");
        assert_eq!(body.contains("too many files to show all"), note.is_some(), "{files}");
        assert!(note.is_none_or(|note| body.contains(note)), "{files}");
    }
}

/// Returns a script injection that works in elements and attributes, and that contains the name of its field.
pub(super) fn hostile(field: &str) -> String {
    format!("{field}\"'><script>alert('{field}')</script><img src=x onerror=alert(1)>&lt;\u{202e}")
}

/// Asserts that the page has no injected markup, and that it shows each field as text.
pub(super) fn assert_harmless(body: &str, fields: &[&str]) {
    let start = body.find("<body>").unwrap();
    for markup in ["<script>", "<img", "\"'>", "\u{202e}"] {
        assert!(!body[start..].contains(markup), "{markup} in {body}");
    }
    for field in fields {
        let text = format!("{field}&#34;&#39;&#62;&#60;script&#62;alert(");
        assert!(body[start..].contains(&text), "{field} is not in {body}");
    }
}

fn hostile_detail() -> PullDetail {
    let mut detail = detail(PullState::Open);
    detail.pull.title = hostile("title");
    detail.pull.body = hostile("body");
    detail.pull.head = hostile("head");
    detail.pull.base = hostile("base");
    detail.pull.labels = vec![hostile("label")];
    detail.commits[0].subject = hostile("subject");
    detail.commits[0].author = hostile("author");
    detail.diff = format!(
        "diff --git a/x b/y\nold mode {}\nnew mode {}\nrename from {}\nrename to {}\n@@ -1,2 +1,2 @@ {}\n {}\n-{}\n+{}\n\\ {}\n",
        hostile("oldmode"),
        hostile("newmode"),
        hostile("oldpath"),
        hostile("newpath"),
        hostile("hunk"),
        hostile("context"),
        hostile("removed"),
        hostile("added"),
        hostile("note"),
    );
    detail
}

#[tokio::test]
async fn text_from_outside_is_always_escaped() {
    let fake = Arc::new(Fake::with(hostile_detail()));
    let list = send(&fake, Role::Member, Method::GET, "/projects/shop/pulls").await;
    assert_harmless(&list.body, &["title", "head", "label"]);

    let page = send(&fake, Role::Member, Method::GET, "/projects/shop/pulls/7").await;
    assert_harmless(&page.body, &["title", "head", "base", "label"]);
    let commits = send(&fake, Role::Member, Method::GET, "/projects/shop/pulls/7/commits").await;
    assert_harmless(&commits.body, &["title", "subject", "author"]);
    let files = send(&fake, Role::Member, Method::GET, "/projects/shop/pulls/7/files").await;
    // The markup of changed words and of folders would split the texts.
    let parts = ["<span class=\"word\">", "<span class=\"dir\">", "<span class=\"file-name\">", "</span>"];
    let body = parts.iter().fold(files.body, |body, part| body.replace(part, ""));
    let fields = ["oldmode", "newmode", "oldpath", "newpath", "hunk", "context", "removed", "added", "note"];
    assert_harmless(&body, &fields);
    let mut ended = hostile_detail();
    (ended.pull.state, ended.pull.ended_at) = (PullState::Merged, Some(ended.pull.created_at));
    ended.pull.ended_by = Some(hostile("merger"));
    let ended = get(Fake::with(ended), "/projects/shop/pulls/7").await;
    assert_harmless(&ended.body, &["title", "base", "merger"]);
    // The description is Markdown, whose writer escapes quotes in another way.
    assert!(page.body.contains("body\"'&gt;&lt;script&gt;"), "{}", page.body);

    let conflict = PullPagesError::Conflict { base: hostile("base"), head: hostile("head") };
    let answer = post(Fake::failing(&conflict), "/projects/shop/pulls/7/merge").await;
    assert_harmless(&answer.body, &["base", "head"]);
}

#[tokio::test]
async fn a_branch_is_quoted_for_the_shell() {
    let mut detail = detail(PullState::Open);
    detail.pull.head = "$(id)".into();
    let answer = get(Fake::with(detail), "/projects/shop/pulls/7").await;
    assert!(answer.body.contains("git fetch origin &#39;$(id)&#39;\n"), "{}", answer.body);
}

#[tokio::test]
async fn merging_and_closing_redirect_to_the_pull_request() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    let fixture = fixture(fake.clone()).await;
    for (number, action, done) in [(7, "merge", "merged"), (6, "close", "closed")] {
        let path = format!("/projects/shop/pulls/{number}");
        let answer = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/{action}"), "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        assert_eq!(answer.header("location"), format!("{path}?done={done}"));
        let pull = fixture.store.pull("shop".into(), number).await.unwrap().unwrap();
        assert_eq!((pull.state.name(), pull.ended_by.as_deref()), (done, Some("member")));
        let audited = fixture.store.audit(None, 1).await.unwrap().remove(0).entry;
        assert_eq!((audited.action, audited.subject), (format!("pull.{done}"), format!("shop#{number}")));
    }
    assert_eq!(fake.calls(), ["merge shop 7 member"]);
}

#[tokio::test]
async fn a_viewer_sees_no_buttons_and_cannot_change_anything() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    let page = send(&fake, Role::Viewer, Method::GET, "/projects/shop/pulls/7").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(!page.body.contains("<form method=\"post\" action=\"/projects/shop/pulls/7/"), "{}", page.body);
    for action in ["merge", "close"] {
        let answer = send(&fake, Role::Viewer, Method::POST, &format!("/projects/shop/pulls/7/{action}")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn each_error_has_a_status_and_a_page() {
    let conflict = PullPagesError::Conflict { base: "main".into(), head: "topic".into() };
    for (error, status, text) in [
        (PullPagesError::NotFound, StatusCode::NOT_FOUND, "There is no such pull request."),
        (PullPagesError::NotOpen, StatusCode::CONFLICT, "The pull request is no longer open."),
        (conflict, StatusCode::CONFLICT, "The branches conflict; merge main into topic, push, and try again."),
        (
            PullPagesError::Failed("/srv/secret".into()),
            StatusCode::INTERNAL_SERVER_ERROR,
            "the server&#39;s log says why",
        ),
    ] {
        for answer in [
            get(Fake::failing(&error), "/projects/shop/pulls/7").await,
            post(Fake::failing(&error), "/projects/shop/pulls/7/merge").await,
        ] {
            assert_eq!(answer.status, status, "{error}");
            assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
            assert!(answer.body.contains(text), "{text} is not in {}", answer.body);
            assert!(!answer.body.contains("/srv/secret"));
        }
    }
}

#[tokio::test]
async fn errors_of_the_list_have_a_page() {
    let failed = get(Fake::failing(&PullPagesError::Failed("/srv/secret".into())), "/projects/shop/pulls").await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!failed.body.contains("/srv/secret"), "{}", failed.body);
}

#[tokio::test]
async fn an_invalid_number_is_not_found() {
    for number in ["x", "07", "+7", "-7", "7.0", "99999999999999999999", "%ff", "%2e%2e"] {
        let answer = get(Fake::with(detail(PullState::Open)), &format!("/projects/shop/pulls/{number}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{number}");
        assert!(answer.body.contains("<h1>Not found</h1>"), "{}", answer.body);
    }
}

#[tokio::test]
async fn every_response_has_security_headers() {
    let viewer = Arc::new(Fake::with(detail(PullState::Open)));
    for answer in [
        get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls").await,
        get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7").await,
        get(Fake::failing(&PullPagesError::NotFound), "/projects/shop/pulls/7").await,
        post(Fake::with(detail(PullState::Open)), "/projects/shop/pulls/7/merge").await,
        send(&viewer, Role::Viewer, Method::POST, "/projects/shop/pulls/7/merge").await,
    ] {
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'none'; style-src 'self' 'sha256-WAyOw4V+FqDc35lQPyRADLBWbuNK8ahvYEaQIYF1+Ps='; script-src 'self'; \
             connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "same-origin");
        assert_eq!(answer.header("cache-control"), "no-store");
        for inline in ["<script>", "<style", " style=", " onclick="] {
            assert!(!answer.body.contains(inline), "{inline} in {}", answer.body);
        }
    }
}

#[tokio::test]
async fn the_stylesheet_is_cached_only_under_its_versioned_url() {
    let page = get(Fake::with(detail(PullState::Open)), "/projects/shop/pulls").await;
    let (_, rest) = page.body.split_once("<link rel=\"stylesheet\" href=\"").unwrap();
    let (href, _) = rest.split_once('"').unwrap();
    assert!(href.starts_with("/assets/journeyman.css?v="), "{href}");

    let sheet = get(Fake::with(detail(PullState::Open)), href).await;
    assert_eq!((sheet.status, sheet.header("content-type")), (StatusCode::OK, "text/css; charset=utf-8"));
    assert_eq!(sheet.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(sheet.header("x-content-type-options"), "nosniff");

    for other in ["/assets/journeyman.css", "/assets/journeyman.css?v=0"] {
        let sheet = get(Fake::with(detail(PullState::Open)), other).await;
        assert_eq!(sheet.header("cache-control"), "no-cache");
    }
}

/// Creates a job that has opened a pull request. Returns the number of the pull request too.
pub(super) async fn job_with_pull(fixture: &Fixture) -> (JobId, u64) {
    let id = create_job(fixture, "Fix the typo").await;
    fixture.world.advance(Duration::from_secs(1));
    let (title, body, head) = ("T".to_owned(), String::new(), "journeyman/x".to_owned());
    let new = NewPull { title, body, head, ..NewPull::default() };
    let opened = fixture.store.open_pull("shop".into(), "main".into(), new, fixture.world.now()).await;
    let number = opened.unwrap().unwrap().number;
    let claimed = fixture.engine.claim(WorkerId::from_uuid(Uuid::nil()), Duration::from_secs(60)).await.unwrap();
    let (sha, token): (Sha, _) = ("a".repeat(40).parse().unwrap(), claimed.unwrap().lease.token);
    let begun = TurnBegun {
        branch: "journeyman/x".into(),
        generation: 1,
        base: sha.clone(),
        head: sha.clone(),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    let (artifacts, ending) = (TurnArtifacts::default(), Ending::Done);
    let ended = Report::TurnEnded { head: sha.clone(), commits: vec![sha.clone()], artifacts, ending };
    let repository = Some(PullRepository::local("shop"));
    let pull = Published::Opened(
        Pull { repository, ..Pull::new(number, format!("https://example.com/pulls/{number}")) },
        None,
    );
    let finished =
        Report::Finished { outcome: Outcome::Published { pushed: Some(sha), pull }, usage: Usage::default() };
    for report in [Report::TurnBegun(begun), ended, finished] {
        fixture.engine.report(id, token, report).await.unwrap();
    }
    (id, number)
}

#[tokio::test]
async fn the_state_of_a_pull_request_is_shown_at_its_job() {
    for (state, class, label, line) in [
        (PullState::Open, "open", "Open", None),
        (PullState::Merged, "merged", "Merged", Some("was merged")),
        (PullState::Closed, "closed", "Closed", Some("was closed without a merge")),
    ] {
        let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
        let (id, number) = job_with_pull(&fixture).await;
        let pull = PullRef { repository: PullRepository::local("shop"), number };
        fixture.engine.record_pull(&"shop".parse().unwrap(), id, pull, state, false, None).await.unwrap();
        let pill = format!("<a class=\"pill {class}\" href=\"/projects/shop/pulls/{number}\">");
        let word = format!("#{number} <span class=\"word\">{label}</span></a>");
        for (path, links) in [("/projects/shop/jobs".to_owned(), 1), (format!("/projects/shop/jobs/{id}"), 2)] {
            let page = fixture.send(Some(Role::Viewer), Method::GET, &path, "").await.body;
            assert_eq!((page.matches(&pill).count(), page.matches(&word).count()), (links, links), "{path}: {page}");
            let review = format!("<a class=\"button primary to-pull\" href=\"/projects/shop/pulls/{number}/files\">");
            assert_eq!(page.contains(&review), links == 2 && state == PullState::Open, "{path}: {page}");
            if let Some(line) = line
                && links == 2
            {
                assert!(page.contains(&format!("Pull request #{number} {line}")), "{line}: {page}");
            }
        }
    }
}

#[tokio::test]
async fn the_list_says_when_a_pull_request_ended() {
    let answer = get(Fake::with(detail(PullState::Merged)), "/projects/shop/pulls?state=merged").await;
    assert!(answer.body.contains("<span>merged <time datetime=\"2026-11-21T01:35:30.123Z\""), "{}", answer.body);
}

pub(super) fn comparison(behind: u64, conflicts: Conflicts) -> BaseComparison {
    let [base_sha, head_sha] = ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap());
    BaseComparison { base: "main".to_owned(), base_sha, head_sha, behind, conflicts }
}

#[tokio::test]
async fn the_page_of_a_job_names_the_conflicts_of_its_pull_request() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let (id, number) = job_with_pull(&fixture).await;
    let path = format!("/projects/shop/jobs/{id}");
    let see = async |role| fixture.send(Some(role), Method::GET, &path, "").await.body;
    let update = async |role, form| fixture.send(Some(role), Method::POST, &format!("{path}/update"), form).await;
    let ask = "Ask the agent to merge main in</button>";
    assert!(!see(Role::Member).await.contains(ask), "it cannot be compared");
    let answer = update(Role::Member, "once=k").await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.body.contains("The pull request cannot be compared with its base now."), "{}", answer.body);

    fixture.comparisons.put(number, comparison(0, Conflicts::default()));
    fixture.compare().await;
    assert!(!see(Role::Member).await.contains(ask), "it is up to date");
    let answer = update(Role::Member, "once=k").await;
    assert!(answer.body.contains("The pull request has all commits of main already."), "{}", answer.body);
    assert_eq!(fixture.store.messages(id).await.unwrap().len(), 1);

    fixture.comparisons.put(number, comparison(2, Conflicts::default()));
    fixture.compare().await;
    let page = see(Role::Member).await;
    assert!(page.contains("2 commits behind main") && page.contains(ask), "{page}");
    let mut files: Vec<String> = (1..=12).map(|number| format!("{number}.txt")).collect();
    files[1] = hostile("file");
    fixture.comparisons.put(number, comparison(2, Conflicts { files, more: 3 }));
    fixture.compare().await;
    let page = see(Role::Member).await;
    for part in ["15 files conflict with main", "<li><bdi>1.txt</bdi></li>", "<li><bdi>and 5 more</bdi></li>", ask] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_harmless(&page, &["file"]);
    let viewer = see(Role::Viewer).await;
    assert!(viewer.contains("15 files conflict with main") && !viewer.contains(ask), "{viewer}");
    let live = fixture.send(Some(Role::Viewer), Method::GET, &format!("{path}/live?from=0&after=0"), "").await.body;
    let sent = live.matches("<turbo-stream action=\"replace\" method=\"morph\" target=\"job-base\"").count();
    assert_eq!((sent, live.contains("15 files conflict with main")), (1, true), "an open page is updated once: {live}");
    assert_eq!(update(Role::Viewer, "once=k").await.status, StatusCode::FORBIDDEN);

    for _ in 0..2 {
        let sent = update(Role::Member, "once=k2").await;
        assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, path.as_str()));
    }
    let messages = fixture.store.messages(id).await.unwrap();
    assert_eq!(messages.len(), 2, "the same form is sent once");
    let prompt = &messages[1].prompt;
    assert!(prompt.contains("Merge `origin/main`") && prompt.contains("- `12.txt`\n- and 3 more"), "{prompt}");
    assert!(!see(Role::Member).await.contains(ask), "the agent works");
}
