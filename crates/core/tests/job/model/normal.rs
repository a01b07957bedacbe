//! States that behave alike made equal: without what only counts up, and with times as "now" or "later".

use journeyman_core::ids::{MessageId, RunId, Sha, WorkerId};
use journeyman_core::job::{Job, JobState, Token, Work};
use uuid::Uuid;

use super::world::{Commits, Hand, World};
use crate::job::given::{LEASE, START as NOW, msg};

/// Where every job's log stands. Not 0, so that a log that begins anew is told from one that goes on.
pub(super) const LAST_SEQ: u64 = 7;

impl World {
    /// Gives tokens their rank: only which is newest and which are equal matters.
    pub(super) fn forget_old_tokens(&mut self) {
        let mut known: Vec<Token> = self.hands.iter().filter_map(token_of).collect();
        known.push(self.job.0.token);
        known.sort_unstable();
        known.dedup();
        let rank = |token: Token| Token(known.iter().position(|one| *one == token).map_or(0, |place| place as u64));
        let job_token = rank(self.job.0.token);
        self.job.0.token = job_token;
        if let JobState::Active(Work::Running { lease, .. }) = &mut self.job.0.state {
            lease.token = job_token;
            lease.run = RunId::from_uuid(Uuid::from_u128(u128::from(job_token.0)));
        }
        for hand in &mut self.hands {
            match hand {
                Hand::Idle => {}
                Hand::Claimed { token }
                | Hand::Begun { token, .. }
                | Hand::Ended { token, .. }
                | Hand::Pushed { token, .. }
                | Hand::Ensured { token, .. } => *token = rank(*token),
            }
        }
    }
}

pub(super) fn token_of(hand: &Hand) -> Option<Token> {
    match hand {
        Hand::Idle => None,
        Hand::Claimed { token }
        | Hand::Begun { token, .. }
        | Hand::Ended { token, .. }
        | Hand::Pushed { token, .. }
        | Hand::Ensured { token, .. } => Some(*token),
    }
}

/// Without counters that no decision within the bounds depends on, and with times as "now" or "later".
pub(super) fn normal(mut job: Job) -> Job {
    job.last_seq = LAST_SEQ;
    job.warm = None;
    job.settled_at = None;
    if let JobState::Active(Work::Running { delivery, .. } | Work::Retrying { delivery, .. }) = &mut job.state {
        // The field counts attempts until a deadline that the model never reaches.
        delivery.waiting = None;
    }
    match &mut job.state {
        JobState::Active(Work::Running { delivery, lease }) => {
            delivery.attempts = 0;
            lease.worker = WorkerId::from_uuid(Uuid::nil());
            lease.until = if lease.until > NOW { NOW + LEASE } else { NOW };
        }
        JobState::Active(Work::Retrying { delivery, not_before }) => {
            delivery.attempts = 0;
            delivery.avoid = None;
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

/// A commit's name tells what is on the branch up to it: `12000…` has the commits of the messages 1 and 2.
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
