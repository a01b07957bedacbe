//! A machine: a real worker, whose every call of the store and every step may be its last, be late, or fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::engine::Engine;
use journeyman_core::ids::{JobId, MessageId, Sha, WorkerId};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_store::MemoryStore;
use journeyman_testkit::{Call, Tap, Tapped};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::hands::Workshop;
use super::world::{Line, World};
use crate::outage::Patience;
use crate::worker::{Desk, Limits, Worker};

/// As the service has them.
pub(super) const LIMITS: Limits = Limits {
    runs: 2,
    lease: Duration::from_secs(30),
    poll: Duration::from_millis(500),
    patience: Patience { outage: Duration::from_secs(600), refusal: Duration::from_secs(300) },
};

/// What outlives a crash of the machine.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The commits that it has.
    pub(super) mirror: BTreeSet<Sha>,
    pub(super) workspaces: BTreeMap<JobId, Workspace>,
}

#[derive(Debug, Clone)]
pub(super) struct Workspace {
    /// The commit that the marker names.
    pub(super) head: Sha,
    /// Whether the marker is there.
    pub(super) is_marked: bool,
    /// The archive of the session that the turn before left.
    pub(super) archive: Option<String>,
    /// The commit that is checked out.
    pub(super) own: Sha,
    pub(super) tree: Vec<Line>,
    pub(super) session: Vec<MessageId>,
}

/// A machine from its start to its death.
pub(super) struct Life {
    pub(super) world: Arc<World>,
    pub(super) disk: Arc<Mutex<Disk>>,
    number: usize,
    mortal: AtomicBool,
    dead: AtomicBool,
    /// Until when nothing moves.
    frozen: Mutex<Instant>,
    /// Until when the store cannot be reached.
    cut: Mutex<Instant>,
    /// Microseconds that the clock goes before the others.
    ahead: AtomicI64,
}

impl Life {
    pub(super) fn new(world: Arc<World>, disk: Arc<Mutex<Disk>>, number: usize) -> Arc<Self> {
        let (frozen, cut) = (Mutex::new(world.begun), Mutex::new(world.begun));
        let (mortal, dead, ahead) = (AtomicBool::new(true), AtomicBool::new(false), AtomicI64::new(0));
        Arc::new(Self { world, disk, number, mortal, dead, frozen, cut, ahead })
    }

    /// It never dies; requests to it are lost one by one.
    pub(super) fn serves_only(&self) {
        self.mortal.store(false, Ordering::SeqCst);
    }

    pub(super) fn die(&self, at: &'static str) {
        if !self.dead.swap(true, Ordering::SeqCst) {
            self.world.died(self.number, at);
        }
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn freeze(&self, length: Duration) {
        *self.frozen.lock().unwrap() = Instant::now() + length;
        self.world.tell(format!("machine {} is frozen for {length:?}", self.number));
    }

    fn cut_off(&self, length: Duration) {
        *self.cut.lock().unwrap() = Instant::now() + length;
        self.world.tell(format!("machine {} is cut off for {length:?}", self.number));
    }

    fn set_ahead(&self, micros: i64) {
        self.ahead.store(micros, Ordering::SeqCst);
        self.world.tell(format!("the clock of machine {} goes {} s ahead", self.number, micros / 1_000_000));
    }

    /// A moment between two things. What is there when it returns happens, whatever comes next.
    pub(super) async fn moment(&self, what: &'static str) {
        self.may_die(what, 100).await;
    }

    /// The same at a moment that seldom comes.
    pub(super) async fn rare_moment(&self, what: &'static str) {
        self.may_die(what, 10).await;
    }

    async fn may_die(&self, what: &'static str, one_in: u32) {
        self.pause().await;
        if self.mortal.load(Ordering::SeqCst) && self.world.fails(one_in) {
            self.die(what);
        }
        self.while_alive().await;
    }

    async fn while_alive(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    async fn pause(&self) {
        let most = if self.world.fails(30) { 5000 } else { 20 };
        tokio::time::sleep(self.world.up_to(Duration::from_millis(most))).await;
        loop {
            let until = *self.frozen.lock().unwrap();
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn reaches_store(&self) -> Result<(), StoreError> {
        if *self.cut.lock().unwrap() > Instant::now() {
            return Err(StoreError::Unavailable("cut off".to_owned()));
        }
        Ok(())
    }
}

impl Clock for Life {
    fn now(&self) -> Timestamp {
        let time = Timestamp::from_micros(1_800_000_000_000_000) + self.world.begun.elapsed();
        Timestamp::from_micros(time.as_micros() + self.ahead.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Tap for Life {
    async fn before(&self, call: Call<'_>) -> Result<(), StoreError> {
        self.moment(match call {
            Call::Read => "before a read",
            Call::Claim { .. } => "before a claim",
            Call::Update { .. } => "before a report",
            Call::Write => "before a write",
        })
        .await;
        self.reaches_store()?;
        if self.world.fails(100) { Err(StoreError::Unavailable("lost on the way".to_owned())) } else { Ok(()) }
    }

    async fn after(&self, call: Call<'_>) -> Result<(), StoreError> {
        self.moment(match call {
            Call::Claim { .. } => "after a claim",
            _ => "after a report",
        })
        .await;
        self.reaches_store().map_err(|_| StoreError::Unknown("cut off".to_owned()))?;
        if self.world.fails(100) { Err(StoreError::Unknown("lost on the way back".to_owned())) } else { Ok(()) }
    }

    async fn woken(&self) {
        self.pause().await;
        self.while_alive().await;
    }

    async fn look(&self) -> bool {
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.while_alive().await;
        true
    }
}

/// Keeps machine `number` running until `over`: what dies is started again.
pub(super) async fn supervise(world: Arc<World>, store: Arc<MemoryStore>, number: usize, over: CancellationToken) {
    let mut disk = Arc::new(Mutex::new(Disk::default()));
    while !over.is_cancelled() {
        if world.fails(8) {
            disk = Arc::default();
            world.tell(format!("machine {number} is a new one"));
        }
        let life = Life::new(Arc::clone(&world), Arc::clone(&disk), number);
        live(&life, &store, &over).await;
        // Nothing of it moves any more, whether it died or ended in order.
        life.dead.store(true, Ordering::SeqCst);
        if world.is_raging() {
            tokio::time::sleep(world.up_to(Duration::from_secs(40))).await;
        }
    }
}

async fn live(life: &Arc<Life>, store: &Arc<MemoryStore>, over: &CancellationToken) {
    let world = &life.world;
    let tapped: Arc<dyn Store> = Arc::new(Tapped::new(Arc::clone(store) as Arc<dyn Store>, Arc::clone(life)));
    let ids: Arc<dyn IdGen> = Arc::clone(world) as Arc<dyn IdGen>;
    let engine = Engine::new(Arc::clone(&tapped), Arc::clone(life) as Arc<dyn Clock>, Arc::clone(&ids));
    let executor = Arc::new(Workshop::new(Arc::clone(life)));
    let id = WorkerId::from_uuid(Uuid::from_u128(life.number as u128));
    let worker = Worker::at(Desk { engine, store: tapped, ids, executor }, id, LIMITS);
    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut work = tokio::spawn({
        let (drain, stop) = (drain.clone(), stop.clone());
        async move { worker.work(drain, stop).await }
    });
    while !life.is_dead() && !over.is_cancelled() {
        tokio::time::sleep(world.up_to(Duration::from_secs(2))).await;
        if world.fails(60) {
            life.die("from outside");
        } else if world.fails(60) {
            life.freeze(world.up_to(Duration::from_secs(100)));
        } else if world.fails(60) {
            life.cut_off(world.up_to(Duration::from_secs(100)));
        } else if world.fails(60) {
            life.set_ahead(i64::try_from(world.number(1_200_000_000)).unwrap() - 600_000_000);
        } else if world.fails(20) || !world.is_raging() {
            if life.ahead.load(Ordering::SeqCst) != 0 {
                life.set_ahead(0);
            }
        } else if world.fails(60) {
            world.tell(format!("machine {} shuts down", life.number));
            drain.cancel();
            stop.cancel();
            // The service manager does not wait for ever.
            let _ = tokio::time::timeout(Duration::from_secs(60), &mut work).await;
            life.die("while it shut down");
        }
    }
    work.abort();
}
