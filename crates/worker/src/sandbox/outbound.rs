//! The ways out of a sandbox, and what is told of them in the job's log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::egress::Allowlist;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::{EgressDecision, Gate, Gateway, ModelCall, ModelDoor, UpdateError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::failure::Stopped;
use crate::lease::Reporter;

/// Where the proxy to what a project allows listens in a sandbox.
pub(crate) const EGRESS_PORT: u16 = 8812;

/// Where models are called.
pub(crate) const MODEL_PORT: u16 = 8811;

/// Things of each kind that are told of one turn; the same is told once, but for calls that were made. Then it is told
/// once that further ones are not.
const MOST_TOLD: usize = 200;

/// Calls of models that are told of one turn.
const MOST_CALLS: usize = 5000;

/// Entries that are stored together.
const MOST_AT_ONCE: usize = 100;

/// Open ways out. Dropped, they are closed.
///
/// Between turns, the egress proxy is closed too ([`Ways::suspend`]).
pub(crate) struct Ways {
    told: UnboundedReceiver<Line>,
    teller: Teller,
    /// To the models, where the program calls any.
    pub(crate) models: Option<Arc<dyn ModelDoor>>,
    egress: Option<Egress>,
    /// The model calls that could not be reported.
    unreported: Vec<TranscriptEntry>,
}

/// The egress proxy, which allows what the project allows.
struct Egress {
    /// The socket, which also listens while no proxy answers.
    listener: OwnedFd,
    allowed: Allowlist,
    /// `None` while the proxy is suspended.
    gate: Option<Gate>,
}

impl Egress {
    fn open(&mut self, gateway: &dyn Gateway, teller: &Teller) -> io::Result<()> {
        let say = teller.clone();
        let told = Box::new(move |decision| say.tell(Told::Egress(decision)));
        self.gate = Some(gateway.open_egress(self.listener.try_clone()?, self.allowed.clone(), told)?);
        Ok(())
    }
}

/// Something that happened beside what an agent says.
pub(crate) enum Told {
    Egress(EgressDecision),
    Model(ModelCall),
    /// A session was opened. It is logged in the same way, because nothing waits until it is stored.
    Session(Value),
    /// A turn that was cut short is continued.
    Continued(Value),
}

/// Hears of what happens, and decides what of it is told: a program may ask for anything, as often as it likes.
#[derive(Clone)]
pub(crate) struct Teller {
    lines: UnboundedSender<Line>,
    turn: Arc<Mutex<InTurn>>,
}

/// What is told of the turn that is on.
#[derive(Default)]
struct InTurn {
    calls: usize,
    others: HashMap<TranscriptKind, HashSet<String>>,
}

type Line = (TranscriptKind, Value);

impl Teller {
    fn new() -> (Self, UnboundedReceiver<Line>) {
        let (lines, told) = unbounded_channel();
        (Self { lines, turn: Arc::default() }, told)
    }

    /// Tells it, unless it was told before in this turn or there were too many of its kind. Never waits: what may be in
    /// the queue is bounded by what is told of a turn.
    pub(crate) fn tell(&self, told: Told) {
        let is_call = matches!(told, Told::Model(ModelCall::Made { .. }));
        let (kind, data) = line(told);
        let data = {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            if is_call { turn.call(data) } else { turn.other(kind, data) }
        };
        if let Some(data) = data {
            // Nobody hears of it where the turn is over.
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
        (self.calls <= MOST_CALLS).then_some(data)
    }

    fn other(&mut self, kind: TranscriptKind, data: Value) -> Option<Value> {
        let told = self.others.entry(kind).or_default();
        if told.len() > MOST_TOLD || !told.insert(data.to_string()) {
            return None;
        }
        let is_last = told.len() > MOST_TOLD;
        Some(if is_last { json!({ "reason": "further ones of this turn are left out" }) } else { data })
    }
}

impl Ways {
    /// Opens them on the listeners of a sandbox, of which the first is for egress; a sandbox without a network of its own
    /// has none.
    pub(crate) fn open(
        gateway: &dyn Gateway,
        egress: Option<OwnedFd>,
        allowed: Allowlist,
        models: Option<(OwnedFd, String)>,
    ) -> Result<Self, Stopped> {
        let (teller, told) = Teller::new();
        let mut egress = egress.map(|listener| Egress { listener, allowed, gate: None });
        if let Some(egress) = &mut egress {
            egress.open(gateway, &teller)?;
        }
        let models = models.map(|(listener, token)| gateway.serve_models(listener, token)).transpose()?;
        Ok(Self { told, teller, models, egress, unreported: Vec::new() })
    }

    /// Closes open egress connections and answers no new ones until [`Ways::resume`]. Model calls need no suspension:
    /// they are refused once a turn is over.
    pub(crate) fn suspend(&mut self) {
        if let Some(egress) = &mut self.egress {
            egress.gate = None;
        }
    }

    /// Answers egress connections again.
    pub(crate) fn resume(&mut self, gateway: &dyn Gateway) -> io::Result<()> {
        match &mut self.egress {
            Some(egress) if egress.gate.is_none() => egress.open(gateway, &self.teller),
            _ => Ok(()),
        }
    }

    /// Hears of what calls of models there were.
    pub(crate) fn teller(&self) -> Teller {
        self.teller.clone()
    }

    /// Puts what happens in a turn into the job's log until it is `over` and nothing is left.
    pub(crate) async fn tell(&mut self, reporter: &Reporter, over: &CancellationToken) -> Result<(), UpdateError> {
        self.teller.begin();
        let mut lines = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = self.told.recv_many(&mut lines, MOST_AT_ONCE) => (),
                () = over.cancelled() => return Ok(()),
            }
            let entries = entries(&mut lines, reporter);
            let calls: Vec<_> = entries.iter().filter(|entry| entry.model_call().is_some()).cloned().collect();
            if let Err(error) = reporter.report(Report::Transcript(entries)).await {
                self.unreported = calls;
                return Err(error);
            }
        }
    }

    /// Records the model calls that could not be reported because the run lost its lease. Call this after
    /// [`Ways::tell`], when the model proxy is closed.
    pub(crate) async fn tell_late_calls(&mut self, reporter: &Reporter) {
        let mut lines = Vec::new();
        while let Ok(line) = self.told.try_recv() {
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

fn line(told: Told) -> (TranscriptKind, Value) {
    match told {
        Told::Egress(EgressDecision { destination, allowed, reason }) => {
            let kind = if allowed { TranscriptKind::EgressAllowed } else { TranscriptKind::EgressDenied };
            (kind, json!({ "destination": destination, "reason": reason }))
        }
        Told::Session(data) => (TranscriptKind::Session, data),
        Told::Continued(data) => (TranscriptKind::Continued, data),
        Told::Model(ModelCall::Denied { reason }) => (TranscriptKind::ModelDenied, json!({ "reason": reason })),
        Told::Model(ModelCall::Made { model, tokens, cost_micros, millis, failure }) => {
            let data = json!({
                "model": model,
                "inputTokens": tokens.input,
                "cachedTokens": tokens.cached,
                "outputTokens": tokens.output,
                "costMicros": cost_micros,
                "millis": millis,
                "failure": failure,
            });
            (TranscriptKind::ModelCalled, data)
        }
    }
}

/// The variables by which programs find the proxy for egress.
pub(crate) fn variables() -> BTreeMap<String, String> {
    let (proxy, own) = (format!("http://127.0.0.1:{EGRESS_PORT}"), "localhost,127.0.0.1,::1".to_owned());
    let all = [("HTTPS_PROXY", &proxy), ("HTTP_PROXY", &proxy), ("NO_PROXY", &own)];
    all.into_iter()
        .flat_map(|(name, value)| [(name.to_owned(), value.clone()), (name.to_ascii_lowercase(), value.clone())])
        .collect()
}

/// Where models are called from a sandbox that has no network of its own: a port of the machine's loopback.
pub(crate) fn listen_on_loopback() -> std::io::Result<(OwnedFd, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener.into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(told: &mut UnboundedReceiver<Line>) -> Vec<Line> {
        std::iter::from_fn(|| told.try_recv().ok()).collect()
    }

    fn egress(host: usize, allowed: bool) -> Told {
        let destination = format!("host-{host}:443");
        Told::Egress(EgressDecision { destination, allowed, reason: None })
    }

    #[test]
    fn what_repeats_is_told_once_in_a_turn_and_again_in_the_next() {
        let (teller, mut told) = Teller::new();
        for _ in 0..3 {
            teller.tell(egress(1, true));
        }
        assert_eq!(drain(&mut told).len(), 1);
        teller.begin();
        teller.tell(egress(1, true));
        assert_eq!(drain(&mut told).len(), 1);
    }

    #[test]
    fn many_of_one_kind_keep_nothing_of_another_from_being_told() {
        let (teller, mut told) = Teller::new();
        for host in 0..10 * MOST_TOLD {
            teller.tell(egress(host, true));
        }
        teller.tell(egress(0, false));
        let lines = drain(&mut told);
        assert_eq!(lines.len(), MOST_TOLD + 2);
        assert_eq!(lines[MOST_TOLD].1["reason"], "further ones of this turn are left out");
        assert_eq!(lines[MOST_TOLD + 1].0, TranscriptKind::EgressDenied);
    }
}
