//! `/system`: the workers and their slots, the agents, the providers, the disk, and what waits to be carried out. Each
//! entry that needs a person says what to do.

mod agents;
mod data;
mod meter;
mod providers;
mod queues;
mod tiles;
mod workers;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use journeyman_core::worker::Containment;

use self::agents::AgentRow;
use self::data::SystemData;
use self::providers::Providers;
use self::queues::{HoldRow, HookRow, QueueRow};
use self::tiles::Tiles;
use self::workers::{DiskRow, WorkerRow};
use super::refresh::{self, SeenQuery};
use crate::digests::PageState;
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::streams::LastEventId;
use crate::{Shared, visible, words};

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/system", get(show)).route("/system/live", get(live))
}

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage<'a> {
    frame: &'a Frame,
    summary: String,
    /// The number of entries that need a person, and the anchor of the first one.
    needs: Option<(String, &'static str)>,
    tiles: Tiles,
    workers: Vec<WorkerRow>,
    agents: Vec<AgentRow>,
    /// The number of installed agents in words.
    installed: String,
    providers: Providers,
    queues: Vec<QueueRow>,
    hooks: Vec<HookRow>,
    holds: Vec<HoldRow>,
    disks: Vec<DiskRow>,
    sandbox: Option<Sandbox>,
    facts: &'a [(String, String)],
    live: String,
    /// The digest of the data on the page.
    seen: String,
}

/// The sandbox of the machine that serves the page.
struct Sandbox {
    kind: String,
    enough: bool,
    guarantees: Vec<Guarantee>,
}

struct Guarantee {
    name: String,
    badge: (&'static str, &'static str),
    note: String,
}

async fn show(State(shared): State<Shared>, frame: Frame) -> Response {
    frame.answer(page(&shared, &frame).await)
}

async fn page(shared: &Shared, frame: &Frame) -> Page {
    let found = SystemData::read(shared, frame.now).await?;
    let seen = found.digest(frame.now);
    let workers = workers::rows(frame, &found);
    let agents = agents::rows(shared, frame, &found);
    let providers = Providers::read(shared, frame, &found).await?;
    let hooks = queues::hooks(frame, &found).await?;
    let (queues, holds) = (queues::rows(frame, &found), queues::holds(frame, &found));
    let tiles = Tiles::new(frame, &found);
    let disks = workers::disks(frame, &found);
    let is_administrator = frame.viewer.is_administrator();
    // Only administrators see the sandbox, as in the HTTP interface.
    let sandbox = match shared.services.machine.as_ref().filter(|_| is_administrator) {
        Some(machine) => Some(sandbox(&machine.containment().await)),
        None => None,
    };
    let counts = [
        ("#tiles", tiles.needs()),
        ("#workers", workers.iter().filter(|row| row.needs_person()).count()),
        ("#agents", agents.iter().filter(|row| row.needs_person()).count()),
        ("#queues", queues.iter().filter(|row| row.note.is_some()).count() + hooks.len()),
        ("#holds", holds.len()),
        ("#disk", disks.iter().filter(|row| row.note.is_some()).count()),
    ];
    let installed = agents.iter().filter(|row| row.is_installed).count();
    rendered(&SystemPage {
        frame,
        summary: summary(frame, &found),
        needs: needs(&counts),
        tiles,
        installed: format!("{installed} of {} installed", agents.len()),
        workers,
        agents,
        providers,
        queues,
        hooks,
        holds,
        disks,
        sandbox,
        facts: if is_administrator { &shared.settings.facts } else { &[] },
        live: format!("/system/live?seen={seen}"),
        seen,
    })
}

/// Returns how many entries need a person, in words, and the anchor of the first ones.
fn needs(counts: &[(&'static str, usize)]) -> Option<(String, &'static str)> {
    let (anchor, _) = counts.iter().find(|(_, count)| *count > 0)?;
    let text = match counts.iter().map(|(_, count)| count).sum::<usize>() {
        1 => "1 thing needs you".to_owned(),
        count => format!("{count} things need you"),
    };
    Some((text, anchor))
}

/// Returns the version, the number of machines, and the time since the oldest of their processes started.
fn summary(frame: &Frame, found: &SystemData) -> String {
    let mut hosts: Vec<&str> = found.reporting(frame.now).map(|worker| worker.state.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut text = format!("Version {}", frame.version());
    if !hosts.is_empty() {
        text.push_str(&format!(" on {}", words::counted(hosts.len(), "machine")));
    }
    if let Some(time) = found.up_for(frame.now) {
        text.push_str(&format!(", up for {}", words::coarse(time)));
    }
    text
}

fn sandbox(found: &Containment) -> Sandbox {
    let text = |text: &str| visible::line(text).into_owned();
    let guarantee = |one: &journeyman_core::worker::Guarantee| Guarantee {
        name: text(one.name),
        badge: match (one.holds, found.given_up.iter().any(|name| name == one.name)) {
            (true, _) => ("ok", "holds"),
            (false, true) => ("warning", "given up"),
            (false, false) => ("danger", "does not hold"),
        },
        note: text(&one.note),
    };
    Sandbox {
        kind: text(found.sandbox),
        enough: found.is_enough(),
        guarantees: found.guarantees.iter().map(guarantee).collect(),
    }
}

async fn live(
    State(shared): State<Shared>,
    frame: Frame,
    Query(seen): Query<SeenQuery>,
    last: LastEventId,
) -> Response {
    refresh::stream(&frame, "/system".to_owned(), seen, last, move || {
        let shared = shared.clone();
        async move {
            let now = shared.services.clock.now();
            let found = SystemData::read(&shared, now).await?;
            Ok(PageState { digest: found.digest(now), parts: workers::Seen::parts(&found, now) })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_badge_counts_what_needs_a_person_and_leads_to_the_first() {
        assert_eq!(needs(&[("#tiles", 0), ("#workers", 0)]), None);
        assert_eq!(needs(&[("#tiles", 0), ("#workers", 1)]), Some(("1 thing needs you".to_owned(), "#workers")));
        let several = needs(&[("#tiles", 1), ("#workers", 0), ("#disk", 2)]);
        assert_eq!(several, Some(("3 things need you".to_owned(), "#tiles")));
    }
}
