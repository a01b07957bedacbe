//! Agents that are kept for a while after their turn, paused, so that a follow-up finds them ready.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::JobId;
use tokio_util::task::AbortOnDropHandle;

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
    agents: VecDeque<One>,
    /// How many were ever kept; tells one from another of the same job.
    count: u64,
}

struct One {
    number: u64,
    job: JobId,
    agent: Agent,
    /// Kills it when its time is over; goes with it.
    _timer: AbortOnDropHandle<()>,
}

impl Waiting {
    fn take(&mut self, wanted: impl Fn(&One) -> bool) -> Option<One> {
        let place = self.agents.iter().position(wanted)?;
        self.agents.remove(place)
    }
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
        lock(&self.waiting).take(|one| one.job == job).map(|one| one.agent)
    }

    /// Keeps an agent whose turn is over and that is paused; kills the one that has waited longest where there is no room.
    pub(crate) fn keep(&self, job: JobId, agent: Agent) {
        let mut waiting = lock(&self.waiting);
        waiting.count += 1;
        let number = waiting.count;
        // It looks for the agent under the lock that we hold.
        let timer = AbortOnDropHandle::new(tokio::spawn(end_later(&self.waiting, number, self.limits.time)));
        waiting.agents.push_back(One { number, job, agent, _timer: timer });
        if waiting.agents.len() > self.limits.agents {
            // Killed and not asked to end: its job may be taken up again in this moment, and it must not move then.
            waiting.agents.pop_front();
        }
    }

    /// Ends all that wait.
    pub(crate) async fn end(&self) {
        let agents: Vec<_> = lock(&self.waiting).agents.drain(..).collect();
        futures::future::join_all(agents.into_iter().map(|one| one.agent.end())).await;
    }
}

fn end_later(waiting: &Arc<Mutex<Waiting>>, number: u64, time: Duration) -> impl Future<Output = ()> + 'static {
    let waiting = Arc::downgrade(waiting);
    async move {
        tokio::time::sleep(time).await;
        let Some(waiting) = waiting.upgrade() else { return };
        lock(&waiting).take(|one| one.number == number);
    }
}
