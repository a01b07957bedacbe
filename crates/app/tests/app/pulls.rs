//! Tests of changes of pull requests of the built-in code host, over each kind of store.

use journeyman_app::{Commented, Error, RefusalKind};
use journeyman_core::ports::PullPagesError;
use journeyman_core::pull::{NewPull, PullState};
use journeyman_core::time::Timestamp;

use super::given::{Fixture, all, operator, shop};

/// Creates the project `shop`, with this number of pull requests.
async fn with_pulls(fixture: &Fixture, count: usize) {
    fixture.create_shop().await;
    for number in 0..count {
        let (title, body, head) = ("T".to_owned(), String::new(), format!("branch-{number}"));
        let new = NewPull { title, body, head, base: None, draft: false, labels: vec![] };
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
        cases.merge_pull(&operator(), &id, 1).await.unwrap();
        cases.close_pull(&operator(), &id, 2).await.unwrap();
        let refused = Err(Error::Pull(PullPagesError::NotOpen));
        for number in [1, 2] {
            assert_eq!(cases.merge_pull(&operator(), &id, number).await, refused, "{name}");
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
async fn only_one_of_many_concurrent_ends_is_recorded() {
    for fixture in all().await {
        let (cases, name, id) = (&fixture.cases, fixture.name, shop().id);
        with_pulls(&fixture, 1).await;
        let caller = operator();
        let ends = (0..10).map(async |number| match number % 2 {
            0 => cases.merge_pull(&caller, &id, 1).await,
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
            cases.comment_on_pull(&operator(), &id, 1, body.to_owned(), Some(key.to_owned())).await
        };
        for _ in 0..3 {
            assert_eq!(add("looks good", "k1").await, Ok(Commented::Added), "{name}");
        }
        assert_eq!(add("looks good", "k2").await, Ok(Commented::Added), "{name}: another form");
        assert_eq!(fixture.store.comments("shop".into(), 1).await.unwrap().len(), 2, "{name}");
        assert_eq!(audited(&fixture).await.len(), 3, "{name}: the project, and two comments");

        let Err(Error::Refused(refusal)) = add(" ", "k3").await else { panic!("{name}: a blank comment was added") };
        assert_eq!(refusal.kind, RefusalKind::Invalid, "{name}");
        let Err(Error::Refused(refusal)) = add("@journeyman go on", "k4").await else { panic!("{name}: sent") };
        assert_eq!(refusal.kind, RefusalKind::JobNotFound, "{name}: {refusal}");
        let missing = cases.comment_on_pull(&operator(), &id, 9, "x".to_owned(), None).await;
        assert_eq!(missing, Err(Error::Pull(PullPagesError::NotFound)), "{name}");
        assert_eq!(fixture.store.comments("shop".into(), 1).await.unwrap().len(), 2, "{name}: nothing was added");
    }
}
