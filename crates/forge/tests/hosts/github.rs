//! What GitHub documents, and what is rare.

use http::Method;
use journeyman_core::checks::CheckState;
use journeyman_core::conversation::{CommentTarget, InThread};
use journeyman_core::hook::{CommentKind, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::open_pull::Ensured;
use journeyman_core::ports::ForgeError;
use journeyman_core::position::{DiffSide, LineRange, Thread};
use journeyman_core::time::Clock as _;
use journeyman_testkit::code_host::{
    Check, CommentReply, CommentedOn, Fault, Output, Product, Review, ReviewComment, State, Status,
};
use serde_json::json;

use super::app;
use super::fixtures::{Fixture, PATH, discussion};

fn check(id: u64, sha: &Sha, name: &str, passed: bool) -> Check {
    Check { id, sha: sha.to_string(), name: name.to_owned(), passed: Some(passed), log: format!("log {id}") }
}

/// Returns a stand-in, a branch on it, and its commit. A fine-grained token reads no checks, only jobs.
async fn given(is_fine_grained: bool) -> (Fixture, Sha) {
    let fixture = Fixture::new(Product::Github).await;
    let sha = fixture.branch("work").await;
    fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().is_fine_grained = is_fine_grained;
    (fixture, sha)
}

/// Returns the names and states of the checks of a commit, sorted.
async fn states(fixture: &Fixture, sha: &Sha) -> Vec<(String, CheckState)> {
    let found = fixture.forge().await.checks().unwrap().of_commit(sha).await.unwrap();
    let mut states: Vec<_> = found.into_iter().map(|check| (check.name, check.state)).collect();
    states.sort_by_key(|(name, state)| (name.clone(), format!("{state:?}")));
    states
}

fn named(states: &[(&str, CheckState)]) -> Vec<(String, CheckState)> {
    states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect()
}

#[tokio::test]
async fn all_suites_of_a_commit_count_with_the_newest_runs_of_their_jobs() {
    for is_fine_grained in [false, true] {
        let (fixture, sha) = given(is_fine_grained).await;
        {
            let mut state = fixture.server.state();
            let repository = state.by_path(PATH).unwrap();
            // Two workflows have a job with the same name. That of the second one was run again.
            repository.checks =
                [(1, false), (2, false), (3, true)].map(|(id, ok)| check(id, &sha, "test", ok)).to_vec();
            repository.github.suites = [(1, 71), (2, 72), (3, 72)].into();
        }
        let expected = named(&[("test", CheckState::Failed), ("test", CheckState::Passed)]);
        assert_eq!(states(&fixture, &sha).await, expected, "fine-grained: {is_fine_grained}");
    }
}

#[tokio::test]
async fn all_pages_of_checks_and_jobs_are_read() {
    for is_fine_grained in [false, true] {
        let (fixture, sha) = given(is_fine_grained).await;
        let checks = (1..=130).map(|id| check(id, &sha, &format!("job {id}"), id != 1)).collect();
        fixture.server.state().by_path(PATH).unwrap().checks = checks;
        let found = states(&fixture, &sha).await;
        let failed: Vec<_> = found.iter().filter(|(_, state)| *state == CheckState::Failed).collect();
        assert_eq!((found.len(), failed.len()), (130, 1), "fine-grained: {is_fine_grained}");
        // Each workflow has one job.
        let suites = (1..=130).map(|id| (id, 1000 + id)).collect();
        fixture.server.state().by_path(PATH).unwrap().github.suites = suites;
        assert_eq!(states(&fixture, &sha).await.len(), 130, "fine-grained: {is_fine_grained}");
    }
}

#[tokio::test]
async fn all_pages_of_statuses_are_read() {
    let (fixture, sha) = given(false).await;
    let status = |id: u64| Status {
        sha: sha.to_string(),
        context: format!("status {id}"),
        state: if id == 1 { "failure" } else { "success" }.to_owned(),
        url: String::new(),
        description: String::new(),
        pipeline: 0,
    };
    fixture.server.state().by_path(PATH).unwrap().statuses = (1..=130).map(status).collect();
    let found = states(&fixture, &sha).await;
    assert!(found.contains(&("status 1".to_owned(), CheckState::Failed)), "{} are read", found.len());
}

/// Opens a pull request on which ada has written a review with comments on lines.
async fn reviewed(lines: u64) -> (Fixture, u64, u64) {
    let fixture = Fixture::new(Product::Github).await;
    let head = fixture.branch("work").await;
    let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
    let ada = fixture.server.state().add_user("ada", "write");
    let line = |id: u64| ReviewComment {
        id: 1000 + id,
        body: format!("comment {id}"),
        path: "work.txt".to_owned(),
        line: 7,
        reactions: Vec::new(),
    };
    let comments = (1..=lines).map(line).collect();
    {
        let mut state = fixture.server.state();
        let found = state.by_path(PATH).unwrap();
        found.reviews.push(Review { id: 9, pull: pull.number, author: ada, body: "Please.".to_owned(), comments });
    }
    (fixture, pull.number, ada)
}

#[tokio::test]
async fn a_comment_on_several_lines_keeps_them_when_it_is_outdated() {
    let (fixture, number, _) = reviewed(1).await;
    let forge = fixture.forge().await;
    let anchor = json!({"path": "work.txt", "line": 7, "side": "RIGHT", "start_line": 5, "start_side": "LEFT"});
    fixture.server.state().by_path(PATH).unwrap().anchors.insert(1001, anchor);
    for is_outdated in [false, true] {
        if is_outdated {
            fixture.server.state().by_path(PATH).unwrap().github.outdated.insert(1001);
        }
        let comments = discussion(&*forge).review(number, "9").await.unwrap();
        let [comment] = comments.as_slice() else { panic!("{comments:?}") };
        let position = &comment.position;
        assert_eq!(position.range, Some(LineRange { start: 5, end: 7 }), "outdated: {is_outdated}");
        assert_eq!((position.side, position.start_side), (DiffSide::New, Some(DiffSide::Old)), "{is_outdated}");
        assert_eq!(position.is_outdated, is_outdated);
    }
}

#[tokio::test]
async fn what_deleted_accounts_have_written_is_read() {
    let (fixture, number, ada) = reviewed(1).await;
    {
        let mut state = fixture.server.state();
        state.add_comment(PATH, CommentedOn::Pull(number), ada, "And tests.");
        state.closed.insert(ada);
    }
    let forge = fixture.forge().await;
    let read = discussion(&*forge).conversation(CommentTarget::Pull(number), None).await.unwrap();
    let texts: Vec<&str> = read.comments.iter().map(|said| said.comment.body.as_str()).collect();
    for text in ["And tests.", "Please.", "comment 1"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    assert_eq!(discussion(&*forge).review(number, "9").await.unwrap().len(), 1);
    assert_eq!(discussion(&*forge).reviews(number).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_thread_after_a_hundred_others_is_found() {
    let (fixture, number, ada) = reviewed(130).await;
    {
        let mut state = fixture.server.state();
        let found = state.by_path(PATH).unwrap();
        found.replies.push(CommentReply { id: 5000, to: 1130, author: ada, body: "to what?".to_owned() });
    }
    let thread = Thread::answering("1130".to_owned());
    let of = [InThread { kind: CommentKind::Line, id: "5000".to_owned(), thread, review: None }];
    let forge = fixture.forge().await;
    let found = discussion(&*forge).threads(CommentTarget::Pull(number), &of).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    discussion(&*forge).resolve(CommentTarget::Pull(number), &of).await.unwrap();
    assert_eq!(fixture.server.state().by_path(PATH).unwrap().resolved, [1130].into());
}

#[tokio::test]
async fn the_primary_limit_lasts_until_its_reset() {
    let fixture = Fixture::new(Product::Github).await;
    let forge = fixture.forge().await;
    let now = fixture.world.now().as_micros() / 1_000_000;
    fixture.server.fault(Fault::RateLimitedUntil(u64::try_from(now).unwrap() + 90), Method::GET, "", 1);
    let error = forge.repository().await.unwrap_err();
    let ForgeError::RateLimited(wait) = error else { panic!("{error}") };
    assert!((89..=91).contains(&wait.as_secs()), "{wait:?}");
}

#[tokio::test]
async fn a_pull_request_with_a_check_that_nothing_requires_is_not_merged_later() {
    let fixture = Fixture::new(Product::Github).await;
    let head = fixture.branch("work").await;
    fixture.server.state().by_path(PATH).unwrap().checks = vec![check(1, &head, "lint", false)];
    let Ensured::Opened { pull, .. } = fixture.ensure("work", &head).await.unwrap() else { panic!("not opened") };
    let refused = fixture.forge().await.auto_merge(pull.number).await.unwrap_err();
    assert!(!refused.may_pass(), "{refused}");
}

#[tokio::test]
async fn roles_that_the_legacy_permissions_lack_count_as_the_next_lower_ones() {
    let fixture = Fixture::new(Product::Github).await;
    let forge = fixture.forge().await;
    for (role, like) in [("maintain", "write"), ("triage", "read")] {
        let mut permissions = Vec::new();
        for role in [role, like] {
            let name = format!("user-{role}");
            let id = fixture.server.state().add_user(&name, role).to_string();
            let user = HostUser { id, name, is_bot: false };
            permissions.push(discussion(&*forge).permission(&user).await.unwrap());
        }
        assert_eq!(permissions[0], permissions[1], "{role}");
    }
}

#[tokio::test]
async fn the_report_of_a_check_says_that_annotations_are_left_out() {
    let (fixture, sha) = given(false).await;
    let annotation = |line: u64| {
        json!({
            "path": "a.rs", "start_line": line, "end_line": line, "annotation_level": "failure", "title": null,
            "message": format!("mistake {line}"), "raw_details": null, "start_column": null, "end_column": null,
            "blob_href": "https://g.example/b",
        })
    };
    {
        let mut state = fixture.server.state();
        let repository = state.by_path(PATH).unwrap();
        repository.checks = vec![check(1, &sha, "lint", false)];
        let annotations = (1..=130).map(annotation).collect();
        repository.outputs.insert(1, Output { annotations, is_of_app: true, ..Output::default() });
    }
    let forge = fixture.forge().await;
    let checks = forge.checks().unwrap();
    let found = checks.of_commit(&sha).await.unwrap();
    let text = checks.log(found[0].report.as_ref().unwrap(), 64 << 10).await.unwrap().unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("mistake 100") && text.contains("the check has 130 annotations"), "{text}");
}

#[tokio::test]
async fn an_installation_that_is_suspended_later_refuses_until_it_is_not() {
    let fixture = app::fixture().await;
    let forge = fixture.forge().await;
    forge.repository().await.unwrap();
    fixture.server.state().app.as_mut().unwrap().suspended = vec!["acme".to_owned()];
    let error = forge.pull(1).await.unwrap_err();
    assert!(!matches!(error, ForgeError::NotFound(_)), "{error}");
    fixture.server.state().app.as_mut().unwrap().suspended.clear();
    assert_eq!(fixture.reconnected().forge().await.pull(1).await, Ok(None));
}
