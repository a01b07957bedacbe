//! Agents that are kept for a while after their turn, paused, so that a follow-up finds them ready.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::JobId;

use crate::agent::Agent;

/// How many agents are kept, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warm {
    /// At most; 0: none.
    pub agents: usize,
    /// After their last turn.
    pub time: Duration,
}

impl Warm {
    /// None is kept.
    pub const NONE: Self = Self { agents: 0, time: Duration::ZERO };
}

/// The agents that wait for a follow-up, the one that has waited longest first. Dropped, it kills them.
pub(crate) struct WarmAgents {
    limits: Warm,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    agents: VecDeque<(u64, JobId, Agent)>,
    /// How many were ever kept; tells one from another of the same job.
    count: u64,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WarmAgents {
    pub(crate) fn new(limits: Warm) -> Self {
        Self { limits, waiting: Arc::default() }
    }

    /// Whether any may wait.
    pub(crate) const fn has_room(&self) -> bool {
        self.limits.agents > 0
    }

    /// The job's agent, if it waits.
    pub(crate) fn take(&self, job: JobId) -> Option<Agent> {
        let mut waiting = lock(&self.waiting);
        let place = waiting.agents.iter().position(|(_, of, _)| *of == job)?;
        waiting.agents.remove(place).map(|(_, _, agent)| agent)
    }

    /// Keeps an agent whose turn is over and that is paused; ends the one that has waited longest where there is no room.
    pub(crate) fn keep(&self, job: JobId, agent: Agent) {
        let (number, ends) = {
            let mut waiting = lock(&self.waiting);
            waiting.count += 1;
            let number = waiting.count;
            waiting.agents.push_back((number, job, agent));
            let over = waiting.agents.len() > self.limits.agents;
            (number, if over { waiting.agents.pop_front() } else { None })
        };
        if let Some((_, _, agent)) = ends {
            tokio::spawn(agent.end());
        }
        let (waiting, time) = (Arc::downgrade(&self.waiting), self.limits.time);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let Some(waiting) = waiting.upgrade() else { return };
            let ends = {
                let mut waiting = lock(&waiting);
                let place = waiting.agents.iter().position(|(other, _, _)| *other == number);
                place.and_then(|place| waiting.agents.remove(place))
            };
            if let Some((_, _, agent)) = ends {
                agent.end().await;
            }
        });
    }

    /// Ends all that wait.
    pub(crate) async fn end(&self) {
        let agents: Vec<_> = lock(&self.waiting).agents.drain(..).collect();
        futures::future::join_all(agents.into_iter().map(|(_, _, agent)| agent.end())).await;
    }
}
