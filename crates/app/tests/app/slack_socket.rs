//! Socket Mode: an event is acknowledged only after it is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::SlackEdit;
use journeyman_core::ids::SlackWorkspaceId;
use journeyman_core::ports::StoreError;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::{SlackMode, SlackSecret};
use journeyman_core::version::Precondition;
use journeyman_testkit::{FakeForges, FakeSlack, StillTime, StoreCall, Tap, until_async};
use tokio::task::JoinHandle;

use super::fixtures::{Fixture, Stored, fixture, operator};

/// Refuses all changes while it is set, as a database that cannot be reached.
#[derive(Default)]
struct Outage(AtomicBool);

#[async_trait]
impl Tap for Outage {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        match call {
            StoreCall::Write if self.0.load(Ordering::SeqCst) => {
                Err(StoreError::Unavailable("the test says so".to_owned()))
            }
            _ => Ok(()),
        }
    }

    async fn after(&self, _: StoreCall<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn woken(&self) {}
}

/// Connects a workspace with Socket Mode, and waits for its connection.
async fn hold(fixture: &Fixture) -> (SlackWorkspaceId, JoinHandle<()>) {
    let id = fixture.connect().await;
    let edit = SlackEdit {
        mode: Some(SlackMode::Socket),
        secrets: [(SlackSecret::AppToken, Some(SecretValue("xapp-12345".to_owned())))].into(),
        ..SlackEdit::default()
    };
    fixture.cases.change_slack_workspace(&operator(), id, Precondition::None, edit).await.unwrap();
    let cases = fixture.cases.clone();
    let holding = tokio::spawn(async move { cases.hold_slack_sockets().await });
    until_async("the connection is opened", async || (fixture.slack.opened() == 1).then_some(())).await;
    (id, holding)
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_arrives_is_opened_again() {
    let fixture = fixture(Stored::sqlite().tapped(Arc::new(StillTime::default())), &FakeForges);
    let (_, holding) = hold(&fixture).await;
    // Slack sends a ping every few seconds. Meanwhile, the lock is renewed many times.
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(fixture.slack.opened() > 1, "the connection is held although it is silent");
    holding.abort();
}

#[tokio::test(start_paused = true)]
async fn an_event_is_acknowledged_only_after_it_is_stored() {
    let outage = Arc::new(Outage::default());
    let stored = Stored::sqlite().tapped(Arc::new(StillTime::default())).tapped(Arc::clone(&outage));
    let fixture = fixture(stored, &FakeForges);
    let (id, holding) = hold(&fixture).await;
    let slack = &fixture.slack;
    // The lock is renewed when the connection begins.
    tokio::time::sleep(Duration::from_millis(100)).await;

    outage.0.store(true, Ordering::SeqCst);
    slack.send("e1", FakeSlack::message("Ev1", "U1", "1700000000.000100", None, "<@UBOT> Go."));
    until_async("the event is sent", async || (slack.envelope("e1").0 == 1).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(slack.envelope("e1"), (1, false), "it is not stored");

    outage.0.store(false, Ordering::SeqCst);
    let is_acknowledged = async || (slack.envelope("e1") == (2, true)).then_some(());
    until_async("the event is sent again and acknowledged", is_acknowledged).await;
    let events = fixture.cases.slack_events(&operator(), id, None, 10).await.unwrap();
    assert_eq!(events.len(), 1, "an acknowledged event is stored");
    holding.abort();
}
