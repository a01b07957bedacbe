//! The sums of the usage of models.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::{KeyId, ProjectId, RunId};
use journeyman_core::job::Job;
use journeyman_core::model::price::day;
use journeyman_core::ports::{StoreError, UsageStore};
use journeyman_core::usage::{UsageGroup, UsageLine, UsageQuery, UsageSum};

use super::{MemoryStore, Tables};

/// The key of a sum: day, project, model, author and API key.
pub(super) type Place = (i64, ProjectId, String, String, Option<KeyId>);

/// The text of an optional property, which sorts like the column of a database.
type Line = (Option<i64>, Option<ProjectId>, Option<String>, Option<String>, Option<KeyId>);

impl Tables {
    pub(super) fn add_sum(&mut self, job: &Job, run: RunId, sum: &UsageSum) {
        let Some(run) = self.runs.iter().find(|known| known.id == run) else { return };
        let Some(finished_at) = run.finished_at else { return };
        let message = self.messages.iter().find(|message| message.id == run.message);
        let author = message.and_then(|message| message.author.clone()).unwrap_or_default();
        let key = message.and_then(|message| message.key);
        let place = (day(finished_at), job.project.clone(), job.model.clone(), author, key);
        let known = self.usage.entry(place).or_default();
        *known = known.plus(sum);
    }
}

#[async_trait]
impl UsageStore for MemoryStore {
    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageLine>, StoreError> {
        let by = |group| query.groups.contains(&group);
        let mut lines: BTreeMap<Line, UsageSum> = BTreeMap::new();
        for ((day, project, model, author, key), sum) in &self.tables().usage {
            let is_selected = (query.first_day..=query.last_day).contains(day)
                && query.projects.as_ref().is_none_or(|projects| projects.contains(project))
                && query.model.as_ref().is_none_or(|wanted| wanted == model)
                && query.author.as_ref().is_none_or(|wanted| wanted == author)
                && query.key.is_none_or(|wanted| *key == Some(wanted));
            if !is_selected {
                continue;
            }
            let line = (
                by(UsageGroup::Day).then_some(*day),
                by(UsageGroup::Project).then(|| project.clone()),
                by(UsageGroup::Model).then(|| model.clone()).filter(|model| !model.is_empty()),
                by(UsageGroup::Author).then(|| author.clone()).filter(|author| !author.is_empty()),
                key.filter(|_| by(UsageGroup::Key)),
            );
            let known = lines.entry(line).or_default();
            *known = known.plus(sum);
        }
        let lines = lines.into_iter().take(query.limit);
        let line = |((day, project, model, author, key), sum)| UsageLine { day, project, model, author, key, sum };
        Ok(lines.map(line).collect())
    }
}
