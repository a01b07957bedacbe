//! The numbers on top of the page, each with its cause.

use std::time::Duration;

use journeyman_core::worker::{DiskState, WorkerReport};

use super::data::SystemData;
use super::meter::{Meter, marks};
use super::workers::Seen;
use crate::frame::Frame;
use crate::{visible, words};

/// The time after which a job that waits for a slot needs more slots.
const LONG_WAIT: Duration = Duration::from_secs(600);

/// A line of a tile; a warning says what a person must do.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) is_warning: bool,
}

impl Line {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_warning: false }
    }

    fn warning(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_warning: true }
    }
}

pub(super) struct Tiles {
    pub(super) busy: u32,
    pub(super) slots: u32,
    /// True for each busy slot; empty if there are too many to draw.
    pub(super) marks: Vec<bool>,
    pub(super) workers: Line,
    /// The time within which all workers that report have done so.
    pub(super) seen: Option<Seen>,
    pub(super) due: u64,
    pub(super) queue: Vec<Line>,
    pub(super) deliveries: u64,
    pub(super) webhooks: Vec<Line>,
    pub(super) disk: Option<Disk>,
}

/// The disk with the smallest part of free space.
pub(super) struct Disk {
    pub(super) free: String,
    pub(super) total: String,
    pub(super) meter: Meter,
    pub(super) line: Line,
}

impl Tiles {
    pub(super) fn new(frame: &Frame, found: &SystemData) -> Self {
        let reporting: Vec<&WorkerReport> = found.reporting(frame.now).collect();
        let sum = |number: fn(&WorkerReport) -> u32| reporting.iter().map(|worker| number(worker)).sum::<u32>();
        let (busy, slots) = (sum(|worker| worker.state.busy), sum(|worker| worker.state.slots));
        let workers = match reporting.len() {
            count @ 1.. => Line::new(format!("on {}", words::counted(count, "worker"))),
            0 if found.jobs.running > 0 => Line::new("Jobs run on workers of an older version, which do not report."),
            0 => Line::warning("No worker reports. Start journeyman serve with the role worker."),
        };
        Self {
            busy,
            slots,
            marks: marks(busy, slots),
            queue: queue(frame, found, !reporting.is_empty(), busy >= slots),
            workers,
            seen: Seen::longest(found, frame.now),
            due: found.jobs.due,
            deliveries: found.deliveries.pending,
            webhooks: webhooks(frame, found),
            disk: disk(&reporting),
        }
    }

    /// Returns the number of tiles with a warning that no other part of the page repeats.
    pub(super) fn needs(&self) -> usize {
        usize::from(self.workers.is_warning) + usize::from(self.queue.iter().any(|line| line.is_warning))
    }
}

fn queue(frame: &Frame, found: &SystemData, has_workers: bool, is_full: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    match found.jobs.oldest_due {
        Some(since) => {
            let waited = frame.now.since(since);
            let text = format!("the oldest for {}", words::coarse(waited));
            if has_workers && is_full && waited >= LONG_WAIT {
                lines.push(Line::warning(format!("{text}: add workers, or raise the setting workers")));
            } else {
                lines.push(Line::new(text));
            }
        }
        None => lines.push(Line::new("no job waits")),
    }
    let elsewhere: u64 = found.waiting.values().sum();
    if elsewhere > 0 {
        lines.push(Line::new(format!("{elsewhere} more for a cause outside")));
    }
    lines
}

fn webhooks(frame: &Frame, found: &SystemData) -> Vec<Line> {
    let mut lines = Vec::new();
    let is_failing = found.deliveries.failing > 0;
    match found.deliveries.oldest {
        Some(since) => {
            let text = format!("the oldest for {}", words::coarse(frame.now.since(since)));
            lines.push(if is_failing { Line::warning(text) } else { Line::new(text) });
        }
        None => lines.push(Line::new("all are delivered")),
    }
    if is_failing {
        let count = usize::try_from(found.deliveries.failing).unwrap_or(usize::MAX);
        let verb = if count == 1 { "does" } else { "do" };
        lines.push(Line::warning(format!("{} {verb} not accept them", words::counted(count, "endpoint"))));
    }
    lines
}

fn disk(reporting: &[&WorkerReport]) -> Option<Disk> {
    let disks = reporting.iter().filter_map(|worker| worker.state.disk.as_ref().map(|disk| (*worker, disk)));
    let part = |disk: &DiskState| u128::from(disk.free_bytes) * 1000 / u128::from(disk.total_bytes.max(1));
    let (worker, disk) = disks.min_by_key(|(_, disk)| part(disk))?;
    let host = visible::line(&worker.state.host);
    let line = match (disk.space().is_enough(), disk.is_low()) {
        (false, _) => Line::warning(format!("on {host}: no run begins")),
        (true, true) => Line::warning(format!("on {host}: nearly full")),
        (true, false) => Line::new(format!("on {host}")),
    };
    Some(Disk {
        free: words::bytes(disk.free_bytes),
        total: words::bytes(disk.total_bytes),
        meter: Meter::new(disk),
        line,
    })
}
