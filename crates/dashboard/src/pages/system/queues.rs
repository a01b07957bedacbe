//! Queued work: effects, events of code hosts, webhooks, and projects on hold.

use std::time::Duration;

use journeyman_core::outbox::Backlog;
use journeyman_core::project::hold::HoldCause;
use journeyman_core::webhook::{Disabled, Webhook};

use super::data::SystemData;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{visible, words};

/// The age of a task that was attempted before from which a person must look for the cause.
const LONG: Duration = Duration::from_secs(600);

/// The maximum number of webhooks of a project that are read.
const MAX_WEBHOOKS: usize = 100;

/// A queue in the table.
pub(super) struct QueueRow {
    pub(super) name: &'static str,
    /// The page with the entries.
    pub(super) href: Option<&'static str>,
    pub(super) waiting: u64,
    pub(super) retried: u64,
    pub(super) oldest: Option<Moment>,
    /// The action that a person must take.
    pub(super) note: Option<String>,
}

/// Returns a row for the outbox and for the inbox.
pub(super) fn rows(frame: &Frame, found: &SystemData) -> Vec<QueueRow> {
    let row = |name, href, backlog: &Backlog, remedy: &str| {
        let age = backlog.oldest.map(|oldest| frame.now.since(oldest)).unwrap_or_default();
        let is_stuck = backlog.retried > 0 && age >= LONG;
        QueueRow {
            name,
            href,
            waiting: backlog.tasks,
            retried: backlog.retried,
            oldest: backlog.oldest.map(|oldest| frame.moment(oldest)),
            note: is_stuck.then(|| format!("{name}: the oldest has waited for {}. {remedy}", words::coarse(age))),
        }
    };
    let inbox = frame.viewer.is_administrator().then_some("/system/inbox");
    vec![
        row("Comments, statuses and clean-up", None, &found.outbox, "The log of the server says why attempts fail."),
        row("Events of code hosts", inbox, &found.inbox, "The inbox says what each of them waits for."),
    ]
}

/// A webhook that does not accept events.
pub(super) struct HookRow {
    pub(super) href: String,
    /// The host of the endpoint. The rest of the address may be secret.
    pub(super) receiver: String,
    pub(super) project: String,
    pub(super) badge: (&'static str, &'static str),
    pub(super) since: Option<Moment>,
    /// The action that a person must take.
    pub(super) note: &'static str,
}

/// Returns a row for each webhook that does not accept events. Only administrators see webhooks.
pub(super) async fn hooks(frame: &Frame, found: &SystemData) -> Result<Vec<HookRow>, Failure> {
    let mut rows = Vec::new();
    if found.deliveries.failing == 0 || !frame.viewer.is_administrator() {
        return Ok(rows);
    }
    for project in &found.projects {
        let webhooks = frame.cases().webhooks_after(&frame.caller(), &project.id, None, MAX_WEBHOOKS).await?;
        rows.extend(webhooks.iter().filter_map(|webhook| hook(frame, webhook)));
    }
    Ok(rows)
}

fn hook(frame: &Frame, webhook: &Webhook) -> Option<HookRow> {
    let (badge, note) = match (webhook.disabled, webhook.failing_since) {
        (Some(Disabled::OnRequest), _) | (None, None) => return None,
        (Some(Disabled::Gone), _) => {
            (("danger", "gone"), "The endpoint is gone. Remove the webhook, or change its URL.")
        }
        (Some(Disabled::Failing), _) => {
            (("danger", "disabled"), "All requests failed for five days. Repair the endpoint, then enable the webhook.")
        }
        (None, Some(_)) => (("warning", "failing"), "Its page shows the answers of the endpoint."),
    };
    Some(HookRow {
        href: format!("/projects/{}/webhooks/{}", webhook.project, webhook.id),
        receiver: visible::line(receiver(&webhook.settings.url)).into_owned(),
        project: webhook.project.to_string(),
        badge,
        since: webhook.failing_since.map(|since| frame.moment(since)),
        note,
    })
}

/// Returns the host of a URL.
fn receiver(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// A project on hold.
pub(super) struct HoldRow {
    pub(super) project: String,
    pub(super) cause: &'static str,
    /// The cause and the remedy.
    pub(super) text: String,
    pub(super) since: Moment,
    pub(super) next: Moment,
    /// The settings with the remedy, if the viewer may change them.
    pub(super) settings: Option<String>,
}

/// Returns a row for each project on hold.
pub(super) fn holds(frame: &Frame, found: &SystemData) -> Vec<HoldRow> {
    let row = |(project, hold): (&journeyman_core::ids::ProjectId, &journeyman_core::project::hold::Hold)| {
        let (cause, section) = match hold.cause {
            HoldCause::Fetch => ("The repository cannot be read", "repository"),
            HoldCause::Push => ("The repository does not accept commits", "repository"),
            HoldCause::Model => ("The model cannot be called", "environment"),
        };
        let settings = format!("/projects/{project}/settings/{section}");
        HoldRow {
            project: project.to_string(),
            cause,
            text: words::sentence(&visible::line(&hold.reason.text)),
            since: frame.moment(hold.since),
            next: frame.moment(hold.next_probe_at),
            settings: frame.viewer.is_administrator().then_some(settings),
        }
    };
    found.holds.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_an_endpoint_is_shown() {
        assert_eq!(receiver("https://hooks.example.com/services/T0/secret?x#y"), "hooks.example.com");
        assert_eq!(receiver("https://chat.example.com:8443"), "chat.example.com:8443");
    }
}
