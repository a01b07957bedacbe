//! Normal forms of states: states that behave alike become equal. Counters are removed, and times are "now" or "later".

use journeyman_core::ids::{MessageId, RunId, Sha, WorkerId};
use journeyman_core::job::{Job, JobState, Token, Work};
use uuid::Uuid;

use super::world::{Commits, WorkerState, World};
use crate::job::fixtures::{LEASE, START as NOW, msg};

/// The last sequence number of every job's log. It is not 0, so that a log that restarts is noticed.
pub(super) const LAST_SEQ: u64 = 7;

impl World {
    /// Replaces tokens by their ranks: only their order and their equality matter.
    pub(super) fn forget_old_tokens(&mut self) {
        let mut known: Vec<Token> = self.workers.iter().filter_map(token_of).collect();
        known.push(self.job.0.token);
        known.sort_unstable();
        known.dedup();
        let rank = |token: Token| Token(known.iter().position(|one| *one == token).map_or(0, |index| index as u64));
        let job_token = rank(self.job.0.token);
        self.job.0.token = job_token;
        if let JobState::Active(Work::Running { lease, .. }) = &mut self.job.0.state {
            lease.token = job_token;
            lease.run = RunId::from_uuid(Uuid::from_u128(u128::from(job_token.0)));
        }
        for state in &mut self.workers {
            match state {
                WorkerState::Idle => {}
                WorkerState::Claimed { token }
                | WorkerState::Begun { token, .. }
                | WorkerState::Ended { token, .. }
                | WorkerState::Pushed { token, .. }
                | WorkerState::Ensured { token, .. } => *token = rank(*token),
            }
        }
    }
}

pub(super) fn token_of(state: &WorkerState) -> Option<Token> {
    match state {
        WorkerState::Idle => None,
        WorkerState::Claimed { token }
        | WorkerState::Begun { token, .. }
        | WorkerState::Ended { token, .. }
        | WorkerState::Pushed { token, .. }
        | WorkerState::Ensured { token, .. } => Some(*token),
    }
}

/// Removes the counters on which no decision within the bounds depends, and replaces times by "now" or "later".
pub(super) fn normal(mut job: Job) -> Job {
    job.last_seq = LAST_SEQ;
    job.revision = 0;
    job.preferred_worker = None;
    job.settled_at = None;
    if let JobState::Active(Work::Running { in_flight, .. } | Work::Retrying { in_flight, .. }) = &mut job.state {
        // The field counts attempts until a deadline that the model never reaches.
        in_flight.waiting = None;
        if let Some(answered) = &mut in_flight.answered {
            (answered.worker, answered.at) = (WorkerId::from_uuid(Uuid::nil()), NOW);
        }
    }
    match &mut job.state {
        JobState::Active(Work::Running { in_flight, lease }) => {
            in_flight.attempts = 0;
            lease.worker = WorkerId::from_uuid(Uuid::nil());
            lease.until = if lease.until > NOW { NOW + LEASE } else { NOW };
        }
        JobState::Active(Work::Retrying { in_flight, not_before }) => {
            in_flight.attempts = 0;
            in_flight.avoid = None;
            *not_before = if *not_before > NOW { NOW + LEASE } else { NOW };
        }
        _ => {}
    }
    job
}

pub(super) fn id(number: u8) -> MessageId {
    msg(u128::from(number))
}

pub(super) fn number_of(message: MessageId) -> u8 {
    u8::try_from(message.uuid().as_u128()).unwrap_or(u8::MAX)
}

/// Returns a commit hash whose digits list the commits of the branch: `12000…` has the commits of messages 1 and 2.
pub(super) fn sha_of(branch: &[u8]) -> Sha {
    let digits: String = branch.iter().map(ToString::to_string).collect();
    match format!("{digits:0<40}").parse() {
        Ok(sha) => sha,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn commits(sha: &Sha) -> Commits {
    let digits = sha.as_str().trim_end_matches('0').bytes();
    digits.map(|digit| digit - b'0').collect()
}
