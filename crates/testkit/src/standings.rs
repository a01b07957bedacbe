//! Comparisons of pull requests with their bases, as a test chooses them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::{Comparison, Effort, NotCompared, Standings};
use journeyman_core::project::Project;
use journeyman_core::pull::standing::Standing;

/// Pull requests by their numbers. Others cannot be compared. Cheap to clone.
#[derive(Clone, Default)]
pub struct FakeStandings(Arc<Chosen>);

#[derive(Default)]
struct Chosen {
    standings: Mutex<BTreeMap<u64, Standing>>,
    is_refused: AtomicBool,
}

impl FakeStandings {
    /// Chooses how a pull request stands to its base.
    pub fn put(&self, number: u64, standing: Standing) {
        self.0.standings.lock().unwrap().insert(number, standing);
    }

    /// Chooses whether repositories can be read.
    pub fn refuse(&self, is_refused: bool) {
        self.0.is_refused.store(is_refused, Ordering::SeqCst);
    }
}

#[async_trait]
impl Standings for FakeStandings {
    async fn open(&self, _: &Project, _: Effort) -> Result<Box<dyn Comparison>, NotCompared> {
        if self.0.is_refused.load(Ordering::SeqCst) {
            return Err(NotCompared("the repository is unavailable".to_owned()));
        }
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Comparison for FakeStandings {
    async fn standing(&self, pull: &PullRef) -> Result<Option<Standing>, NotCompared> {
        Ok(self.0.standings.lock().unwrap().get(&pull.number).cloned())
    }
}
