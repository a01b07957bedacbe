//! The workers, and their disks.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::{DiskState, WorkerReport};

use super::data::SystemData;
use super::meter::{Meter, marks};
use crate::digests::Parts;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{visible, words};

/// The maximum number of guarantees that the badge of a sandbox names. The sandbox of the machine that serves the page is
/// below, with each of them.
const MAX_NAMED: usize = 2;

/// A worker in the table.
pub(super) struct WorkerRow {
    pub(super) host: String,
    pub(super) id: String,
    pub(super) serves: bool,
    pub(super) busy: u32,
    pub(super) slots: u32,
    /// True for each busy slot; empty if there are too many to draw.
    pub(super) marks: Vec<bool>,
    /// The class and the text of the sandbox.
    pub(super) sandbox: (&'static str, String),
    pub(super) version: String,
    /// True if the program that serves this page has another version.
    pub(super) has_other_version: bool,
    /// The time of the last report of a silent worker; `None` for one that reports.
    pub(super) silent_since: Option<Moment>,
    /// The time since the last report.
    pub(super) seen: Seen,
    /// The action that a person must take.
    pub(super) note: Option<String>,
}

impl WorkerRow {
    pub(super) fn needs_person(&self) -> bool {
        self.note.is_some()
    }
}

/// The time since the last report of a worker. It is kept current by the page's script, and replaced by the page's stream
/// with each report.
pub(super) struct Seen {
    /// The ID of the element.
    id: String,
    at: Timestamp,
    ago: Duration,
}

impl Seen {
    fn of(worker: &WorkerReport, now: Timestamp) -> Self {
        Self { id: format!("seen-{}", worker.id), at: worker.seen_at, ago: now.since(worker.seen_at) }
    }

    /// Returns the longest of these times over the workers that report; `None` if none reports.
    pub(super) fn longest(found: &SystemData, now: Timestamp) -> Option<Self> {
        let at = found.reporting(now).map(|worker| worker.seen_at).min()?;
        Some(Self { id: "seen-all".to_owned(), at, ago: now.since(at) })
    }

    /// Returns the times of all reports, which the page's stream updates.
    pub(super) fn parts(found: &SystemData, now: Timestamp) -> Parts {
        let each = found.reporting(now).map(|worker| Self::of(worker, now));
        let mut parts = Parts::default();
        for seen in each.chain(Self::longest(found, now)) {
            parts.digest.push_str(&format!("{} {} ", seen.id, seen.at));
            parts.updates.push_str(&format!(
                "<turbo-stream action=\"replace\" target=\"{}\"><template>{seen}</template></turbo-stream>",
                seen.id
            ));
        }
        parts
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, at, ago } = self;
        write!(
            f,
            "<span id=\"{id}\" class=\"num\"><span data-elapsed=\"{at}\">{}</span> ago</span>",
            words::elapsed(*ago)
        )
    }
}

/// Safe because the text has only IDs, times and fixed text.
impl HtmlSafe for Seen {}

/// Returns a row for each worker.
pub(super) fn rows(frame: &Frame, found: &SystemData) -> Vec<WorkerRow> {
    found.workers.iter().map(|worker| row(frame, worker)).collect()
}

fn row(frame: &Frame, worker: &WorkerReport) -> WorkerRow {
    let (state, is_silent) = (&worker.state, worker.is_silent(frame.now));
    let host = visible::line(&state.host).into_owned();
    let missing = state.sandbox.as_ref().map(|sandbox| sandbox.missing.join(", ")).unwrap_or_default();
    let note = if is_silent {
        Some(format!(
            "{host} has sent no report for {}. Other workers take over its runs. Start it again, or leave it: the entry \
             disappears a day after the last report.",
            words::coarse(frame.now.since(worker.seen_at))
        ))
    } else if missing.is_empty() {
        None
    } else {
        Some(format!(
            "The sandbox on {host} does not guarantee {missing}, so only the test model runs there. Run journeyman doctor \
             on {host}: it says what to install."
        ))
    };
    WorkerRow {
        id: worker.id.to_string(),
        serves: state.serves,
        busy: state.busy,
        slots: state.slots,
        marks: marks(state.busy, state.slots),
        sandbox: sandbox(worker),
        version: visible::line(&state.version).into_owned(),
        has_other_version: state.version != frame.version(),
        seen: Seen::of(worker, frame.now),
        silent_since: is_silent.then(|| frame.moment(worker.seen_at)),
        note,
        host,
    }
}

fn sandbox(worker: &WorkerReport) -> (&'static str, String) {
    let Some(sandbox) = &worker.state.sandbox else { return ("off", "not checked yet".to_owned()) };
    if !sandbox.missing.is_empty() {
        return ("danger", format!("{}: only the test model", visible::line(&sandbox.kind)));
    }
    match sandbox.given_up.len() {
        0 => ("ok", format!("all {} hold", sandbox.holds)),
        1..=MAX_NAMED => ("off", format!("without {}", visible::line(&sandbox.given_up.join(", ")))),
        count => ("off", format!("without {count} guarantees")),
    }
}

/// The disk of a worker.
pub(super) struct DiskRow {
    pub(super) host: String,
    pub(super) free: String,
    pub(super) total: String,
    pub(super) reserve: String,
    pub(super) meter: Meter,
    /// The action that a person must take.
    pub(super) note: Option<String>,
}

/// Returns a row for the disk of each worker that reports.
pub(super) fn disks(frame: &Frame, found: &SystemData) -> Vec<DiskRow> {
    let disks = found.reporting(frame.now).filter_map(|worker| worker.state.disk.map(|disk| (worker, disk)));
    disks.map(|(worker, disk)| disk_row(&visible::line(&worker.state.host), &disk)).collect()
}

fn disk_row(host: &str, disk: &DiskState) -> DiskRow {
    let (free, reserve) = (words::bytes(disk.free_bytes), words::bytes(disk.reserve_bytes));
    let note = match (disk.space().is_enough(), disk.is_low()) {
        (false, _) => Some(format!(
            "{host} has less free space than the reserve of {reserve} (disk-reserve), so no run begins there and running \
             ones are stopped. Free space in its data directory."
        )),
        (true, true) => Some(format!(
            "The disk of {host} is nearly full. Free space in its data directory, or keep workspaces, transcripts and jobs \
             for a shorter time."
        )),
        (true, false) => None,
    };
    DiskRow {
        host: host.to_owned(),
        free,
        total: words::bytes(disk.total_bytes),
        reserve,
        meter: Meter::new(disk),
        note,
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::WorkerId;
    use journeyman_core::worker::{SandboxState, WorkerState};
    use uuid::Uuid;

    use super::*;

    fn badge(sandbox: Option<SandboxState>) -> (&'static str, String) {
        let state = WorkerState { sandbox, ..WorkerState::default() };
        let id = WorkerId::from_uuid(Uuid::from_u128(1));
        super::sandbox(&WorkerReport { id, seen_at: Timestamp::default(), state })
    }

    #[test]
    fn a_sandbox_is_red_only_if_agents_do_not_run() {
        assert_eq!(badge(None), ("off", "not checked yet".to_owned()));
        let complete = SandboxState { kind: "bubblewrap".to_owned(), holds: 9, ..SandboxState::default() };
        assert_eq!(badge(Some(complete.clone())), ("ok", "all 9 hold".to_owned()));
        let without = SandboxState { given_up: vec!["cpu".to_owned()], ..complete.clone() };
        assert_eq!(badge(Some(without.clone())), ("off", "without cpu".to_owned()));
        let many = ["cpu", "memory", "network"].map(str::to_owned).to_vec();
        assert_eq!(
            badge(Some(SandboxState { given_up: many, ..complete.clone() })),
            ("off", "without 3 guarantees".to_owned())
        );
        let broken = SandboxState { missing: vec!["network".to_owned()], ..without };
        assert_eq!(badge(Some(broken)), ("danger", "bubblewrap: only the test model".to_owned()));
    }

    #[test]
    fn a_disk_says_what_to_do_before_it_is_full() {
        let note = |free_bytes| {
            disk_row("forge-1", &DiskState { total_bytes: 100 << 30, free_bytes, reserve_bytes: 4 << 30 }).note
        };
        assert_eq!(note(50 << 30), None);
        assert!(note(9 << 30).unwrap().contains("nearly full"));
        assert!(note(1 << 30).unwrap().contains("no run begins there"));
    }
}
