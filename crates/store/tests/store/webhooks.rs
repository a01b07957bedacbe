//! Webhooks and their deliveries: each selected event at least once, in the order of each job, and no endpoint delays
//! another.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::Change;
use journeyman_core::ids::{JobId, WebhookId};
use journeyman_core::ports::{AdminError, DeliveryBacklog, DeliveryFilter, Retention};
use journeyman_core::refusal::{Refusal, RefusalKind, ResourceKind};
use journeyman_core::resource::{Key, Locked, Put};
use journeyman_core::time::Timestamp;
use journeyman_core::version::Precondition;
use journeyman_core::webhook::{
    AttemptResult, CONCURRENT, Claim, ClaimedDelivery, DELIVERY_LEASE, Delivery, DeliveryState, Disabled,
    EVENT_REMOVED, GIVE_UP_AFTER, Replay, Response, SecretChange, Webhook, WebhookFormat, WebhookSecret,
    WebhookSettings, finish,
};
use journeyman_testkit::{Refused as _, Seeds as _, decide_on, stored};
use uuid::Uuid;

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, all, free, migrated, new_job, open_again, postgres_at, project, shop};

fn id(number: u128) -> WebhookId {
    WebhookId::from_uuid(Uuid::from_u128(number))
}

fn secret(byte: u8) -> WebhookSecret {
    let letter = char::from(b'A' + byte);
    WebhookSecret::parse(&format!("whsec_{}", letter.to_string().repeat(32))).unwrap()
}

/// Returns a webhook to store, whose secrets stay.
fn kept(resource: Webhook) -> Put<Webhook> {
    Put { resource, secrets: SecretChange::Keep }
}

impl Fixture {
    async fn administer_webhook(
        &self,
        number: u128,
        decide: impl FnMut(&Locked<Webhook>) -> Result<Change, Refusal> + Send + 'static,
    ) -> Result<(), AdminError> {
        decide_on(&*self.store, Key::<Webhook>::new(id(number), Some(shop())), self.engine.now(), decide)
            .await
            .map(drop)
    }

    fn entry(&self, action: &str) -> AuditEntry {
        let (at, actor, action) = (self.engine.now(), "cli".to_owned(), action.to_owned());
        AuditEntry { at, actor, action, subject: String::new(), address: None }
    }

    fn new_webhook(&self, number: u128, kinds: &[&str]) -> Webhook {
        let settings = WebhookSettings {
            url: format!("https://{number}.example.com/"),
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            format: WebhookFormat::Standard,
            description: String::new(),
        };
        Webhook {
            id: id(number),
            project: shop(),
            settings,
            disabled: None,
            failing_since: None,
            created_at: self.engine.now(),
            old_secret_until: None,
            version: 1,
        }
    }

    async fn hook(&self, number: u128, kinds: &[&str]) {
        let (webhook, audit) = (self.new_webhook(number, kinds), self.entry("webhook.created"));
        let new = Put { resource: webhook, secrets: SecretChange::New(secret(1)) };
        let create = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
        self.administer_webhook(number, create).await.unwrap();
    }

    async fn enable(&self, number: u128, enable: bool) {
        let audit = self.entry("webhook.changed");
        let decide = move |locked: &_| {
            let edit = |known: &Webhook| Ok(kept(known.edited(known.settings.clone(), Some(enable))));
            decision::resource::change(locked, &Precondition::None, edit, audit.clone())
        };
        self.administer_webhook(number, decide).await.unwrap();
    }

    async fn make(&self) -> usize {
        let mut events = 0;
        loop {
            match self.store.make_deliveries(self.engine.now(), 99).await.unwrap() {
                0 => return events,
                more => events += more,
            }
        }
    }

    async fn take(&self, limit: usize) -> Vec<ClaimedDelivery> {
        self.store.claim_deliveries(Claim { now: self.engine.now(), limit }).await.unwrap()
    }

    async fn answer(&self, claimed: &[ClaimedDelivery], status: u16) {
        let result = || AttemptResult {
            at: self.engine.now(),
            duration: Duration::from_millis(7),
            response: Response::Status(status, "text".to_owned()),
        };
        let finished = claimed.iter().map(|one| finish(one, result(), 0)).collect();
        self.store.finish_deliveries(finished).await.unwrap();
    }

    /// Repeats the deliveries since a time, of one event after the other.
    async fn replay_all(&self, number: u128, since: Timestamp) -> u64 {
        let mut replay = Replay { webhook: id(number), since, after: 0, limit: 1, now: self.engine.now() };
        let mut deliveries = 0;
        loop {
            let step = self.store.replay(replay).await.unwrap();
            deliveries += step.deliveries;
            let Some(next) = step.next else { return deliveries };
            replay.after = next;
        }
    }

    async fn listed(&self, number: u128) -> Vec<Delivery> {
        let filter = DeliveryFilter { webhook: id(number), state: None, before: None, limit: 99 };
        let mut found = self.store.deliveries(filter).await.unwrap();
        found.reverse();
        found
    }

    async fn known(&self, number: u128) -> Webhook {
        stored::<Webhook>(&*self.store, id(number)).await.expect("the webhook")
    }
}

fn kinds(claimed: &[ClaimedDelivery]) -> Vec<&str> {
    claimed.iter().map(|one| one.event.kind.as_str()).collect()
}

#[tokio::test]
async fn webhooks_are_created_changed_rotated_and_removed() {
    for fixture in all().await {
        let name = fixture.name;
        assert!(!fixture.store.has_webhooks().await.unwrap(), "{name}");
        fixture.hook(1, &["job.completed"]).await;
        assert!(fixture.store.has_webhooks().await.unwrap(), "{name}");
        fixture.world.advance(Duration::from_secs(1));
        fixture.hook(2, &[]).await;
        let made = fixture.known(1).await;
        assert_eq!((made.version, made.settings.kinds.clone()), (1, vec!["job.completed".to_owned()]), "{name}");
        let listed = fixture.store.webhooks_after(shop(), None, 9).await.unwrap();
        assert_eq!(listed.iter().map(|webhook| webhook.id).collect::<Vec<_>>(), [id(1), id(2)], "{name}");
        assert_eq!(fixture.store.webhooks_after(shop(), Some(id(1)), 9).await.unwrap(), listed[1..], "{name}");
        assert_eq!(fixture.store.webhooks_after("other".parse().unwrap(), None, 9).await.unwrap(), [], "{name}");
        let secrets = fixture.store.webhook_secrets(id(1)).await.unwrap().unwrap();
        assert_eq!((secrets.current, secrets.old), (secret(1), None), "{name}");

        let audit = fixture.entry("webhook.rotated");
        let rotate = move |locked: &_| {
            let edit = |known: &Webhook| {
                let secrets = SecretChange::Rotate(secret(2));
                Ok(Put { resource: known.rotated(Duration::from_secs(9), audit.at), secrets })
            };
            decision::resource::change(locked, &Precondition::None, edit, audit.clone())
        };
        fixture.administer_webhook(1, rotate).await.unwrap();
        let secrets = fixture.store.webhook_secrets(id(1)).await.unwrap().unwrap();
        let until = fixture.engine.now() + Duration::from_secs(9);
        assert_eq!((secrets.current, secrets.old), (secret(2), Some((secret(1), until))), "{name}");

        let stale = fixture.entry("x");
        let change = move |locked: &_| {
            let edit = |known: &Webhook| Ok(kept(known.edited(known.settings.clone(), Some(false))));
            decision::resource::change(locked, &Precondition::Version(vec![1]), edit, stale.clone())
        };
        let refused = fixture.administer_webhook(1, change).await;
        assert_eq!(refused.refused(), Err((RefusalKind::VersionMismatch, ResourceKind::Webhook)), "{name}");
        fixture.enable(1, false).await;
        assert_eq!(fixture.known(1).await.disabled, Some(Disabled::OnRequest), "{name}");
        fixture.enable(1, true).await;
        assert_eq!((fixture.known(1).await.disabled, fixture.known(1).await.version), (None, 4), "{name}");

        let audit = fixture.entry("webhook.removed");
        let remove = || {
            let audit = audit.clone();
            move |locked: &_| decision::resource::remove(locked, &Precondition::None, audit.clone())
        };
        fixture.administer_webhook(1, remove()).await.unwrap();
        assert_eq!(stored::<Webhook>(&*fixture.store, id(1)).await, None, "{name}");
        assert_eq!(fixture.store.webhook_secrets(id(1)).await.unwrap(), None, "{name}");
        fixture.administer_webhook(1, remove()).await.expect("a repetition");
        assert_eq!(
            fixture.administer_webhook(9, remove()).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Webhook)),
            "{name}"
        );
        let (webhook, audit) = (fixture.new_webhook(3, &[]), fixture.entry("webhook.created"));
        let new = Put { resource: webhook, secrets: SecretChange::New(secret(1)) };
        let create = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
        let nowhere: Key<Webhook> = Key::new(id(3), Some("none".parse().unwrap()));
        let refused = decide_on(&*fixture.store, nowhere, fixture.engine.now(), create).await;
        assert_eq!(refused.refused(), Err((RefusalKind::NotFound, ResourceKind::Project)), "{name}");
    }
}

#[tokio::test]
async fn selected_events_become_deliveries_in_the_order_of_each_job() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.job().await;
        fixture.hook(1, &[]).await;
        fixture.hook(2, &["job.completed"]).await;
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.engine.create_job(&project("other"), new_job("x"), free()).await.unwrap();
        complete_next_job(&fixture).await;
        complete_next_job(&fixture).await;
        let second = fixture.job().await;
        assert_eq!(fixture.make().await, 6, "{name}: also the events of the other project");
        assert_eq!(fixture.make().await, 0, "{name}: nothing new");
        let all: Vec<String> = fixture.listed(1).await.into_iter().map(|one| one.kind).collect();
        assert_eq!(all, ["message.finished", "job.completed", "job.created"], "{name}: those since its creation");
        assert_eq!(fixture.listed(2).await.len(), 1, "{name}");
        let first = fixture.take(9).await;
        assert_eq!(kinds(&first), ["message.finished", "job.created", "job.completed"], "{name}: one of each job");
        assert_eq!((first[1].event.job, first[0].attempt, first[2].webhook.id), (second, 1, id(2)), "{name}");
        assert_eq!(fixture.take(9).await, [], "{name}: the next one waits for the first");
        fixture.answer(&first, 200).await;
        let next = fixture.take(9).await;
        assert_eq!(kinds(&next), ["job.completed"], "{name}");
        fixture.answer(&next, 204).await;
        assert_eq!(fixture.take(9).await, [], "{name}");
        let done = fixture.listed(1).await;
        assert!(
            done.iter().all(|one| one.state == DeliveryState::Delivered && one.due_at.is_none()),
            "{name}: {done:?}"
        );
        let last = done[0].last.clone().unwrap();
        assert_eq!(
            (last.response, last.duration),
            (Response::Status(200, "text".into()), Duration::from_millis(7)),
            "{name}"
        );
        assert_eq!(fixture.store.delivery_backlog().await.unwrap(), DeliveryBacklog::default(), "{name}");
    }
}

#[tokio::test]
async fn a_failed_delivery_is_due_again_and_later_ones_about_its_job_wait() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.hook(1, &[]).await;
        fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.make().await;
        let first = fixture.take(9).await;
        let begun = fixture.engine.now();
        fixture.answer(&first, 500).await;
        assert_eq!(fixture.known(1).await.failing_since, Some(begun), "{name}");
        let backlog = fixture.store.delivery_backlog().await.unwrap();
        assert_eq!((backlog.pending, backlog.failing), (3, 1), "{name}");
        assert_eq!(fixture.take(9).await, [], "{name}: the others wait for it");
        fixture.world.advance(Duration::from_secs(6));
        let again = fixture.take(9).await;
        assert_eq!((again[0].number, again[0].attempt, again.len()), (first[0].number, 2, 1), "{name}");
        // A process that has lost its lease cannot change the delivery.
        fixture.answer(&first, 200).await;
        assert_eq!(fixture.listed(1).await[0].state, DeliveryState::Pending, "{name}");
        fixture.answer(&again, 200).await;
        assert_eq!(fixture.known(1).await.failing_since, None, "{name}");
        assert_eq!(kinds(&fixture.take(9).await), ["message.finished"], "{name}");
        fixture.world.advance(DELIVERY_LEASE + Duration::from_secs(1));
        let taken_over = fixture.take(9).await;
        assert_eq!(
            (kinds(&taken_over), taken_over[0].attempt),
            (vec!["message.finished"], 1),
            "{name}: the attempt of a process that died does not count"
        );
    }
}

#[tokio::test]
async fn an_endpoint_gets_few_requests_at_a_time_and_one_while_it_fails() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.hook(1, &["job.created"]).await;
        fixture.hook(2, &["job.created"]).await;
        for _ in 0..2 * CONCURRENT {
            fixture.job().await;
        }
        fixture.make().await;
        let first = fixture.take(99).await;
        let of =
            |claimed: &[ClaimedDelivery], number| claimed.iter().filter(|one| one.webhook.id == id(number)).count();
        assert_eq!((of(&first, 1), of(&first, 2)), (CONCURRENT, CONCURRENT), "{name}");
        assert_eq!(fixture.take(99).await, [], "{name}: all requests are under way");
        let (dead, live): (Vec<_>, Vec<_>) = first.into_iter().partition(|one| one.webhook.id == id(1));
        fixture.answer(&dead, 503).await;
        fixture.answer(&live, 200).await;
        let next = fixture.take(99).await;
        assert_eq!((of(&next, 1), of(&next, 2)), (1, CONCURRENT), "{name}: the failing one is only probed");
        assert_eq!(fixture.take(3).await.len(), 0, "{name}");
        fixture.answer(&next, 200).await;
        assert_eq!(of(&fixture.take(3).await, 1), 3, "{name}: it works again, and the limit holds");
    }
}

#[tokio::test]
async fn a_webhook_that_is_gone_or_fails_for_days_is_disabled_with_an_entry_in_the_audit_log() {
    for fixture in all().await {
        let name = fixture.name;
        for (number, status, expected) in [(1, 410, Disabled::Gone), (2, 500, Disabled::Failing)] {
            fixture.hook(number, &["job.created"]).await;
            fixture.job().await;
            fixture.make().await;
            let first = fixture.take(9).await;
            fixture.answer(&first, status).await;
            if expected == Disabled::Failing {
                fixture.world.advance(GIVE_UP_AFTER);
                let again = fixture.take(9).await;
                fixture.answer(&again, status).await;
            }
            assert_eq!(fixture.known(number).await.disabled, Some(expected), "{name}");
            let newest = fixture.store.audit(None, 1).await.unwrap().remove(0).entry;
            assert_eq!(
                (newest.action.as_str(), newest.subject),
                ("webhook.disabled", id(number).to_string()),
                "{name}"
            );
            fixture.job().await;
            fixture.make().await;
            assert_eq!(fixture.listed(number).await.len(), 1, "{name}: no deliveries while it is disabled");
            fixture.enable(number, true).await;
            fixture.make().await;
            assert_eq!(fixture.listed(number).await.len(), 1, "{name}: it begins with the next event");
            assert_eq!(fixture.known(number).await.failing_since, None, "{name}");
            fixture.enable(number, false).await;
        }
    }
}

#[tokio::test]
async fn deliveries_are_repeated_on_request() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.job().await;
        fixture.world.advance(Duration::from_secs(10));
        let since = fixture.engine.now();
        fixture.hook(1, &["job.created"]).await;
        fixture.job().await;
        fixture.make().await;
        let first = fixture.take(9).await;
        fixture.answer(&first, 200).await;
        let number = first[0].number;
        let now = fixture.engine.now();
        assert!(!fixture.store.redeliver(id(2), number, now).await.unwrap(), "{name}: of another webhook");
        assert!(fixture.store.redeliver(id(1), number, now).await.unwrap(), "{name}");
        let again = fixture.take(9).await;
        assert_eq!((again[0].number, again[0].attempt, again[0].event.position), (number, 1, first[0].event.position));
        fixture.answer(&again, 200).await;
        assert_eq!(fixture.replay_all(1, since).await, 1, "{name}");
        let replayed = fixture.take(9).await;
        assert_eq!(replayed.len(), 1, "{name}");
        fixture.answer(&replayed, 200).await;
        let whole = fixture.replay_all(1, Timestamp::from_micros(0)).await;
        assert_eq!(whole, 2, "{name}: also the event before the webhook was created");
        let all = fixture.take(9).await;
        assert_eq!(all.iter().map(|one| one.event.position).collect::<Vec<_>>(), [1, 2], "{name}");
        let later = fixture.engine.now() + Duration::from_secs(60);
        assert_eq!(fixture.replay_all(1, later).await, 0, "{name}");
    }
}

#[tokio::test]
async fn a_request_to_deliver_again_during_an_attempt_is_not_lost() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.hook(1, &["job.created"]).await;
        fixture.job().await;
        fixture.make().await;
        let under_way = fixture.take(9).await;
        let since = Timestamp::from_micros(0);
        assert!(fixture.store.redeliver(id(1), under_way[0].number, fixture.engine.now()).await.unwrap(), "{name}");
        assert_eq!(fixture.take(9).await, [], "{name}: not at the same time");
        fixture.answer(&under_way, 200).await;
        assert_eq!(fixture.listed(1).await[0].state, DeliveryState::Pending, "{name}: the request came later");
        let again = fixture.take(9).await;
        assert_eq!((again.len(), again[0].attempt), (1, 1), "{name}");
        assert_eq!(fixture.replay_all(1, since).await, 1, "{name}");
        fixture.answer(&again, 500).await;
        let third = fixture.take(9).await;
        assert_eq!(third.len(), 1, "{name}: without the delay after a failure");
        fixture.answer(&third, 200).await;
        assert_eq!(fixture.listed(1).await[0].state, DeliveryState::Delivered, "{name}");
        // The process that carries out the attempt dies.
        assert_eq!(fixture.replay_all(1, since).await, 1, "{name}");
        fixture.take(9).await;
        assert_eq!(fixture.replay_all(1, since).await, 1, "{name}");
        fixture.world.advance(DELIVERY_LEASE + Duration::from_secs(1));
        let last = fixture.take(9).await;
        fixture.answer(&last, 200).await;
        assert_eq!(fixture.listed(1).await[0].state, DeliveryState::Delivered, "{name}: once, not twice");
    }
}

#[tokio::test]
async fn few_deliveries_are_made_at_a_time_and_all_of_an_event() {
    for fixture in all().await {
        let name = fixture.name;
        for number in 1..=3 {
            fixture.hook(number, &[]).await;
        }
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.job().await;
        fixture.engine.create_job(&project("other"), new_job("x"), free()).await.unwrap();
        fixture.job().await;
        fixture.job().await;
        let mut batches = Vec::new();
        loop {
            match fixture.store.make_deliveries(fixture.engine.now(), 6).await.unwrap() {
                0 => break,
                events => batches.push(events),
            }
        }
        assert_eq!(batches, [3, 1], "{name}: two events of the project and one of another, then the third");
        fixture.job().await;
        assert_eq!(fixture.store.make_deliveries(fixture.engine.now(), 1).await.unwrap(), 1, "{name}");
        for number in 1..=3 {
            assert_eq!(fixture.listed(number).await.len(), 4, "{name}");
        }
    }
}

#[tokio::test]
async fn a_delivery_whose_event_was_removed_fails() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.job().await;
        fixture.world.advance(Duration::from_hours(20 * 24));
        fixture.hook(1, &[]).await;
        assert_eq!(fixture.replay_all(1, Timestamp::from_micros(0)).await, 1, "{name}");
        fixture.world.advance(Duration::from_hours(11 * 24));
        let swept = fixture.store.sweep(fixture.engine.now(), Retention::default(), 9).await.unwrap();
        assert_eq!((swept.feed, swept.deliveries), (1, 0), "{name}");
        assert_eq!(fixture.take(9).await, [], "{name}");
        let failed = fixture.listed(1).await.remove(0);
        assert_eq!((failed.state, failed.due_at, failed.attempts), (DeliveryState::Failed, None, 0), "{name}");
        assert_eq!(failed.last.map(|last| last.response), Some(Response::Failed(EVENT_REMOVED.to_owned())), "{name}");
        assert!(!fixture.store.redeliver(id(1), failed.number, fixture.engine.now()).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn a_deleted_project_and_old_deliveries_leave_nothing() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.hook(1, &[]).await;
        let job = fixture.job().await;
        fixture.make().await;
        fixture.world.advance(Duration::from_hours(31 * 24));
        let swept = fixture.store.sweep(fixture.engine.now(), Retention::default(), 9).await.unwrap();
        assert_eq!((swept.feed, swept.deliveries), (1, 1), "{name}");
        fixture.engine.cancel(&shop(), job).await.unwrap();
        fixture.make().await;
        fixture.store.delete_project(shop()).await.unwrap();
        assert_eq!(stored::<Webhook>(&*fixture.store, id(1)).await, None, "{name}");
        assert_eq!(fixture.listed(1).await, [], "{name}");
        assert_eq!(fixture.store.webhook_secrets(id(1)).await.unwrap(), None, "{name}");
    }
}

/// Two processes claim at the same time. Some attempts fail, and some processes die with what they have claimed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_processes_deliver_each_event_in_the_order_of_its_job() {
    const JOBS: usize = 20;
    let url = migrated().await;
    let first = postgres_at(&url).await;
    first.hook(1, &[]).await;
    let store = open_again(&url, &first).await;
    let second = Fixture::over("postgres", first.world.clone(), store);
    for _ in 0..JOBS {
        first.job().await;
    }
    for _ in 0..JOBS {
        complete_next_job(&first).await;
    }
    let mut accepted: BTreeMap<JobId, Vec<u64>> = BTreeMap::new();
    for round in 0..200_u32 {
        first.make().await;
        let (one, two) = tokio::join!(first.take(7), second.take(7));
        for (turn, fixture, claimed) in [(0, &first, one), (1, &second, two)] {
            // Every fifth process dies.
            if (round + turn) % 5 == 4 {
                continue;
            }
            let (works, fails): (Vec<_>, Vec<_>) =
                claimed.into_iter().partition(|one| (one.number + u64::from(round)) % 4 != 0);
            for one in &works {
                accepted.entry(one.event.job).or_default().push(one.event.position);
            }
            fixture.answer(&fails, 500).await;
            fixture.answer(&works, 200).await;
        }
        // Longer than a lease, and than the delays before the first attempts.
        first.world.advance(Duration::from_hours(1));
        if first.store.delivery_backlog().await.unwrap().pending == 0 {
            break;
        }
    }
    assert_eq!(first.store.delivery_backlog().await.unwrap().pending, 0);
    assert_eq!(accepted.len(), JOBS);
    for (job, positions) in accepted {
        assert_eq!(positions.len(), 3, "{job}");
        assert!(positions.is_sorted(), "{job}: {positions:?}");
    }
}

/// Results, requests to deliver again, removals and creations at the same time, on two machines.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_webhooks_and_results_do_not_wait_for_each_other_in_a_circle() {
    const HOOKS: u128 = 5;
    let url = migrated().await;
    let first = postgres_at(&url).await;
    let store = open_again(&url, &first).await;
    let second = Fixture::over("postgres", first.world.clone(), store);
    for round in 0..10 {
        for number in 1..=HOOKS {
            first.hook(round * HOOKS + number, &[]).await;
        }
        for _ in 0..10 {
            first.job().await;
        }
        first.make().await;
        let numbers = || round * HOOKS + 1..=round * HOOKS + HOOKS;
        let since = Timestamp::from_micros(0);
        let deliver = async |fixture: &Fixture| {
            for _ in 0..5 {
                let claimed = fixture.take(50).await;
                fixture.answer(&claimed, 500).await;
                fixture.make().await;
            }
        };
        let repeat = async || {
            for number in numbers() {
                second.replay_all(number, since).await;
            }
        };
        let remove = async || {
            for number in numbers().rev() {
                let audit = second.entry("webhook.removed");
                let decide = move |locked: &_| decision::resource::remove(locked, &Precondition::None, audit.clone());
                second.administer_webhook(number, decide).await.unwrap();
            }
        };
        tokio::join!(deliver(&first), deliver(&second), repeat(), remove());
        for number in numbers() {
            assert_eq!(first.listed(number).await, [], "nothing is left of a webhook that was removed");
        }
        first.world.advance(Duration::from_mins(1));
    }
}
