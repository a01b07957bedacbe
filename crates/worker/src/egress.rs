//! The ways out of a job's sandbox, and what is told of them in the job's log.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;

use journeyman_core::egress::Allowlist;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::ports::{EgressDecision, Gate, Gateway, UpdateError};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

use crate::failure::Stopped;
use crate::lease::Reporter;

/// Where the proxy listens in a sandbox.
pub(crate) const PORT: u16 = 8812;

/// Decisions of one turn that are told; each is told once.
const MOST_TOLD: usize = 200;

/// An open way out. Dropped, it is closed.
pub(crate) struct Egress {
    decisions: Receiver<EgressDecision>,
    _gate: Option<Gate>,
}

impl Egress {
    /// Opens it on the first of the listeners of a sandbox; a sandbox without a network of its own has none.
    pub(crate) fn open(gateway: &dyn Gateway, listeners: Vec<OwnedFd>, allowed: Allowlist) -> Result<Self, Stopped> {
        let (teller, decisions) = channel(64);
        // What does not fit is told no more: a program may ask for anything, as often as it likes.
        let told = Box::new(move |decision| drop(teller.try_send(decision)));
        let listener = listeners.into_iter().next();
        let gate = listener.map(|listener| gateway.open_egress(listener, allowed, told)).transpose()?;
        Ok(Self { decisions, _gate: gate })
    }

    /// Puts decisions into the job's log until it is `over` and nothing is left.
    pub(crate) async fn tell(&mut self, reporter: &Reporter, over: &CancellationToken) -> Result<(), UpdateError> {
        let mut told = HashSet::new();
        loop {
            let decision = tokio::select! {
                biased;
                decision = self.decisions.recv() => decision,
                () = over.cancelled() => self.decisions.try_recv().ok(),
            };
            let Some(decision) = decision else {
                // Without a way out nothing ever comes.
                over.cancelled().await;
                return Ok(());
            };
            let new = told.len() < MOST_TOLD && told.insert((decision.destination.clone(), decision.allowed));
            if new {
                reporter.report(Report::Transcript(vec![entry(decision, reporter)])).await?;
            }
        }
    }
}

fn entry(decision: EgressDecision, reporter: &Reporter) -> TranscriptEntry {
    let EgressDecision { destination, allowed, reason } = decision;
    let kind = if allowed { TranscriptKind::EgressAllowed } else { TranscriptKind::EgressDenied };
    TranscriptEntry { kind, data: json!({ "destination": destination, "reason": reason }), at: reporter.now() }
}

/// The variables by which programs find the proxy.
pub(crate) fn variables() -> BTreeMap<String, String> {
    let (proxy, own) = (format!("http://127.0.0.1:{PORT}"), "localhost,127.0.0.1,::1".to_owned());
    let all = [("HTTPS_PROXY", &proxy), ("HTTP_PROXY", &proxy), ("NO_PROXY", &own)];
    all.into_iter()
        .flat_map(|(name, value)| [(name.to_owned(), value.clone()), (name.to_ascii_lowercase(), value.clone())])
        .collect()
}
