//! Tests of the leases and the counters of duties.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use journeyman_store::SqliteStore;
use journeyman_testkit::{StillTime, World};

use super::*;

struct Counted {
    scope: Scope,
    runs: Arc<AtomicU64>,
    fails: bool,
}

#[async_trait]
impl Duty for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        anyhow::ensure!(!self.fails, "the disk is full");
        Ok(())
    }
}

/// Returns a store whose writes take none of the paused time.
fn store() -> Arc<dyn Store> {
    Arc::new(StillTime::over(Arc::new(SqliteStore::temporary(World::new()).unwrap())))
}

/// Runs a duty in two processes for a minute and a half. Returns the number of runs, and the counters.
async fn two_processes(scope: Scope, fails: bool) -> (u64, Vec<DutyTotals>) {
    let (store, runs) = (store(), Arc::<AtomicU64>::default());
    let process = || {
        let duty = Counted { scope, runs: Arc::clone(&runs), fails };
        Duties::with(Arc::clone(&store), vec![Box::new(duty)])
    };
    let (first, second) = (process(), process());
    let both = async { tokio::join!(first.run(), second.run()) };
    let _ = tokio::time::timeout(Duration::from_secs(90), both).await;
    let totals = first.duties().into_iter().chain(second.duties()).collect();
    (runs.load(Ordering::SeqCst), totals)
}

#[tokio::test(start_paused = true)]
async fn one_process_carries_out_a_duty_of_the_installation() {
    let (runs, totals) = two_processes(Scope::Installation(Duration::from_secs(60)), false).await;
    assert_eq!(runs, 1);
    assert_eq!(totals.len(), 1);
    assert_eq!((totals[0].runs, totals[0].failures), (1, 0));
    assert!(totals[0].last_success.is_some());
}

#[tokio::test(start_paused = true)]
async fn each_process_carries_out_a_duty_of_the_machine() {
    let (runs, totals) = two_processes(Scope::Machine, false).await;
    assert_eq!((runs, totals.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_counted() {
    let (_, totals) = two_processes(Scope::Machine, true).await;
    assert!(totals.iter().all(|total| (total.runs, total.failures, total.last_success) == (1, 1, None)), "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_exceeds_its_lease_is_stopped() {
    let (runs, totals) = two_processes(Scope::Installation(Duration::from_secs(1)), false).await;
    assert!(runs >= 1);
    assert!(totals.iter().all(|total| total.failures == total.runs), "{totals:?}");
}

struct Panicking;

#[async_trait]
impl Duty for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        panic!("a row has no number")
    }
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_panicked_is_repeated() {
    let duties = Duties::with(store(), vec![Box::new(Panicking)]);
    let _ = tokio::time::timeout(Duration::from_secs(25), duties.run()).await;
    let totals = duties.duties();
    assert_eq!((totals[0].runs, totals[0].failures), (3, 3), "{totals:?}");
}
