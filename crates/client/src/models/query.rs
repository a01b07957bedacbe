//! Filters of lists and reports.

use std::collections::BTreeMap;

use super::job::Status;

/// A filter of jobs. Without any condition, it selects all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobFilter {
    /// The status.
    pub status: Option<Status>,
    /// The time after which the jobs were created (ISO 8601).
    pub created_after: Option<String>,
    /// The time before which the jobs were created (ISO 8601).
    pub created_before: Option<String>,
    /// A text that the title contains.
    pub q: Option<String>,
    /// Labels, all of which the jobs have.
    pub labels: Vec<String>,
    /// Entries of the metadata, all of which the jobs have.
    pub metadata: BTreeMap<String, String>,
    /// The agent.
    pub agent: Option<String>,
    /// The author of the first message.
    pub author: Option<String>,
    /// The branch that the jobs work on.
    pub branch: Option<String>,
    /// The number of a pull request that the jobs have worked on.
    pub pull_request: Option<u64>,
}

impl JobFilter {
    /// Returns a filter that selects all jobs. Set its fields to narrow it.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let single = [
            ("status", self.status.as_ref().map(ToString::to_string)),
            ("createdAfter", self.created_after.clone()),
            ("createdBefore", self.created_before.clone()),
            ("q", self.q.clone()),
            ("agent", self.agent.clone()),
            ("author", self.author.clone()),
            ("branch", self.branch.clone()),
            ("pullRequest", self.pull_request.map(|number| number.to_string())),
        ];
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let labels = self.labels.iter().map(|label| ("label", label.clone()));
        let metadata = self.metadata.iter().map(|(key, value)| ("metadata", format!("{key}:{value}")));
        single.chain(labels).chain(metadata).collect()
    }
}

/// The period, the groups and the filter of a report on usage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsageQuery {
    /// The first day in UTC, such as `2026-07-01`; by default, 29 days before the last one.
    pub from: Option<String>,
    /// The last day in UTC; by default, today.
    pub to: Option<String>,
    /// The properties by which lines group runs: `day`, `project`, `model`, `author` or `key`. Without any, there is
    /// one line.
    pub group_by: Vec<String>,
    /// The projects of the runs; all projects if it is empty.
    pub projects: Vec<String>,
    /// The model of the jobs.
    pub model: Option<String>,
    /// The author of the messages.
    pub author: Option<String>,
    /// The ID of the API key that sent the messages.
    pub key: Option<String>,
}

impl UsageQuery {
    /// Returns a query for one line with the usage of the last 30 days.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let single = [
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("model", self.model.clone()),
            ("author", self.author.clone()),
            ("key", self.key.clone()),
        ];
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let groups = self.group_by.iter().map(|group| ("groupBy", group.clone()));
        let projects = self.projects.iter().map(|project| ("project", project.clone()));
        single.chain(groups).chain(projects).collect()
    }
}
