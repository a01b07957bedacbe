//! Tests of changes of pull requests of the built-in code host, over each kind of store.

use std::time::Duration;

use journeyman_app::{Commented, Error, JobRequest, PullComment, RefusalKind};
use journeyman_core::code_host::{PullRepository, PullState};
use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, Sha, WorkerId};
use journeyman_core::inbox::Outcome as InboxOutcome;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::key::Scope;
use journeyman_core::message::{MessageStatus, Origin};
use journeyman_core::ports::{InboxFilter, PullPagesError, UpdateError};
use journeyman_core::position::DiffSide;
use journeyman_core::pull::{LinePosition, MergeMethod, NewPull, Pull, Verdict};
use journeyman_core::refusal;
use journeyman_core::refusal::ResourceKind;
use journeyman_core::run::Usage;
use journeyman_core::time::Timestamp;
use journeyman_testkit::FakeForges;
use uuid::Uuid;

use super::fixtures::{Fixture, all, operator, reason, shop};

/// Creates the project `shop`, with this number of pull requests.
async fn with_pulls(fixture: &Fixture, count: usize) {
    fixture.create_shop().await;
    for number in 0..count {
        let (title, body, head) = ("T".to_owned(), String::new(), format!("branch-{number}"));
        let new = NewPull { title, body, head, ..NewPull::default() };
        fixture.store.open_pull("shop".into(), "main".into(), new, Timestamp::from_micros(1)).await.unwrap().unwrap();
    }
}

async fn audited(fixture: &Fixture) -> Vec<String> {
    let lines = fixture.store.audit(None, 100).await.unwrap();
    lines.into_iter().rev().map(|line| format!("{} {}", line.entry.action, line.entry.subject)).collect()
}

#[tokio::test]
async fn a_pull_request_ends_once_with_one_audit_entry() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 2).await;
        cases.merge_pull(&operator(), &id, 1, MergeMethod::Merge).await.unwrap();
        cases.close_pull(&operator(), &id, 2).await.unwrap();
        let refused = Err(Error::Pull(PullPagesError::NotOpen));
        for number in [1, 2] {
            assert_eq!(cases.merge_pull(&operator(), &id, number, MergeMethod::Merge).await, refused, "{name}");
            assert_eq!(cases.close_pull(&operator(), &id, number).await, refused, "{name}");
        }
        assert_eq!(cases.close_pull(&operator(), &id, 3).await, Err(Error::Pull(PullPagesError::NotFound)), "{name}");
        for (number, state) in [(1, PullState::Merged), (2, PullState::Closed)] {
            let pull = fixture.store.pull("shop".into(), number).await.unwrap().unwrap();
            assert_eq!((pull.state, pull.ended_at.is_some()), (state, true), "{name}");
            assert!(pull.ended_between.is_some(), "{name}");
        }
        assert_eq!(
            audited(&fixture).await,
            ["project.created shop", "pull.merged shop#1", "pull.closed shop#2"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn people_open_a_pull_request_for_a_branch_once_with_one_audit_entry() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let new = |title: &str, head: &str| NewPull {
            title: title.to_owned(),
            head: head.to_owned(),
            draft: true,
            ..NewPull::default()
        };
        let caller = fixture.key(Scope::Write).await;
        let opened = cases.open_pull(&caller, &id, new("Mine", "topic")).await.unwrap();
        assert!(opened.is_new, "{name}");
        let pull = fixture.store.pull("shop".into(), 2).await.unwrap().unwrap();
        assert_eq!(pull, opened.pull, "{name}");
        assert_eq!((pull.base.as_str(), pull.draft, pull.state), ("main", true, PullState::Open), "{name}");
        let again = cases.open_pull(&caller, &id, new("Mine", "topic")).await.unwrap();
        assert_eq!((again.is_new, again.pull), (false, pull), "{name}: a repeated request");
        for (new, text) in [
            (new("Other", "topic"), "the branch already has the open pull request #2"),
            (new("Mine", "even"), "the branch \"even\" has no commits that \"main\" does not have"),
            (new("Mine", "missing"), "there is no branch \"missing\""),
            (new("", "topic"), "title must be a line of 1 to 255 characters"),
            (new("a\nb", "topic"), "title must be"),
            (new("Mine", "a b"), "head: "),
            (NewPull { body: "\0".to_owned(), ..new("Mine", "topic") }, "body must have"),
            (NewPull { base: Some("-x".to_owned()), ..new("Mine", "topic") }, "base: "),
        ] {
            let refused = cases.open_pull(&caller, &id, new.clone()).await.unwrap_err().to_string();
            assert!(refused.starts_with(text), "{name}: {new:?}: {refused}");
        }
        let reader = fixture.key(Scope::Read).await;
        assert!(cases.open_pull(&reader, &id, new("Mine", "b")).await.is_err(), "{name}");
        let mut opened = audited(&fixture).await;
        opened.retain(|line| line.starts_with("pull."));
        assert_eq!(opened, ["pull.opened shop#2"], "{name}");
    }
}

#[tokio::test]
async fn the_first_caller_who_ends_a_pull_request_is_recorded() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 2).await;
        let first = fixture.key(Scope::Write).await;
        cases.merge_pull(&first, &id, 1, MergeMethod::Merge).await.unwrap();
        cases.close_pull(&first, &id, 2).await.unwrap();
        let merge_commit: Sha = "c".repeat(40).parse().unwrap();
        for (number, commit) in [(1, Some(merge_commit)), (2, None)] {
            let again = cases.merge_pull(&operator(), &id, number, MergeMethod::Merge).await;
            assert_eq!(again, Err(Error::Pull(PullPagesError::NotOpen)), "{name}");
            let pull = fixture.store.pull("shop".into(), number).await.unwrap().unwrap();
            assert_eq!((pull.ended_by.as_deref(), pull.merge_commit), (Some(first.name()), commit), "{name}");
        }
    }
}

#[tokio::test]
async fn a_merge_that_is_only_found_is_not_attributed_to_the_caller() {
    for fixture in all().await {
        with_pulls(&fixture, 3).await;
        fixture.cases.merge_pull(&operator(), &shop().id, FakeForges::MERGED, MergeMethod::Merge).await.unwrap();
        let pull = fixture.store.pull("shop".into(), FakeForges::MERGED).await.unwrap().unwrap();
        assert_eq!((pull.state, pull.ended_by), (PullState::Merged, None), "{}", fixture.name);
        assert!(pull.merge_commit.is_some(), "{}", fixture.name);
    }
}

#[tokio::test]
async fn only_one_of_many_concurrent_ends_is_recorded() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let caller = operator();
        let ends = (0..10).map(async |number| match number % 2 {
            0 => cases.merge_pull(&caller, &id, 1, MergeMethod::Merge).await,
            _ => cases.close_pull(&caller, &id, 1).await,
        });
        let done = futures::future::join_all(ends).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{name}: {done:?}");
        assert_eq!(audited(&fixture).await.len(), 2, "{name}: the project, and one end");
    }
}

#[tokio::test]
async fn a_comment_that_is_sent_again_is_added_once() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let add = async |body: &str, key: &str| {
            cases.comment_on_pull(&operator(), &id, 1, PullComment::new(body.to_owned()), Some(key.to_owned())).await
        };
        for _ in 0..3 {
            assert_eq!(add("looks good", "k1").await, Ok(Commented::Added), "{name}");
        }
        assert_eq!(add("looks good", "k2").await, Ok(Commented::Added), "{name}: another form");
        assert_eq!(fixture.store.comments("shop".into(), 1).await.unwrap().len(), 2, "{name}");
        assert_eq!(audited(&fixture).await.len(), 3, "{name}: the project, and two comments");

        let Err(Error::Refused(refusal)) = add(" ", "k3").await else { panic!("{name}: a blank comment was added") };
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{name}");
        let missing = cases.comment_on_pull(&operator(), &id, 9, PullComment::new("x".to_owned()), None).await;
        assert_eq!(missing, Err(Error::Pull(PullPagesError::NotFound)), "{name}");
        assert_eq!(fixture.store.comments("shop".into(), 1).await.unwrap().len(), 2, "{name}: nothing was added");
    }
}

#[tokio::test]
async fn a_mention_on_a_pull_request_that_has_ended_without_a_job_is_refused() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        cases.close_pull(&operator(), &id, 1).await.unwrap();
        let mention = PullComment::new("@journeyman go on".to_owned());
        let Err(Error::Refused(refusal)) = cases.comment_on_pull(&operator(), &id, 1, mention, None).await else {
            panic!("{name}: sent")
        };
        assert_eq!(refusal.kind, RefusalKind::JobNotFound, "{name}: {refusal}");
        assert!(refusal.text.contains("which is closed"), "{name}: {refusal}");
    }
}

/// Returns the outcomes of the inbox of the project, oldest first.
async fn outcomes(fixture: &Fixture) -> Vec<Option<InboxOutcome>> {
    let events = fixture.cases.inbox(&operator(), InboxFilter::newest(Some(shop().id), 99)).await.unwrap();
    events.iter().rev().map(|event| event.outcome).collect()
}

#[tokio::test]
async fn a_comment_that_mentions_the_service_becomes_a_message_at_once() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let job = job_with_pull(&fixture).await;
        let add = async |body: &str| {
            let key = Some(format!("key of {}", body.len()));
            cases.comment_on_pull(&operator(), &id, 1, PullComment::new(body.to_owned()), key).await
        };
        assert_eq!(add("Looks good.").await, Ok(Commented::Added), "{name}");
        for _ in 0..2 {
            assert_eq!(add("Well, @journeyman, rename it").await, Ok(Commented::Sent), "{name}");
        }
        fixture.carry_out().await;
        let expected = [Some(InboxOutcome::NotAddressed), Some(InboxOutcome::Message)];
        assert_eq!(outcomes(&fixture).await, expected, "{name}");
        let messages = fixture.store.messages(job).await.unwrap();
        assert_eq!(messages.len(), 2, "{name}: the first prompt, and the comment");
        let source = messages[1].source.as_ref().unwrap();
        assert_eq!(
            (messages[1].prompt.as_str(), messages[1].origin),
            ("Well, @journeyman, rename it", Origin::Comment)
        );
        assert_eq!((source.repository.clone(), source.number), (PullRepository::local("shop"), 1), "{name}");
        assert_eq!((source.id.as_str(), source.comments.len()), ("shop/1/2", 1), "{name}");
        assert_eq!(source.url, "http://localhost:8080/projects/shop/pulls/1#c-2", "{name}");
        assert_eq!(source.author.as_ref().map(|author| author.name.as_str()), Some("cli"), "{name}");
    }
}

#[tokio::test]
async fn a_comment_can_stop_the_job() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let job = job_with_pull(&fixture).await;
        for body in ["@journeyman rename it", "@journeyman stop"] {
            let done = cases.comment_on_pull(&operator(), &id, 1, PullComment::new(body.to_owned()), None).await;
            assert_eq!(done, Ok(Commented::Sent), "{name}");
            fixture.carry_out().await;
        }
        let status = fixture.store.messages(job).await.unwrap()[1].status;
        assert_eq!(status, MessageStatus::Withdrawn, "{name}");
        let expected = [Some(InboxOutcome::Message), Some(InboxOutcome::Cancelled)];
        assert_eq!(outcomes(&fixture).await, expected, "{name}");

        // The form says at once that an archived job takes no messages.
        cases.control_job(&operator(), &id, job, Control::Archive, None).await.unwrap();
        let late = PullComment::new("@journeyman go on".to_owned());
        let refused = cases.comment_on_pull(&operator(), &id, 1, late, None).await;
        assert_eq!(refused, Err(Error::Update(UpdateError::Rejected(Rejected::Archived))), "{name}");
        let ordinary = PullComment::new("A pity.".to_owned());
        assert_eq!(cases.comment_on_pull(&operator(), &id, 1, ordinary, None).await, Ok(Commented::Added), "{name}");
        let review = async |text: &str| {
            let review = (text.to_owned(), Verdict::RequestChanges);
            cases.review_pull(&operator(), &id, 1, review, None).await
        };
        assert_eq!(review("Rename it.").await, Ok(Commented::Added), "{name}: a review is for people then");
        assert_eq!(review("@journeyman rename it").await, refused, "{name}");
    }
}

#[tokio::test]
async fn drafts_are_private_until_they_are_submitted_as_one_review() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let job = job_with_pull(&fixture).await;
        let line = LinePosition { path: "a.rs".into(), side: DiffSide::New, line: 3, hunk: "@@ -1 +3 @@\n+b".into() };
        let draft = |body: &str| PullComment { body: body.to_owned(), line: Some(line.clone()), is_draft: true };
        for body in ["Rename it.", "Remove it.", "@journeyman Test it."] {
            assert_eq!(cases.comment_on_pull(&operator(), &id, 1, draft(body), None).await, Ok(Commented::Drafted));
        }
        cases.remove_draft(&operator(), &id, 1, 2).await.unwrap();
        let pull = fixture.store.pull("shop".into(), 1).await.unwrap().unwrap();
        let other = fixture.key(Scope::Write).await;
        assert_eq!(cases.comments_of_pull(&operator(), &pull).await.unwrap().len(), 2, "{name}");
        assert_eq!(cases.comments_of_pull(&other, &pull).await.unwrap(), [], "{name}: drafts are private");
        let empty = cases.review_pull(&other, &id, 1, (" ".to_owned(), Verdict::Comment), None).await;
        assert!(matches!(empty, Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::Invalid), "{name}");
        assert_eq!(outcomes(&fixture).await, [], "{name}: drafts are not events");
        for _ in 0..2 {
            let review = (String::new(), Verdict::RequestChanges);
            let done = cases.review_pull(&operator(), &id, 1, review, Some("k".to_owned())).await;
            assert_eq!(done, Ok(Commented::Sent), "{name}");
        }
        assert_eq!(cases.comments_of_pull(&other, &pull).await.unwrap().len(), 3, "{name}: two, and the review");
        fixture.carry_out().await;
        // The repository of these tests has no reviews, so the message has no text; the code host tests have one.
        assert_eq!(outcomes(&fixture).await, [Some(InboxOutcome::Empty)], "{name}");
        assert_eq!(fixture.store.messages(job).await.unwrap().len(), 1, "{name}");
        assert_eq!(audited(&fixture).await.last().unwrap(), "pull.reviewed shop#1", "{name}");
        let approval = cases.review_pull(&other, &id, 1, (String::new(), Verdict::Approve), None).await;
        assert_eq!(approval, Ok(Commented::Added), "{name}: an approval alone asks nothing of the job");
    }
}

#[tokio::test]
async fn a_thread_on_a_line_is_resolved_by_those_who_may_write() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let line = LinePosition { path: "a.rs".into(), side: DiffSide::New, line: 3, hunk: "@@ -1 +3 @@\n+b".into() };
        let comment = PullComment { body: "Rename it.".to_owned(), line: Some(line), is_draft: false };
        cases.comment_on_pull(&operator(), &id, 1, comment, None).await.unwrap();
        let resolved = async || {
            let mut comments = fixture.store.comments("shop".into(), 1).await.unwrap();
            comments.remove(0).comment.resolved.map(|resolution| resolution.by)
        };
        let reader = fixture.key(Scope::Read).await;
        let refused = cases.resolve_comments(&reader, &id, 1, 1, true).await;
        let is_missing = |error: &Error| matches!(error, Error::Refused(it) if it.kind == RefusalKind::ScopeMissing);
        assert!(refused.is_err_and(|error| is_missing(&error)), "{name}");
        assert_eq!(resolved().await, None, "{name}");
        cases.resolve_comments(&operator(), &id, 1, 1, true).await.unwrap();
        assert_eq!(resolved().await.as_deref(), Some(operator().name()), "{name}");
        cases.resolve_comments(&operator(), &id, 1, 1, false).await.unwrap();
        assert_eq!(resolved().await, None, "{name}");
        let missing = cases.resolve_comments(&operator(), &id, 1, 2, true).await;
        assert_eq!(reason(&missing.unwrap_err()), (refusal::RefusalKind::NotFound, ResourceKind::Comment), "{name}");
        let lines = audited(&fixture).await;
        let expected = ["pull.comments_resolved shop#1", "pull.comments_reopened shop#1"];
        assert_eq!(lines[lines.len() - 2..], expected, "{name}");
    }
}

/// Creates a job, and records that it has opened the first pull request.
async fn job_with_pull(fixture: &Fixture) -> JobId {
    let request: JobRequest = JobRequest { prompt: "x".to_owned(), ..JobRequest::default() };
    let accepted = fixture.cases.create_job(&operator(), &shop().id, request, None).await.unwrap();
    let claimed = fixture.engine.claim(WorkerId::from_uuid(Uuid::nil()), Duration::from_secs(60)).await.unwrap();
    let (job, token) = (accepted.record.id, claimed.unwrap().lease.token);
    let sha: Sha = "a".repeat(40).parse().unwrap();
    let begun = TurnBegun {
        branch: "branch-0".into(),
        generation: 1,
        base: sha.clone(),
        head: sha.clone(),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    let (artifacts, ending) = (TurnArtifacts::default(), Ending::Done);
    let ended = Report::TurnEnded { head: sha.clone(), commits: vec![sha.clone()], artifacts, ending };
    let pull = Pull { repository: Some(PullRepository::local("shop")), ..Pull::new(1, "https://example.com/1") };
    let outcome = Outcome::Published { pushed: Some(sha), pull: Published::Opened(pull, None) };
    let finished = Report::Finished { outcome, usage: Usage::default() };
    for report in [Report::TurnBegun(begun), ended, finished] {
        fixture.engine.report(job, token, report).await.unwrap();
    }
    job
}

#[tokio::test]
async fn the_end_of_a_pull_request_reaches_its_job() {
    for fixture in all().await {
        let name = fixture.name;
        with_pulls(&fixture, 1).await;
        let job = job_with_pull(&fixture).await;
        fixture.cases.merge_pull(&operator(), &shop().id, 1, MergeMethod::Merge).await.unwrap();
        assert_eq!(fixture.cases.carry_out_due_events().await.unwrap(), 1, "{name}");
        assert_eq!(fixture.cases.carry_out_due_events().await.unwrap(), 0, "{name}: it is carried out once");
        let pull = fixture.store.job(job).await.unwrap().unwrap().pull.unwrap();
        assert_eq!(pull.state, PullState::Merged, "{name}");
        assert_eq!(fixture.store.indexed_pulls_of(vec![job]).await.unwrap()[0].state, PullState::Merged, "{name}");
        let filter = InboxFilter::newest(Some(shop().id), 9);
        let events = fixture.cases.inbox(&operator(), filter).await.unwrap();
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!((events[0].outcome, events[0].job), (Some(InboxOutcome::PullRecorded), Some(job)), "{name}");
    }
}
