//! Deliveries: the attempts to send events to an endpoint.

use std::time::Duration;

use super::{Disabled, Webhook};
use crate::feed::FeedEntry;
use crate::ids::{JobId, WebhookId};
use crate::time::Timestamp;

/// The delays before the attempts after the first one: those that Standard Webhooks recommends.
const DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];

/// The maximum number of attempts of a delivery.
#[expect(clippy::cast_possible_truncation, reason = "there are few delays")]
pub const MAX_ATTEMPTS: u32 = DELAYS.len() as u32 + 1;

/// The time after which a webhook is disabled if all its attempts have failed.
pub const GIVE_UP_AFTER: Duration = Duration::from_hours(5 * 24);

/// The time for which a claimed delivery is hidden from other processes. It is longer than a request may take.
pub const DELIVERY_LEASE: Duration = Duration::from_secs(20);

/// The reason of a delivery that failed because its event was removed before the endpoint accepted it.
pub const EVENT_REMOVED: &str = "the event is no longer stored";

/// The status with which an endpoint says that it wants no more events.
const GONE: u16 = 410;

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// The event is sent when the delivery is due and no earlier delivery about the same job is pending.
    Pending,
    /// The endpoint has accepted it.
    Delivered,
    /// The attempts are used up, the endpoint is gone, or the event is no longer stored.
    Failed,
}

impl DeliveryState {
    /// Returns the name in the API and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// The result of the last attempt of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptResult {
    /// The time of the answer, or of the failure.
    pub at: Timestamp,
    /// The duration of the request.
    pub duration: Duration,
    /// The answer of the endpoint, or the reason why there was none.
    pub response: Response,
}

/// The answer to an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The endpoint answered with this status; the text is the beginning of the body.
    Status(u16, String),
    /// There was no answer, for this reason.
    Failed(String),
}

impl Response {
    /// Returns whether the endpoint accepted the event.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Status(200..=299, _))
    }
}

/// A delivery, as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The number, in the order of creation.
    pub number: u64,
    /// The webhook.
    pub webhook: WebhookId,
    /// The position of the event in the feed.
    pub position: u64,
    /// The name of the type of the event.
    pub kind: String,
    /// The job of the event.
    pub job: JobId,
    /// The state.
    pub state: DeliveryState,
    /// The number of attempts whose results were stored, since the last request to deliver again. An attempt whose process
    /// died does not count.
    pub attempts: u32,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the next attempt; `None` if there is none.
    pub due_at: Option<Timestamp>,
    /// The result of the last attempt.
    pub last: Option<AttemptResult>,
}

/// A request for deliveries to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The current time.
    pub now: Timestamp,
    /// The maximum number of deliveries.
    pub limit: usize,
}

/// A request to deliver events again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// The webhook.
    pub webhook: WebhookId,
    /// The time of the first event.
    pub since: Timestamp,
    /// Only events after this position.
    pub after: u64,
    /// The maximum number of events.
    pub limit: usize,
    /// The current time.
    pub now: Timestamp,
}

/// The result of a request to deliver events again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of deliveries.
    pub deliveries: u64,
    /// The position after which there may be more events; `None` if there are none.
    pub next: Option<u64>,
}

/// A delivery that a process carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The number of the delivery.
    pub number: u64,
    /// The fencing token: it grows with every claim, and never starts over.
    pub claim: u64,
    /// The number of this attempt, from 1. A request to deliver again starts over.
    pub attempt: u32,
    /// The webhook.
    pub webhook: Webhook,
    /// The event.
    pub event: FeedEntry,
}

/// The changes that an attempt makes to its delivery and its webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The number of the delivery.
    pub number: u64,
    /// The fencing token of the attempt.
    pub claim: u64,
    /// The webhook.
    pub webhook: WebhookId,
    /// The state of the delivery.
    pub state: DeliveryState,
    /// The time of the next attempt.
    pub due_at: Option<Timestamp>,
    /// The result.
    pub result: AttemptResult,
    /// The time of the first failure since the last success of the webhook; `None` after a success.
    pub failing_since: Option<Timestamp>,
    /// The reason why the webhook is disabled from now on.
    pub disables: Option<Disabled>,
}

/// Decides what follows from the result of an attempt. `permille` (0 to 999) selects the jitter of the delay before the
/// next one, at most a fifth of it.
#[must_use]
pub fn finish(delivery: &ClaimedDelivery, result: AttemptResult, permille: u32) -> Finished {
    let (webhook, now) = (&delivery.webhook, result.at);
    let is_success = result.response.is_success();
    let failing_since = (!is_success).then(|| webhook.failing_since.unwrap_or(now));
    let disables = match result.response {
        Response::Status(GONE, _) => Some(Disabled::Gone),
        _ if failing_since.is_some_and(|since| now.since(since) >= GIVE_UP_AFTER) => Some(Disabled::Failing),
        _ => None,
    };
    let delay = usize::try_from(delivery.attempt).ok().and_then(|attempt| DELAYS.get(attempt.checked_sub(1)?));
    let next = delay.filter(|_| !is_success && disables.is_none());
    let jittered = |delay: &Duration| *delay + (*delay / 5).saturating_mul(permille.min(999)) / 999;
    let due_at = next.map(|delay| now + jittered(delay));
    let state = match (is_success, due_at) {
        (true, _) => DeliveryState::Delivered,
        (false, Some(_)) => DeliveryState::Pending,
        (false, None) => DeliveryState::Failed,
    };
    Finished {
        number: delivery.number,
        claim: delivery.claim,
        webhook: webhook.id,
        state,
        due_at,
        result,
        failing_since,
        disables,
    }
}

/// Returns the position up to which deliveries are made at a time: of at most `limit` deliveries, but at least of one
/// event. `events` are the positions of the next events, in order, and the numbers of enabled webhooks of their projects.
pub fn batch_end(events: impl IntoIterator<Item = (u64, usize)>, limit: usize) -> Option<u64> {
    let mut end = None;
    let mut deliveries: usize = 0;
    for (position, webhooks) in events {
        deliveries = deliveries.saturating_add(webhooks);
        if end.is_some() && deliveries > limit {
            break;
        }
        end = Some(position);
    }
    end
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::webhook::{WebhookFormat, WebhookSettings};

    const START: Timestamp = Timestamp::from_micros(1_000_000);

    fn claimed(attempt: u32, failing_since: Option<Timestamp>) -> ClaimedDelivery {
        let settings = WebhookSettings {
            url: "https://example.com/".to_owned(),
            kinds: Vec::new(),
            format: WebhookFormat::Standard,
            description: String::new(),
        };
        let webhook = Webhook {
            id: WebhookId::from_uuid(Uuid::nil()),
            project: "shop".parse().unwrap(),
            settings,
            disabled: None,
            failing_since,
            created_at: START,
            old_secret_until: None,
            version: 1,
        };
        let event = FeedEntry {
            position: 1,
            kind: "job.created".to_owned(),
            at: START,
            project: "shop".parse().unwrap(),
            job: JobId::from_uuid(Uuid::nil()),
            data: json!({}),
        };
        ClaimedDelivery { number: 7, claim: 9, attempt, webhook, event }
    }

    fn ended(attempt: u32, failing_since: Option<Timestamp>, at: Timestamp, response: Response) -> Finished {
        let result = AttemptResult { at, duration: Duration::from_millis(5), response };
        finish(&claimed(attempt, failing_since), result, 0)
    }

    fn status(status: u16) -> Response {
        Response::Status(status, String::new())
    }

    #[test]
    fn a_success_ends_the_delivery_and_the_failures_of_the_webhook() {
        for code in [200, 204, 299] {
            let done = ended(3, Some(START), START, status(code));
            assert_eq!((done.state, done.due_at, done.failing_since), (DeliveryState::Delivered, None, None));
        }
    }

    #[test]
    fn failures_are_attempted_again_with_growing_delays_and_then_given_up() {
        for code in [100, 199, 300, 302, 400, 404, 429, 500, 503] {
            let done = ended(1, None, START, status(code));
            let next = Some(START + Duration::from_secs(5));
            assert_eq!(
                (done.state, done.due_at, done.failing_since),
                (DeliveryState::Pending, next, Some(START)),
                "{code}"
            );
        }
        let no_answer = || Response::Failed("it did not answer within 10 s".to_owned());
        for (attempt, delay) in DELAYS.iter().enumerate() {
            let attempt = u32::try_from(attempt).unwrap() + 1;
            assert_eq!(ended(attempt, None, START, no_answer()).due_at, Some(START + *delay));
        }
        let last = ended(MAX_ATTEMPTS, None, START, no_answer());
        assert_eq!((last.state, last.due_at), (DeliveryState::Failed, None));
        let total: Duration = DELAYS.iter().sum();
        assert!(total > Duration::from_hours(3 * 24) && total < GIVE_UP_AFTER);
    }

    #[test]
    fn the_delay_has_a_jitter_of_up_to_a_fifth() {
        let result = AttemptResult { at: START, duration: Duration::ZERO, response: status(500) };
        let due = |permille| finish(&claimed(1, None), result.clone(), permille).due_at;
        assert_eq!(due(999), Some(START + Duration::from_secs(6)));
        assert_eq!(due(u32::MAX), due(999));
    }

    #[test]
    fn a_webhook_that_is_gone_or_fails_for_days_is_disabled() {
        let gone = ended(1, None, START, status(410));
        assert_eq!((gone.state, gone.disables, gone.due_at), (DeliveryState::Failed, Some(Disabled::Gone), None));
        let late = START + GIVE_UP_AFTER;
        assert_eq!(ended(1, Some(START), late, status(500)).disables, Some(Disabled::Failing));
        assert_eq!(ended(1, Some(START), late - Duration::from_secs(1), status(500)).disables, None);
        assert_eq!(ended(1, Some(START), late, status(200)).disables, None);
    }

    #[test]
    fn a_batch_has_few_deliveries_but_at_least_one_event() {
        for (events, limit, expected) in [
            (vec![], 9, None),
            (vec![(4, 1000)], 9, Some(4)),
            (vec![(4, 1000), (5, 0)], 9, Some(4)),
            (vec![(4, 3), (5, 3), (7, 3), (8, 1)], 9, Some(7)),
            (vec![(4, 0), (6, 0)], 9, Some(6)),
        ] {
            assert_eq!(batch_end(events.clone(), limit), expected, "{events:?}");
        }
    }
}
