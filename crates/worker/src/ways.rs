//! The ways out of a sandbox, and what is told of them in the job's log.

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use journeyman_core::egress::Allowlist;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::{EgressDecision, Gate, Gateway, ModelCall, ModelDoor, UpdateError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

use crate::failure::Stopped;
use crate::lease::Reporter;

/// Where the proxy to what a project allows listens in a sandbox.
pub(crate) const EGRESS_PORT: u16 = 8812;

/// Where models are called.
pub(crate) const MODEL_PORT: u16 = 8811;

/// Things of each kind that are told of one turn; the same is told once, but for calls that were made.
const MOST_TOLD: usize = 200;

/// Calls of models that are told of one turn.
const MOST_CALLS: usize = 5000;

/// Open ways out. Dropped, they are closed.
pub(crate) struct Ways {
    told: Receiver<Told>,
    teller: Sender<Told>,
    /// To the models, where the program calls any.
    pub(crate) models: Option<Arc<dyn ModelDoor>>,
    _egress: Option<Gate>,
}

/// Something that happened beside what an agent says.
pub(crate) enum Told {
    Egress(EgressDecision),
    Model(ModelCall),
    /// A session was opened, not at a way out but told on the same way: nobody waits for it to be stored.
    Session(Value),
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
        let (teller, told) = channel(256);
        // What does not fit is told no more: a program may ask for anything, as often as it likes.
        let say = teller.clone();
        let egress = egress.map(|listener| {
            gateway.open_egress(listener, allowed, Box::new(move |decision| drop(say.try_send(Told::Egress(decision)))))
        });
        let models = models.map(|(listener, token)| gateway.serve_models(listener, token)).transpose()?;
        Ok(Self { told, teller, models, _egress: egress.transpose()? })
    }

    /// Hears of what calls of models there were.
    pub(crate) fn teller(&self) -> Sender<Told> {
        self.teller.clone()
    }

    /// Puts what happens into the job's log until it is `over` and nothing is left.
    pub(crate) async fn tell(&mut self, reporter: &Reporter, over: &CancellationToken) -> Result<(), UpdateError> {
        let (mut once, mut calls) = (HashSet::new(), 0);
        loop {
            let told = tokio::select! {
                biased;
                told = self.told.recv() => told,
                () = over.cancelled() => self.told.try_recv().ok(),
            };
            let Some(told) = told else { return Ok(()) };
            let is_call = matches!(told, Told::Model(ModelCall::Made { .. }));
            let (kind, data) = line(told);
            let new = if is_call {
                calls += 1;
                calls <= MOST_CALLS
            } else {
                once.len() < MOST_TOLD && once.insert((kind, data.to_string()))
            };
            if new {
                let entry = TranscriptEntry { kind, data, at: reporter.now() };
                reporter.report(Report::Transcript(vec![entry])).await?;
            }
        }
    }
}

fn line(told: Told) -> (TranscriptKind, Value) {
    match told {
        Told::Egress(EgressDecision { destination, allowed, reason }) => {
            let kind = if allowed { TranscriptKind::EgressAllowed } else { TranscriptKind::EgressDenied };
            (kind, json!({ "destination": destination, "reason": reason }))
        }
        Told::Session(data) => (TranscriptKind::Session, data),
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
