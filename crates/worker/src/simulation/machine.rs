//! A simulated machine: a real worker whose process may crash, be delayed or get an error at every call of the store
//! and at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::ports::StoreError;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_testkit::{StoreCall, Tap};
use tokio::time::Instant;

use super::world::{Line, World};

/// The data on a machine's disk, which survives a crash.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The commits that are in the mirror.
    pub(super) mirror: BTreeSet<Sha>,
    pub(super) workspaces: BTreeMap<JobId, Workspace>,
}

#[derive(Debug, Clone)]
pub(super) struct Workspace {
    /// The commit that the marker names.
    pub(super) head: Sha,
    /// True if the marker exists.
    pub(super) is_marked: bool,
    /// The archive of the session after the previous turn.
    pub(super) archive: Option<String>,
    /// The commit that is checked out.
    pub(super) own: Sha,
    pub(super) tree: Vec<Line>,
    pub(super) session: Vec<MessageId>,
    /// The message whose turn the agent has ended, until its work is recorded.
    pub(super) answered: Option<MessageId>,
}

/// The process of a machine, from its start to its crash or end.
pub(super) struct MachineProcess {
    pub(super) world: Arc<World>,
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) number: usize,
    can_crash: AtomicBool,
    has_ended: AtomicBool,
    /// The time until which the process is frozen.
    frozen_until: Mutex<Instant>,
    /// The time until which the process cannot reach the store.
    cut_off_until: Mutex<Instant>,
    /// The microseconds that the clock is ahead of the clocks of the other machines.
    clock_error: AtomicI64,
}

impl MachineProcess {
    pub(super) fn new(world: Arc<World>, disk: Arc<Mutex<Disk>>, number: usize) -> Arc<Self> {
        let (frozen_until, cut_off_until) = (Mutex::new(world.begun), Mutex::new(world.begun));
        let (can_crash, has_ended, clock_error) = (AtomicBool::new(true), AtomicBool::new(false), AtomicI64::new(0));
        Arc::new(Self { world, disk, number, can_crash, has_ended, frozen_until, cut_off_until, clock_error })
    }

    /// Disables crashes of the process as a whole. Requests to it are still lost one by one.
    pub(super) fn disable_crashes(&self) {
        self.can_crash.store(false, Ordering::SeqCst);
    }

    pub(super) fn crash(&self, at: &'static str) {
        if !self.has_ended.swap(true, Ordering::SeqCst) {
            self.world.crashed(self.number, at);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Ends the process without a crash.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    pub(super) fn freeze(&self, length: Duration) {
        *self.frozen_until.lock().unwrap() = Instant::now() + length;
        self.world.log(format!("machine {} is frozen for {length:?}", self.number));
    }

    pub(super) fn cut_off(&self, length: Duration) {
        *self.cut_off_until.lock().unwrap() = Instant::now() + length;
        self.world.log(format!("machine {} is cut off for {length:?}", self.number));
    }

    pub(super) fn set_clock_error(&self, micros: i64) {
        self.clock_error.store(micros, Ordering::SeqCst);
        self.world.log(format!("the clock of machine {} is {} s ahead", self.number, micros / 1_000_000));
    }

    pub(super) fn has_wrong_clock(&self) -> bool {
        self.clock_error.load(Ordering::SeqCst) != 0
    }

    /// Waits for a random time between two steps, and may crash the process. Once this returns, the next effect takes
    /// place as a whole.
    pub(super) async fn crash_point(&self, what: &'static str) {
        self.may_crash(what, 100).await;
    }

    /// Does the same as [`MachineProcess::crash_point`], at a point that is seldom reached: a crash is more likely.
    pub(super) async fn rare_crash_point(&self, what: &'static str) {
        self.may_crash(what, 10).await;
    }

    async fn may_crash(&self, what: &'static str, one_in: u32) {
        self.pause().await;
        if self.can_crash.load(Ordering::SeqCst) && self.world.fails(one_in) {
            self.crash(what);
        }
        self.stop_if_ended().await;
    }

    /// Never returns once the process has ended.
    async fn stop_if_ended(&self) {
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }

    async fn pause(&self) {
        let most = if self.world.fails(30) { 5000 } else { 20 };
        tokio::time::sleep(self.world.up_to(Duration::from_millis(most))).await;
        loop {
            let until = *self.frozen_until.lock().unwrap();
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn reaches_store(&self) -> Result<(), StoreError> {
        if *self.cut_off_until.lock().unwrap() > Instant::now() {
            return Err(StoreError::Unavailable("the machine is cut off".to_owned()));
        }
        Ok(())
    }
}

impl Clock for MachineProcess {
    fn now(&self) -> Timestamp {
        let time = Timestamp::from_micros(1_800_000_000_000_000) + self.world.begun.elapsed();
        Timestamp::from_micros(time.as_micros() + self.clock_error.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Tap for MachineProcess {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        self.crash_point(match call {
            StoreCall::Read => "before a read",
            StoreCall::Claim { .. } => "before a claim",
            StoreCall::Update { .. } => "before a report",
            StoreCall::Write => "before a write",
        })
        .await;
        self.reaches_store()?;
        if self.world.fails(100) { Err(StoreError::Unavailable("the request was lost".to_owned())) } else { Ok(()) }
    }

    async fn after(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        self.crash_point(match call {
            StoreCall::Claim { .. } => "after a claim",
            _ => "after a report",
        })
        .await;
        self.reaches_store().map_err(|_| StoreError::Unknown("the machine is cut off".to_owned()))?;
        if self.world.fails(100) { Err(StoreError::Unknown("the answer was lost".to_owned())) } else { Ok(()) }
    }

    async fn woken(&self) {
        self.pause().await;
        self.stop_if_ended().await;
    }

    async fn look(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.stop_if_ended().await;
        true
    }
}
