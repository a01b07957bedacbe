//! Comparisons of pull requests with their bases, as a test chooses them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use journeyman_core::code_host::PullRef;
use journeyman_core::ports::{BaseComparisons, Effort, NotCompared, OpenedRepository};
use journeyman_core::project::Project;
use journeyman_core::pull::base_comparison::BaseComparison;
use journeyman_core::pull::compared::{Compared, NoComparison};

/// Pull requests by their numbers. Others cannot be compared. Cheap to clone.
#[derive(Clone, Default)]
pub struct FakeComparisons(Arc<Chosen>);

#[derive(Default)]
struct Chosen {
    comparisons: Mutex<BTreeMap<u64, BaseComparison>>,
    is_refused: AtomicBool,
}

impl FakeComparisons {
    /// Chooses how a pull request compares with its base.
    pub fn put(&self, number: u64, comparison: BaseComparison) {
        self.0.comparisons.lock().unwrap().insert(number, comparison);
    }

    /// Chooses whether repositories can be read.
    pub fn refuse(&self, is_refused: bool) {
        self.0.is_refused.store(is_refused, Ordering::SeqCst);
    }
}

#[async_trait]
impl BaseComparisons for FakeComparisons {
    async fn open(&self, _: &Project, _: Effort) -> Result<Box<dyn OpenedRepository>, NotCompared> {
        if self.0.is_refused.load(Ordering::SeqCst) {
            return Err(NotCompared("the repository is unavailable".to_owned()));
        }
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl OpenedRepository for FakeComparisons {
    async fn compare(&self, pull: &PullRef) -> Result<Compared, NotCompared> {
        let chosen = self.0.comparisons.lock().unwrap().get(&pull.number).cloned();
        Ok(chosen.ok_or(NoComparison::BranchMissing))
    }
}
