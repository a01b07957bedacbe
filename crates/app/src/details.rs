//! Details of jobs: the job with its attributes, usage and pull requests, and the hold of its project.

use std::collections::BTreeMap;

use journeyman_core::job::Job;
use journeyman_core::job::label::Attribute;
use journeyman_core::message::Message;
use journeyman_core::ports::{JobExtras, JobFilter, StoreError};
use journeyman_core::project::hold::Hold;
use journeyman_core::pull::IndexedPull;
use journeyman_core::run::{Reason, Usage};

use crate::{Caller, Error, UseCases};

/// A job with the data about it that is not in its document.
#[derive(Debug, Clone, PartialEq)]
pub struct DetailedJob {
    /// The job.
    pub job: Job,
    /// The hold of its project.
    pub hold: Option<Hold>,
    /// The sender of the first message.
    pub author: Option<String>,
    /// The labels, sorted.
    pub labels: Vec<String>,
    /// The metadata.
    pub metadata: BTreeMap<String, String>,
    /// The usage of all runs.
    pub usage: Usage,
    /// The pull requests, oldest first.
    pub pulls: Vec<IndexedPull>,
}

impl DetailedJob {
    /// Combines a job and its extras.
    #[must_use]
    pub fn new(job: Job, extras: JobExtras) -> Self {
        let JobExtras { attributes, usage, pulls, hold } = extras;
        let (labels, metadata) = (Vec::new(), BTreeMap::new());
        let mut detailed = Self { job, hold, author: None, labels, metadata, usage, pulls };
        for attribute in attributes {
            match attribute {
                Attribute::Label(label) => detailed.labels.push(label),
                Attribute::Metadata(key, value) => drop(detailed.metadata.insert(key, value)),
                Attribute::Author(author) => detailed.author = Some(author),
                // The job has its agent.
                Attribute::Agent(_) => {}
            }
        }
        detailed
    }
}

impl UseCases {
    /// Returns the reason why the last run of a message failed or was stopped, if there is one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn reason_of(&self, message: &Message) -> Result<Option<Reason>, StoreError> {
        let Some(id) = message.run else { return Ok(None) };
        Ok(self.parts().store.run(id).await?.and_then(|run| run.reason))
    }

    /// Returns the jobs that a filter selects among those that the caller may see, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find_jobs(&self, caller: &Caller, filter: JobFilter) -> Result<Vec<DetailedJob>, Error> {
        let projects = caller.visible(filter.projects.clone());
        let jobs = self.parts().store.jobs(JobFilter { projects, ..filter }).await?;
        Ok(self.detailed(jobs).await?)
    }

    /// Reads the data about jobs that is not in their documents.
    ///
    /// # Errors
    /// The store failed.
    pub async fn detailed(&self, jobs: Vec<Job>) -> Result<Vec<DetailedJob>, StoreError> {
        let store = &self.parts().store;
        let mut extras = store.extras_of_jobs(jobs.iter().map(|job| job.id).collect()).await?;
        let mut detail = |job: Job| {
            let extras = extras.remove(&job.id).unwrap_or_default();
            DetailedJob::new(job, extras)
        };
        Ok(jobs.into_iter().map(&mut detail).collect())
    }
}
