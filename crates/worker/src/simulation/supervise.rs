//! Starts the process of a simulated machine again and again, and makes it fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_app::Outbox;
use journeyman_core::engine::Engine;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{EffectHandler, WorkStore};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::worker::{FORGOTTEN, WorkerReport, WorkerState};
use journeyman_store::MemoryStore;
use journeyman_testkit::Tapped;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::machine::{Disk, MachineProcess};
use super::steps::SimulatedMachine;
use super::world::World;
use crate::run::outcome::Patience;
use crate::worker::{Limits, Worker, WorkerDeps};

/// The limits of the worker, like those of the service.
const LIMITS: Limits = Limits {
    runs: 2,
    lease: Duration::from_secs(30),
    poll: Duration::from_millis(500),
    patience: Patience { outage: Duration::from_secs(1800), refusal: Duration::from_secs(300) },
};

/// Runs machine `number` until `over`: a process that has ended is started again.
pub(super) async fn supervise(world: Arc<World>, store: Arc<MemoryStore>, number: usize, over: CancellationToken) {
    let mut disk = Arc::new(Mutex::new(Disk::default()));
    while !over.is_cancelled() {
        if world.fails(8) {
            disk = Arc::default();
            world.log(format!("machine {number} is replaced by a new one"));
        }
        let process = MachineProcess::new(Arc::clone(&world), Arc::clone(&disk), number);
        run(&process, &store, &over).await;
        // No task of the process continues, whether it crashed or shut down.
        process.end();
        if world.has_faults() {
            tokio::time::sleep(world.up_to(Duration::from_secs(40))).await;
        }
    }
}

async fn run(process: &Arc<MachineProcess>, store: &Arc<MemoryStore>, over: &CancellationToken) {
    let world = &process.world;
    let tapped: Arc<dyn WorkStore> = Arc::new(Tapped::new(Arc::clone(store), Arc::clone(process)));
    let ids: Arc<dyn IdGen> = Arc::clone(world) as Arc<dyn IdGen>;
    let engine = Engine::new(Arc::clone(&tapped), Arc::clone(process) as Arc<dyn Clock>, Arc::clone(&ids));
    let machine = Arc::new(SimulatedMachine::new(Arc::clone(process)));
    let id = WorkerId::from_uuid(Uuid::from_u128(process.number as u128));
    let outbox = Outbox {
        store: Arc::clone(&tapped),
        clock: Arc::clone(process) as Arc<dyn Clock>,
        ids: Arc::clone(&ids),
        handler: Arc::clone(&machine) as Arc<dyn EffectHandler>,
    };
    let (reports, clock) = (Arc::clone(&tapped), Arc::clone(process));
    let effects = tokio::spawn(async move {
        loop {
            // An error of the store passes.
            let _ = outbox.carry_out_due().await;
            let report = WorkerReport { id, seen_at: clock.now(), state: WorkerState::default() };
            let _ = reports.report_worker(report, FORGOTTEN).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let worker = Worker::with_deps(WorkerDeps { engine, store: tapped, ids, machine }, id, LIMITS);
    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut work = tokio::spawn({
        let (drain, stop) = (drain.clone(), stop.clone());
        async move { worker.work(drain, stop).await }
    });
    while !process.has_ended() && !over.is_cancelled() {
        tokio::time::sleep(world.up_to(Duration::from_secs(2))).await;
        if world.fails(60) {
            process.crash("at a random time");
        } else if world.fails(60) {
            process.freeze(world.up_to(Duration::from_secs(100)));
        } else if world.fails(60) {
            process.cut_off(world.up_to(Duration::from_secs(100)));
        } else if world.fails(60) {
            process.set_clock_error(i64::try_from(world.number(1_200_000_000)).unwrap() - 600_000_000);
        } else if world.fails(20) || !world.has_faults() {
            if process.has_wrong_clock() {
                process.set_clock_error(0);
            }
        } else if world.fails(60) {
            world.log(format!("machine {} shuts down", process.number));
            drain.cancel();
            stop.cancel();
            // The service manager does not wait forever.
            let _ = tokio::time::timeout(Duration::from_secs(60), &mut work).await;
            process.crash("while the worker shuts down");
        }
    }
    work.abort();
    effects.abort();
}
