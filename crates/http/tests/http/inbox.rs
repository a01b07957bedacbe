//! Tests of the operations that list the inbox.

use std::time::Duration;

use journeyman_core::code_host::HostName;
use journeyman_core::inbox::{Content, Decision, InboxState, NewEvent, Next, Outcome};
use journeyman_core::ports::InboxStore as _;
use journeyman_core::time::Clock as _;

use super::fixtures::{Service, service};

impl Service {
    /// Receives an event about the project `shop`, and ends it unless `end` is `None`.
    async fn event(&self, delivery: &str, end: Option<(InboxState, Outcome)>) {
        let event = NewEvent {
            host: HostName("github.com".to_owned()),
            code_host: None,
            project: Some("shop".parse().unwrap()),
            delivery: delivery.to_owned(),
            event: "issue_comment".to_owned(),
            content: Content::Raw(Vec::new()),
            at: self.world.now(),
        };
        assert!(self.store.receive(event).await.unwrap());
        let Some((state, outcome)) = end else { return };
        let claimed = self.store.claim_events(self.world.now(), Duration::from_secs(30), 1).await.unwrap().remove(0);
        let next = Next::Ends { state, outcome, detail: None };
        let decision = Decision { project: Some("shop".parse().unwrap()), job: None, event: None, subject: None, next };
        self.store.decide_event(claimed.number, claimed.attempts, decision).await.unwrap();
    }

    /// Returns the deliveries of the events on a page.
    async fn deliveries(&self, path: &str) -> Vec<String> {
        let page = self.get(path).await;
        assert_eq!(page.status.as_u16(), 200, "{path}: {page:?}");
        let page = page.json();
        page["events"].as_array().unwrap().iter().map(|one| one["delivery"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn the_inbox_is_filtered_by_state_and_outcome() {
    let service = service().await;
    service.event("sent", Some((InboxState::Done, Outcome::Message))).await;
    service.event("helped", Some((InboxState::Done, Outcome::Helped))).await;
    service.event("own", Some((InboxState::Ignored, Outcome::IgnoredSelf))).await;
    service.event("new", None).await;
    for list in ["/v2/inbox", "/v2/projects/shop/inbox"] {
        for (query, expected) in [
            ("", vec!["new", "own", "helped", "sent"]),
            ("?state=done", vec!["helped", "sent"]),
            ("?state=received", vec!["new"]),
            ("?outcome=ignored_self", vec!["own"]),
            ("?state=done&outcome=message", vec!["sent"]),
            ("?state=ignored&outcome=message", vec![]),
        ] {
            assert_eq!(service.deliveries(&format!("{list}{query}")).await, expected, "{list}{query}");
        }
    }
    let page = service.get("/v2/inbox?state=done&limit=1").await.json();
    let next = format!("/v2/inbox?state=done&limit=1&cursor={}", page["nextCursor"].as_str().unwrap());
    assert_eq!(service.deliveries(&next).await, ["sent"]);
}
