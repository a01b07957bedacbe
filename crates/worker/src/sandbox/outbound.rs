//! The outbound proxies of a sandbox, and the log of what passes through them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::egress::Allowlist;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::{EgressDecision, Gate, Gateway, ModelCall, ModelProxy, UpdateError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::claim::lease::Reporter;
use crate::error::RunError;

/// The port of the egress proxy in a sandbox.
pub(crate) const EGRESS_PORT: u16 = 8812;

/// The port of the model proxy in a sandbox.
pub(crate) const MODEL_PORT: u16 = 8811;

/// The maximum number of log entries of each kind in one turn, apart from model calls. Repeated entries are logged
/// once. The last entry says that further ones are omitted.
const MAX_ENTRIES: usize = 200;

/// The maximum number of model calls that are logged in one turn.
const MAX_CALLS: usize = 5000;

/// The maximum number of entries that are stored together.
const BATCH: usize = 100;

/// The open proxies of one sandbox. Dropping the value closes them.
///
/// Between turns, the egress proxy is closed too ([`OutboundProxies::suspend`]).
pub(crate) struct OutboundProxies {
    lines: UnboundedReceiver<Line>,
    log: OutboundLog,
    /// The model proxy, if the program calls models.
    pub(crate) models: Option<Arc<dyn ModelProxy>>,
    egress: Option<Egress>,
    /// The model calls that could not be reported.
    unreported: Vec<TranscriptEntry>,
}

/// The egress proxy, which allows the destinations that the project allows.
struct Egress {
    /// The socket, which also listens while no proxy answers.
    listener: OwnedFd,
    allowed: Allowlist,
    /// `None` while the proxy is suspended.
    gate: Option<Gate>,
}

impl Egress {
    fn open(&mut self, gateway: &dyn Gateway, log: &OutboundLog) -> io::Result<()> {
        let log = log.clone();
        let log = Box::new(move |decision| log.add(OutboundEvent::Egress(decision)));
        self.gate = Some(gateway.open_egress(self.listener.try_clone()?, self.allowed.clone(), log)?);
        Ok(())
    }
}

/// An event of a turn that is not part of the agent's output.
pub(crate) enum OutboundEvent {
    Egress(EgressDecision),
    Model(ModelCall),
    /// A session was opened. It is logged here because nothing waits until the entry is stored.
    Session(Value),
    /// A turn that was cut short was continued.
    Continued(Value),
}

/// Collects events for the job's log, and drops repeated and excess ones, because a program may try any destination as
/// often as it likes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OutboundLog {
    lines: UnboundedSender<Line>,
    turn: Arc<Mutex<InTurn>>,
}

/// The entries of the current turn.
#[derive(Default)]
struct InTurn {
    calls: usize,
    others: HashMap<TranscriptKind, HashSet<String>>,
}

type Line = (TranscriptKind, Value);

impl OutboundLog {
    fn new() -> (Self, UnboundedReceiver<Line>) {
        let (sender, lines) = unbounded_channel();
        (Self { lines: sender, turn: Arc::default() }, lines)
    }

    /// Adds an event, unless the turn has an equal entry or too many of its kind. Never waits: the limits per turn
    /// bound the queue.
    pub(crate) fn add(&self, event: OutboundEvent) {
        let is_call = matches!(event, OutboundEvent::Model(ModelCall::Made { .. }));
        let (kind, data) = line(event);
        let data = {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if is_call { turn.call(data) } else { turn.other(kind, data) }
        };
        if let Some(data) = data {
            // After the turn, there is no receiver.
            drop(self.lines.send((kind, data)));
        }
    }

    fn begin(&self) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = InTurn::default();
    }
}

impl InTurn {
    fn call(&mut self, data: Value) -> Option<Value> {
        self.calls += 1;
        (self.calls <= MAX_CALLS).then_some(data)
    }

    fn other(&mut self, kind: TranscriptKind, data: Value) -> Option<Value> {
        let entries = self.others.entry(kind).or_default();
        if entries.len() > MAX_ENTRIES || !entries.insert(data.to_string()) {
            return None;
        }
        let is_last = entries.len() > MAX_ENTRIES;
        Some(if is_last { json!({ "reason": "further ones of this turn are omitted" }) } else { data })
    }
}

impl OutboundProxies {
    /// Opens the proxies on the listeners of a sandbox. A sandbox that shares the host's network has no egress
    /// listener.
    pub(crate) fn open(
        gateway: &dyn Gateway,
        egress: Option<OwnedFd>,
        allowed: Allowlist,
        models: Option<(OwnedFd, String)>,
    ) -> Result<Self, RunError> {
        let (log, lines) = OutboundLog::new();
        let mut egress = egress.map(|listener| Egress { listener, allowed, gate: None });
        if let Some(egress) = &mut egress {
            egress.open(gateway, &log)?;
        }
        let models = models.map(|(listener, token)| gateway.serve_models(listener, token)).transpose()?;
        Ok(Self { lines, log, models, egress, unreported: Vec::new() })
    }

    /// Closes open egress connections and answers no new ones until [`OutboundProxies::resume`]. Model calls need no
    /// suspension: they are refused once a turn is over.
    pub(crate) fn suspend(&mut self) {
        if let Some(egress) = &mut self.egress {
            egress.gate = None;
        }
    }

    /// Answers egress connections again.
    pub(crate) fn resume(&mut self, gateway: &dyn Gateway) -> io::Result<()> {
        match &mut self.egress {
            Some(egress) if egress.gate.is_none() => egress.open(gateway, &self.log),
            _ => Ok(()),
        }
    }

    /// Returns the log that the proxies write to.
    pub(crate) fn log(&self) -> OutboundLog {
        self.log.clone()
    }

    /// Writes the events of a turn to the job's log until the turn is `over` and all events are written.
    pub(crate) async fn write(&mut self, reporter: &Reporter, over: &CancellationToken) -> Result<(), UpdateError> {
        self.log.begin();
        let mut lines = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = self.lines.recv_many(&mut lines, BATCH) => (),
                () = over.cancelled() => return Ok(()),
            }
            let entries = entries(&mut lines, reporter);
            let calls: Vec<_> = entries.iter().filter(|entry| entry.model_call().is_some()).cloned().collect();
            if let Err(error) = reporter.transcript(entries).await {
                self.unreported = calls;
                return Err(error);
            }
        }
    }

    /// Records the model calls that could not be reported because the run lost its lease. Call this after
    /// [`OutboundProxies::write`], when the model proxy is closed.
    pub(crate) async fn write_late_calls(&mut self, reporter: &Reporter) {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.try_recv() {
            lines.push(line);
        }
        let mut calls = std::mem::take(&mut self.unreported);
        calls.extend(entries(&mut lines, reporter).into_iter().filter(|entry| entry.model_call().is_some()));
        if !calls.is_empty() {
            reporter.late_calls(calls).await;
        }
    }
}

fn entries(lines: &mut Vec<Line>, reporter: &Reporter) -> Vec<TranscriptEntry> {
    lines.drain(..).map(|(kind, data)| TranscriptEntry { kind, data, at: reporter.now() }).collect()
}

fn line(event: OutboundEvent) -> (TranscriptKind, Value) {
    match event {
        OutboundEvent::Egress(EgressDecision { destination, allowed, reason }) => {
            let kind = if allowed { TranscriptKind::EgressAllowed } else { TranscriptKind::EgressDenied };
            (kind, json!({ "destination": destination, "reason": reason }))
        }
        OutboundEvent::Session(data) => (TranscriptKind::Session, data),
        OutboundEvent::Continued(data) => (TranscriptKind::Continued, data),
        OutboundEvent::Model(ModelCall::Denied { reason }) => {
            (TranscriptKind::ModelDenied, json!({ "reason": reason }))
        }
        OutboundEvent::Model(ModelCall::Made {
            model,
            tokens,
            cost_micros,
            is_estimated,
            waited_millis,
            millis,
            failure,
        }) => {
            let data = json!({
                "model": model,
                "inputTokens": tokens.input,
                "cachedTokens": tokens.cached,
                "outputTokens": tokens.output,
                "costMicros": cost_micros,
                "estimated": is_estimated,
                "waitedMillis": waited_millis,
                "millis": millis,
                "failure": failure,
            });
            (TranscriptKind::ModelCalled, data)
        }
    }
}

/// Returns the environment variables by which programs find the egress proxy.
pub(crate) fn variables() -> BTreeMap<String, String> {
    let (proxy, own) = (format!("http://127.0.0.1:{EGRESS_PORT}"), "localhost,127.0.0.1,::1".to_owned());
    let all = [("HTTPS_PROXY", &proxy), ("HTTP_PROXY", &proxy), ("NO_PROXY", &own)];
    all.into_iter()
        .flat_map(|(name, value)| [(name.to_owned(), value.clone()), (name.to_ascii_lowercase(), value.clone())])
        .collect()
}

/// Opens a port on the host's loopback for the model proxy of a sandbox that shares the host's network.
pub(crate) fn listen_on_loopback() -> std::io::Result<(OwnedFd, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener.into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(lines: &mut UnboundedReceiver<Line>) -> Vec<Line> {
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    fn egress(host: usize, allowed: bool) -> OutboundEvent {
        let destination = format!("host-{host}:443");
        OutboundEvent::Egress(EgressDecision { destination, allowed, reason: None })
    }

    #[test]
    fn repeated_events_are_logged_once_in_each_turn() {
        let (log, mut lines) = OutboundLog::new();
        for _ in 0..3 {
            log.add(egress(1, true));
        }
        assert_eq!(drain(&mut lines).len(), 1);
        log.begin();
        log.add(egress(1, true));
        assert_eq!(drain(&mut lines).len(), 1);
    }

    #[test]
    fn the_limit_counts_each_kind_of_event_separately() {
        let (log, mut lines) = OutboundLog::new();
        for host in 0..10 * MAX_ENTRIES {
            log.add(egress(host, true));
        }
        log.add(egress(0, false));
        let lines = drain(&mut lines);
        assert_eq!(lines.len(), MAX_ENTRIES + 2);
        assert_eq!(lines[MAX_ENTRIES].1["reason"], "further ones of this turn are omitted");
        assert_eq!(lines[MAX_ENTRIES + 1].0, TranscriptKind::EgressDenied);
    }
}
