//! The cost of model calls, in memory.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::model::price::Budgets;
use journeyman_core::ports::{Spend, SpendError, SpendingStore, StoreError};

use super::{MemoryStore, Tables};
use crate::spending::{check_budgets, sums};

impl Tables {
    fn held(&self, spend: &Spend) -> [i64; 3] {
        sums(spend)
            .map(|sum| self.spending.get(&(spend.project.clone(), sum.kind, sum.subject)).copied().unwrap_or_default())
    }
}

#[async_trait]
impl SpendingStore for MemoryStore {
    async fn spend(&self, spend: Spend) -> Result<(), SpendError> {
        let mut tables = self.tables();
        check_budgets(&spend, tables.held(&spend))?;
        if tables.projects.contains_key(&spend.project) {
            for sum in sums(&spend) {
                let held = tables.spending.entry((spend.project.clone(), sum.kind, sum.subject)).or_default();
                *held = held.saturating_add(spend.micros).max(0);
            }
        }
        Ok(())
    }

    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError> {
        let held = self.tables().held(&Spend { project, job, day, micros: 0, budgets: Budgets::default() });
        Ok(held.map(|held| u64::try_from(held).unwrap_or(0)))
    }
}
