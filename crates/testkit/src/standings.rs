//! Comparisons of pull requests with their bases, as a test chooses them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::{Comparison, Effort, NotCompared, Standings};
use journeyman_core::project::Project;
use journeyman_core::pull::standing::Standing;

/// Pull requests by their numbers. Others cannot be compared. Cheap to clone.
#[derive(Clone, Default)]
pub struct FakeStandings(Arc<Mutex<BTreeMap<u64, Standing>>>);

impl FakeStandings {
    /// Chooses how a pull request stands to its base.
    pub fn put(&self, number: u64, standing: Standing) {
        self.0.lock().unwrap().insert(number, standing);
    }
}

#[async_trait]
impl Standings for FakeStandings {
    async fn open(&self, project: &Project, _: Effort) -> Result<Box<dyn Comparison>, NotCompared> {
        match project.repository.as_str() {
            "local:unreadable" => Err(NotCompared("the repository is unavailable".to_owned())),
            _ => Ok(Box::new(self.clone())),
        }
    }
}

#[async_trait]
impl Comparison for FakeStandings {
    async fn standing(&self, pull: &PullRef) -> Result<Option<Standing>, NotCompared> {
        Ok(self.0.lock().unwrap().get(&pull.number).cloned())
    }
}
