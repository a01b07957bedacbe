//! Agents that stay paused for a while after their turn, so that a follow-up does not have to start one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::JobId;
use tokio_util::task::AbortOnDropHandle;

use crate::turn::agent::Agent;

/// The number of idle agents, and how long they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleAgentLimits {
    /// The maximum number of idle agents; 0 keeps none.
    pub agents: usize,
    /// The time after its last turn at which an idle agent is ended.
    pub time: Duration,
}

impl IdleAgentLimits {
    /// Keeps no agents.
    pub const NONE: Self = Self { agents: 0, time: Duration::ZERO };
}

/// The idle agents of a machine. Dropping the value kills them.
pub(crate) struct IdleAgents {
    limits: IdleAgentLimits,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Default)]
struct Pool {
    /// The agents, longest idle first.
    agents: VecDeque<Idle>,
    /// The number of agents that were ever kept, which identifies an agent.
    count: u64,
}

struct Idle {
    number: u64,
    job: JobId,
    agent: Agent,
    /// Kills the agent when its time is over.
    _timer: AbortOnDropHandle<()>,
}

impl Pool {
    fn take(&mut self, wanted: impl Fn(&Idle) -> bool) -> Option<Idle> {
        let index = self.agents.iter().position(wanted)?;
        self.agents.remove(index)
    }
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IdleAgents {
    pub(crate) fn new(limits: IdleAgentLimits) -> Self {
        Self { limits, pool: Arc::default() }
    }

    /// Returns whether agents are kept at all.
    pub(crate) const fn keeps_agents(&self) -> bool {
        self.limits.agents > 0
    }

    /// Removes and returns the idle agent of a job.
    pub(crate) fn take(&self, job: JobId) -> Option<Agent> {
        lock(&self.pool).take(|idle| idle.job == job).map(|idle| idle.agent)
    }

    /// Keeps a paused agent. If there are too many, kills the one that has been idle longest.
    pub(crate) fn keep(&self, job: JobId, agent: Agent) {
        let mut pool = lock(&self.pool);
        pool.count += 1;
        let number = pool.count;
        // The timer takes the lock that is held here, so it cannot miss the agent.
        let timer = AbortOnDropHandle::new(tokio::spawn(end_later(&self.pool, number, self.limits.time)));
        pool.agents.push_back(Idle { number, job, agent, _timer: timer });
        if pool.agents.len() > self.limits.agents {
            // Killed instead of asked to end: a new run of its job may begin now, and the agent must not write
            // meanwhile.
            pool.agents.pop_front();
        }
    }

    /// Ends all idle agents.
    pub(crate) async fn end(&self) {
        let agents: Vec<_> = lock(&self.pool).agents.drain(..).collect();
        futures::future::join_all(agents.into_iter().map(|idle| idle.agent.end())).await;
    }
}

fn end_later(pool: &Arc<Mutex<Pool>>, number: u64, time: Duration) -> impl Future<Output = ()> + 'static {
    let pool = Arc::downgrade(pool);
    async move {
        tokio::time::sleep(time).await;
        let Some(pool) = pool.upgrade() else { return };
        lock(&pool).take(|idle| idle.number == number);
    }
}
