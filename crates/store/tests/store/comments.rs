//! Tests of comments on lines, reviews, and the comments of the service, on both databases.

use std::collections::BTreeMap;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::Change;
use journeyman_core::decision::pull::{LockedPull, PullLines, PullPage, PullToChange};
use journeyman_core::inbox::InboxState;
use journeyman_core::ports::{AdminError, InboxFilter};
use journeyman_core::position::DiffSide;
use journeyman_core::pull::comment::SERVICE;
use journeyman_core::pull::{
    Comment, CommentState, LinePosition, NewComment, NewPull, PullReviews, Resolution, Verdict,
};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_testkit::{Refused as _, Seeds as _, decide_on};

use super::fixtures::{Fixture, all};

const fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn line() -> LinePosition {
    LinePosition { path: "src/größe.rs".into(), side: DiffSide::Old, line: 7, hunk: "@@ -7 +7 @@\n-a\n+b".into() }
}

fn by(author: &str, body: &str) -> NewComment {
    let author_id = Some(format!("usr_{author}"));
    NewComment { author: author.into(), author_id, body: body.into(), at: at(1), ..NewComment::default() }
}

fn draft(author: &str, body: &str) -> NewComment {
    NewComment { line: Some(line()), is_draft: true, ..by(author, body) }
}

fn audit() -> AuditEntry {
    let (actor, action, subject) = ("cli".to_owned(), "pull.reviewed".to_owned(), "shop#1".to_owned());
    AuditEntry { at: at(5), actor, action, subject, address: None }
}

impl Fixture {
    async fn open_pull(&self) {
        let new = NewPull { title: "T".into(), head: "a".into(), ..NewPull::default() };
        self.store.open_pull("shop".into(), "main".into(), new, at(1)).await.unwrap().unwrap();
    }

    async fn change(
        &self,
        decide: impl FnMut(&LockedPull) -> Result<Change, Refusal> + Send + 'static,
    ) -> Result<(), AdminError> {
        let subject = PullToChange("shop".to_owned(), 1);
        decide_on(&*self.store, subject, at(5), decide).await.map(drop)
    }

    async fn comments(&self) -> Vec<Comment> {
        self.store.comments("shop".into(), 1).await.unwrap()
    }
}

#[tokio::test]
async fn a_comment_and_its_event_are_stored_together() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        fixture.open_pull().await;
        let comment = NewComment { line: Some(line()), ..by("ada", "Why?") };
        store.comment("shop", 1, comment.clone()).await.unwrap();
        assert_eq!(fixture.comments().await, [Comment { number: 1, comment }], "{name}");
        let events = store.inbox(InboxFilter::newest(Some("shop".parse().unwrap()), 9)).await.unwrap();
        let found: Vec<_> = events.iter().map(|event| (event.delivery.as_str(), event.state)).collect();
        assert_eq!(found, [("comment/shop/1/1", InboxState::Received)], "{name}");
        assert!(store.comment("shop", 2, by("ada", "x")).await.is_err(), "{name}: there is no such pull request");
        assert_eq!(store.inbox(InboxFilter::newest(None, 9)).await.unwrap().len(), 1, "{name}: nothing was stored");
    }
}

#[tokio::test]
async fn drafts_are_submitted_with_the_review_of_their_author_or_removed() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        fixture.open_pull().await;
        for (author, body) in [("ada", "one"), ("bob", "two"), ("ada", "three"), ("ada", "four")] {
            store.comment("shop", 1, draft(author, body)).await.unwrap();
        }
        assert_eq!(store.inbox(InboxFilter::newest(None, 9)).await.unwrap(), [], "{name}: a draft is not reported");
        fixture.change(|state| decision::pull::remove_draft(state, "usr_ada", 3)).await.unwrap();
        fixture.change(|state| decision::pull::remove_draft(state, "usr_ada", 2)).await.unwrap();
        let page = PullPage { project: "shop".parse().unwrap(), url: String::new() };
        let text = NewComment { at: at(5), verdict: Verdict::RequestChanges, ..by("ada", "") };
        fixture.change(move |state| decision::pull::review(state, text.clone(), &page, audit())).await.unwrap();
        let verdicts: Vec<Verdict> = fixture.comments().await.iter().map(|one| one.comment.verdict).collect();
        let comment = Verdict::Comment;
        assert_eq!(verdicts, [comment, comment, comment, Verdict::RequestChanges], "{name}");
        let found: Vec<_> = (fixture.comments().await.into_iter())
            .map(|one| (one.number, one.comment.body, one.comment.review, one.comment.is_draft, one.comment.line))
            .collect();
        let expected = [
            (1, "one".to_owned(), Some(5), false, Some(line())),
            (2, "two".to_owned(), None, true, Some(line())),
            (4, "four".to_owned(), Some(5), false, Some(line())),
            (5, String::new(), Some(5), false, None),
        ];
        assert_eq!(found, expected, "{name}");
        let events = store.inbox(InboxFilter::newest(None, 9)).await.unwrap();
        assert_eq!(events.len(), 1, "{name}: one event for the review");
        assert_eq!(store.audit(None, 9).await.unwrap().len(), 1, "{name}: drafts have no audit entries");
        // A submitted comment is no longer a draft.
        fixture.change(|state| decision::pull::remove_draft(state, "usr_ada", 1)).await.unwrap();
        assert_eq!(fixture.comments().await.len(), 4, "{name}");
    }
}

#[tokio::test]
async fn comments_on_a_line_are_resolved_and_opened_again() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        fixture.open_pull().await;
        let on_line = |body: &str| NewComment { line: Some(line()), ..by("ada", body) };
        for new in [on_line("one"), draft("ada", "two"), by("ada", "three"), on_line("four")] {
            store.comment("shop", 1, new).await.unwrap();
        }
        let before = fixture.comments().await;
        let resolution = Resolution { by: "bob".to_owned(), at: at(7) };
        let resolve = async |number: u64, resolution: Option<Resolution>| {
            let decide = move |state: &_| decision::pull::resolve(state, number, resolution.as_ref(), audit());
            decide_on(&**store, PullLines("shop".to_owned(), 1), at(7), decide).await.map(drop)
        };
        let resolved = async || {
            let comments = fixture.comments().await.into_iter();
            comments.filter_map(|one| Some((one.number, one.comment.resolved?))).collect::<Vec<_>>()
        };
        for _ in 0..2 {
            resolve(1, Some(resolution.clone())).await.unwrap();
        }
        assert_eq!(resolved().await, [(1, resolution.clone()), (4, resolution.clone())], "{name}");
        assert_eq!(store.audit(None, 9).await.unwrap().len(), 1, "{name}: the second change had no effect");
        let state = |number, resolved| CommentState { number, resolved };
        let expected = [state(1, Some(resolution.clone())), state(3, None), state(4, Some(resolution.clone()))];
        assert_eq!(store.comment_states("shop".into(), 1).await.unwrap(), expected, "{name}: all but the draft");
        for (number, case) in [(2, "a draft"), (3, "a comment without a line"), (9, "no comment")] {
            let refused = resolve(number, Some(resolution.clone())).await;
            assert_eq!(refused.refused(), Err((RefusalKind::NotFound, ResourceKind::Comment)), "{name}: {case}");
        }
        resolve(4, None).await.unwrap();
        assert_eq!(fixture.comments().await, before, "{name}: only the resolution has changed");
    }
}

#[tokio::test]
async fn the_reviews_of_several_pull_requests_are_counted_at_once() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        for head in ["a", "b", "c", "d"] {
            let new = NewPull { title: "T".into(), head: head.into(), ..NewPull::default() };
            store.open_pull("shop".into(), "main".into(), new, at(1)).await.unwrap().unwrap();
        }
        let review = |author: &str, number: u64, verdict: Verdict| NewComment {
            review: Some(number),
            verdict,
            ..by(author, "")
        };
        let part = NewComment { line: Some(line()), review: Some(3), ..by("bob", "part of a review") };
        for (number, comment) in [
            (1, by("ada", "one")),
            (1, part),
            (1, review("bob", 3, Verdict::RequestChanges)),
            (1, review("ada", 4, Verdict::Approve)),
            (1, draft("cyd", "not submitted")),
            (2, review("bob", 1, Verdict::RequestChanges)),
            (2, review("bob", 2, Verdict::Approve)),
            (2, review("bob", 3, Verdict::Comment)),
            (3, draft("ada", "not submitted")),
            (4, by("ada", "not asked for")),
        ] {
            store.comment("shop", number, comment).await.unwrap();
        }
        let found = store.reviews_of_pulls("shop".into(), vec![1, 2, 3, 9]).await.unwrap();
        let expected = [
            (1, PullReviews { comments: 3, verdict: Verdict::RequestChanges }),
            (2, PullReviews { comments: 3, verdict: Verdict::Approve }),
        ];
        assert_eq!(found, BTreeMap::from(expected), "{name}");
        let other = store.reviews_of_pulls("other".into(), vec![1]).await.unwrap();
        assert!(other.is_empty(), "{name}: another repository");
    }
}

#[tokio::test]
async fn the_service_writes_a_comment_once() {
    for fixture in all().await {
        let (store, name) = (&fixture.store, fixture.name);
        fixture.open_pull().await;
        store.comment("shop", 1, by("ada", "@journeyman go on")).await.unwrap();
        let answer = |text: &str| NewComment {
            author: SERVICE.into(),
            author_id: Some(SERVICE.into()),
            body: text.into(),
            at: at(2),
            ..NewComment::default()
        };
        let write = |number, marker: &str, text: &str| {
            store.comment_once("shop".into(), number, marker.to_owned(), answer(text))
        };
        for (pull, marker, text, number) in [
            (1, "a", "Done.", Some(2)),
            (1, "a", "Done again.", Some(2)),
            (1, "b", "Also done.", Some(3)),
            (2, "a", "Done.", None),
        ] {
            assert_eq!(write(pull, marker, text).await.unwrap(), number, "{name}: {text}");
        }
        let bodies: Vec<String> = fixture.comments().await.into_iter().map(|one| one.comment.body).collect();
        assert_eq!(bodies, ["@journeyman go on", "Done.", "Also done."], "{name}");
        let events = store.inbox(InboxFilter::newest(None, 9)).await.unwrap();
        assert_eq!(events.len(), 1, "{name}: comments of the service are not reported");
    }
}
