//! Limits of what callers use at the same time: of each caller, and of all callers of this process.
//!
//! Invariants: a [`Permit`] counts until it is dropped; one caller never takes what is left of a class for the others: the
//! last quarter of a class is only for callers that hold nothing of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::ids::{KeyId, UserId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The number of waiting requests of a caller, as a multiple of the caller's limit.
const WAITING: u32 = 32;

/// A kind of resource whose use is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Requests for which git runs, until the client has taken the answer.
    Git,
    /// Pushes to the built-in code host, until the client has taken the answer. They count as [`Class::Git`] too. Git
    /// unpacks what a client has compressed, so a few kilobytes can take all the memory that a git process may have.
    Pushes,
    /// Event streams.
    Streams,
    /// Calls of the Model Context Protocol and of A2A, until the client has taken the answer.
    Calls,
    /// The memory of answers that clients have not taken yet, in KiB.
    Memory,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Git, Self::Pushes, Self::Streams, Self::Calls, Self::Memory];

    /// Returns the name in the metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Pushes => "pushes",
            Self::Streams => "streams",
            Self::Calls => "calls",
            Self::Memory => "memory_kib",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Git => "requests for which git runs",
            Self::Pushes => "pushes",
            Self::Streams => "event streams",
            Self::Calls => "calls of MCP and A2A",
            Self::Memory => "KiB of answers that were not read",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// The caller whose use is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// An API key.
    Key(KeyId),
    /// A user of the dashboard.
    User(UserId),
    /// An address, for callers without a key; `None` if it is not known.
    Address(Option<IpAddr>),
}

/// The limits of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// For all callers together.
    pub all: u32,
    /// For each caller.
    pub each: u32,
}

/// The limits of all classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The limits of [`Class::Git`].
    pub git: Limit,
    /// The limits of [`Class::Pushes`].
    pub pushes: Limit,
    /// The limits of [`Class::Streams`].
    pub streams: Limit,
    /// The limits of [`Class::Calls`].
    pub calls: Limit,
    /// The limits of [`Class::Memory`], in KiB.
    pub memory: Limit,
    /// The time that a request for git or a push waits until there is room for it.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            git: Limit { all: 32, each: 6 },
            pushes: Limit { all: 8, each: 2 },
            streams: Limit { all: 1024, each: 128 },
            calls: Limit { all: 256, each: 64 },
            memory: Limit { all: 256 << 10, each: 64 << 10 },
            wait: Duration::from_secs(40),
        }
    }
}

impl Limits {
    /// Returns the limit of a class.
    #[must_use]
    pub const fn of(&self, class: Class) -> Limit {
        match class {
            Class::Git => self.git,
            Class::Pushes => self.pushes,
            Class::Streams => self.streams,
            Class::Calls => self.calls,
            Class::Memory => self.memory,
        }
    }
}

/// A limit that does not allow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Exceeded {
    /// The class.
    pub class: Class,
    /// `true` if the limit of the caller is reached, and `false` for that of all callers.
    pub is_own: bool,
    /// The limit.
    pub most: u32,
}

impl Exceeded {
    fn text(&self) -> String {
        let (most, what) = (self.most, self.class.what());
        if self.is_own {
            format!(
                "you have as many open requests as you may: {most} {what} at the same time; read or close some, and try \
                 again"
            )
        } else {
            format!("the server is at its limit of {most} {what} at the same time; try again")
        }
    }
}

/// The use of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The class.
    pub class: Class,
    /// The units that all callers use now.
    pub used: u64,
    /// The limit of all callers.
    pub most: u64,
    /// The number of refused requests since the start.
    pub refused: u64,
}

/// Counts what callers use. Clones share their counts.
#[derive(Debug, Clone)]
pub struct Limiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    state: Mutex<State>,
    /// Wakes waiting requests when a permit was dropped.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    all: [u32; Class::ALL.len()],
    refused: [u64; Class::ALL.len()],
    holders: HashMap<(Class, Holder), Held>,
}

#[derive(Debug, Default)]
struct Held {
    used: u32,
    waiting: u32,
}

/// The permission to use a part of a class, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    limiter: Limiter,
    class: Class,
    holder: Holder,
    amount: u32,
}

impl Limiter {
    /// Returns a limiter with these limits. A limit of 0 counts as 1.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner { limits, state: Mutex::default(), freed: Notify::new() }))
    }

    /// Takes one of a class.
    ///
    /// # Errors
    /// The caller, or all callers together, use as much as they may.
    pub fn take(&self, class: Class, holder: Holder) -> Result<Permit, Exceeded> {
        self.take_many(class, holder, 1)
    }

    /// Takes an amount of a class. An amount above a limit counts as the limit, so that it fits in once nothing else is
    /// used.
    ///
    /// # Errors
    /// As [`Limiter::take`].
    pub fn take_many(&self, class: Class, holder: Holder, amount: u32) -> Result<Permit, Exceeded> {
        let mut state = self.state();
        let taken = self.admit(&mut state, class, holder, amount);
        if taken.is_err() {
            state.refused[class.index()] += 1;
        }
        taken
    }

    /// Takes an amount of a class, also if there is not as much left: for an answer to a request that has changed
    /// something, which must not be refused afterwards.
    #[must_use]
    pub fn take_anyway(&self, class: Class, holder: Holder, amount: u32) -> Permit {
        self.count(&mut self.state(), class, holder, amount)
    }

    /// Takes one of a class, and waits for it for the time of [`Limits::wait`]. The number of waiting requests of a
    /// caller has a limit too.
    ///
    /// # Errors
    /// As [`Limiter::take`], after that time.
    pub async fn wait_for(&self, class: Class, holder: Holder) -> Result<Permit, Exceeded> {
        let end = Instant::now() + self.0.limits.wait;
        let waiting = {
            let mut state = self.state();
            match self.admit(&mut state, class, holder, 1) {
                Ok(permit) => return Ok(permit),
                Err(exceeded) => {
                    let most = self.limit(class).each.saturating_mul(WAITING);
                    let held = state.holders.entry((class, holder)).or_default();
                    if held.waiting >= most {
                        state.refused[class.index()] += 1;
                        return Err(exceeded);
                    }
                    held.waiting += 1;
                    Waiting { limiter: self, class, holder }
                }
            }
        };
        loop {
            let mut freed = std::pin::pin!(self.0.freed.notified());
            freed.as_mut().enable();
            let exceeded = match self.admit(&mut self.state(), class, holder, 1) {
                Ok(permit) => return Ok(permit),
                Err(exceeded) => exceeded,
            };
            if timeout_at(end, freed).await.is_err() {
                drop(waiting);
                self.state().refused[class.index()] += 1;
                return Err(exceeded);
            }
        }
    }

    /// Returns the use of each class.
    #[must_use]
    pub fn uses(&self) -> Vec<Use> {
        let state = self.state();
        let of = |class: Class| Use {
            class,
            used: state.all[class.index()].into(),
            most: self.limit(class).all.into(),
            refused: state.refused[class.index()],
        };
        Class::ALL.map(of).into()
    }

    fn limit(&self, class: Class) -> Limit {
        let Limit { all, each } = self.0.limits.of(class);
        let all = all.max(1);
        Limit { all, each: each.clamp(1, all) }
    }

    fn admit(&self, state: &mut State, class: Class, holder: Holder, amount: u32) -> Result<Permit, Exceeded> {
        let Limit { all, each } = self.limit(class);
        let amount = amount.min(each);
        let own = state.holders.get(&(class, holder)).map_or(0, |held| held.used);
        if own.saturating_add(amount) > each {
            return Err(Exceeded { class, is_own: true, most: each });
        }
        let used = state.all[class.index()];
        let most = if own == 0 { all } else { all - all / 4 };
        if used.saturating_add(amount) > most {
            return Err(Exceeded { class, is_own: false, most: all });
        }
        Ok(self.count(state, class, holder, amount))
    }

    fn count(&self, state: &mut State, class: Class, holder: Holder, amount: u32) -> Permit {
        let all = &mut state.all[class.index()];
        *all = all.saturating_add(amount);
        let held = state.holders.entry((class, holder)).or_default();
        held.used = held.used.saturating_add(amount);
        Permit { limiter: self.clone(), class, holder, amount }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Changes the counts of a caller, and forgets a caller that holds nothing and waits for nothing.
    fn change(&mut self, class: Class, holder: Holder, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.holders.get_mut(&(class, holder)) {
            change(held);
            if held.used == 0 && held.waiting == 0 {
                self.holders.remove(&(class, holder));
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Self { limiter, class, holder, amount } = self;
        {
            let mut state = limiter.state();
            let all = &mut state.all[class.index()];
            *all = all.saturating_sub(*amount);
            state.change(*class, *holder, |held| held.used = held.used.saturating_sub(*amount));
        }
        limiter.0.freed.notify_waiters();
    }
}

/// A request that waits for a permit.
struct Waiting<'a> {
    limiter: &'a Limiter,
    class: Class,
    holder: Holder,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.limiter.state().change(self.class, self.holder, |held| held.waiting = held.waiting.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    fn key(number: u128) -> Holder {
        Holder::Key(KeyId::from_uuid(Uuid::from_u128(number)))
    }

    fn limiter(all: u32, each: u32) -> Limiter {
        Limiter::new(Limits { git: Limit { all, each }, ..Limits::default() })
    }

    fn git(is_own: bool, most: u32) -> Exceeded {
        Exceeded { class: Class::Git, is_own, most }
    }

    #[test]
    fn a_caller_has_a_limit_and_a_dropped_permit_is_free_again() {
        let limiter = limiter(8, 2);
        let held = [limiter.take(Class::Git, key(1)).unwrap(), limiter.take(Class::Git, key(1)).unwrap()];
        assert_eq!(limiter.take(Class::Git, key(1)).unwrap_err(), git(true, 2));
        let other = limiter.take(Class::Git, key(2)).unwrap();
        limiter.take(Class::Streams, key(1)).unwrap();
        drop(held);
        let again = limiter.take(Class::Git, key(1)).unwrap();
        drop((other, again));
        assert!(limiter.state().holders.is_empty(), "callers without permits are forgotten");
        let of_git = limiter.uses().into_iter().find(|one| one.class == Class::Git).unwrap();
        assert_eq!((of_git.used, of_git.most, of_git.refused), (0, 8, 1));
    }

    #[test]
    fn the_last_quarter_is_for_callers_that_hold_nothing() {
        let limiter = limiter(8, 8);
        let held: Vec<Permit> = (0..6).map(|_| limiter.take(Class::Git, key(1)).unwrap()).collect();
        assert_eq!(limiter.take(Class::Git, key(1)).unwrap_err(), git(false, 8));
        let others: Vec<Permit> = (2..4).map(|number| limiter.take(Class::Git, key(number)).unwrap()).collect();
        assert_eq!(limiter.take(Class::Git, key(4)).unwrap_err(), git(false, 8));
        assert!(git(false, 8).to_string().contains("8 requests for which git runs"));
        drop((held, others));
    }

    #[test]
    fn a_large_amount_fits_alone_and_an_answer_that_must_be_sent_always_fits() {
        let limiter = Limiter::new(Limits { memory: Limit { all: 8, each: 4 }, ..Limits::default() });
        let large = limiter.take_many(Class::Memory, key(1), 100).unwrap();
        assert!(limiter.take_many(Class::Memory, key(1), 1).unwrap_err().is_own);
        let sent = limiter.take_anyway(Class::Memory, key(1), 100);
        drop(large);
        assert!(limiter.take_many(Class::Memory, key(2), 1).is_err());
        drop(sent);
        drop(limiter.take_many(Class::Memory, key(2), 1).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_room_until_its_time_ends() {
        let limiter = limiter(8, 1);
        let held = limiter.take(Class::Git, key(1)).unwrap();
        let mut first = Box::pin(limiter.wait_for(Class::Git, key(1)));
        assert!(first.as_mut().now_or_never().is_none());
        drop(held);
        let held = first.await.unwrap();
        // The clock of the test goes on when nothing else can.
        assert_eq!(limiter.wait_for(Class::Git, key(1)).await.unwrap_err(), git(true, 1));
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(limiter.wait_for(Class::Git, key(1)))).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        let refused = limiter.wait_for(Class::Git, key(1)).now_or_never();
        assert_eq!(refused.unwrap().unwrap_err(), git(true, 1), "too many wait already");
        drop(waiting);
        drop(held);
        assert!(limiter.state().holders.is_empty());
    }
}
