//! Imports: the branches and tags of a repository elsewhere become those of an empty repository on the built-in code
//! host.
//!
//! Only the process that got the request has the credential, which is not stored, so this process carries the import
//! out. It renews a lease in the row of the project. If the process ends, the lease expires, and a person can start the
//! import again. [`ImportState::number`] is the fencing token: a process that has lost its lease, so that another import
//! has begun, can no longer change the row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::ProjectId;
use crate::time::{Timestamp, micros};

/// The time after which an import counts as interrupted if its process does not renew the lease.
pub const IMPORT_LEASE: Duration = Duration::from_secs(20);

/// The interval at which a process renews the lease of its import.
pub const RENEW_PERIOD: Duration = Duration::from_secs(5);

/// The longest time until the end of a lease. A lease that ends later was stored before a clock was set back, and
/// counts as expired.
const LONGEST_LEASE: Duration = Duration::from_secs(IMPORT_LEASE.as_secs() + 300);

/// The last import into the repository of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The project.
    pub project: ProjectId,
    /// The state, which is stored as JSON.
    pub state: ImportState,
    /// The number of the current version of the row, starting at 1. Every change increases it.
    pub version: u64,
}

/// The state of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportState {
    /// The number of the import among those of the project, starting at 1.
    pub number: u64,
    /// The address that the history comes from, without a credential.
    pub url: String,
    /// The time of the start.
    #[serde(with = "micros")]
    pub started_at: Timestamp,
    /// The stage.
    pub stage: ImportStage,
}

/// The stage of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ImportStage {
    /// A process carries out the import.
    Running {
        /// The end of the lease.
        #[serde(with = "micros")]
        until: Timestamp,
    },
    /// The import has failed; the repository is as it was before.
    Failed {
        /// The cause and the remedy, for people.
        cause: String,
    },
    /// The branches and tags are in the repository, and on disk.
    Finished {
        /// What was not copied, and the remedy, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_copied: Option<String>,
    },
}

/// The state of an import at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportProgress<'a> {
    /// A process carries out the import.
    Running,
    /// The process has ended, or cannot reach the database.
    Interrupted,
    /// The import has failed, for this cause.
    Failed(&'a str),
    /// The import has finished. The text says what was not copied.
    Finished(Option<&'a str>),
}

/// The reason why an import is not begun: another one is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an import into this repository is running; wait until it has ended")]
pub struct ImportIsRunning;

impl Import {
    /// Returns the row of a new import. `before` is the stored row of the project.
    ///
    /// # Errors
    /// Another import is running.
    pub fn begin(
        before: Option<&Self>,
        project: ProjectId,
        url: String,
        now: Timestamp,
    ) -> Result<Self, ImportIsRunning> {
        if before.is_some_and(|before| before.progress(now) == ImportProgress::Running) {
            return Err(ImportIsRunning);
        }
        let (number, version) = before.map_or((1, 1), |before| (before.state.number + 1, before.version + 1));
        let stage = ImportStage::Running { until: now + IMPORT_LEASE };
        Ok(Self { project, state: ImportState { number, url, started_at: now, stage }, version })
    }

    /// Returns what became of the import.
    #[must_use]
    pub fn progress(&self, now: Timestamp) -> ImportProgress<'_> {
        match &self.state.stage {
            ImportStage::Running { until } if now < *until && *until <= now + LONGEST_LEASE => ImportProgress::Running,
            ImportStage::Running { .. } => ImportProgress::Interrupted,
            ImportStage::Failed { cause } => ImportProgress::Failed(cause),
            ImportStage::Finished { not_copied } => ImportProgress::Finished(not_copied.as_deref()),
        }
    }

    /// Returns the next version of the row, with another stage.
    #[must_use]
    pub fn with(&self, stage: ImportStage) -> Self {
        let state = ImportState { stage, ..self.state.clone() };
        Self { project: self.project.clone(), state, version: self.version + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(before: Option<&Import>, now: Timestamp) -> Result<Import, ImportIsRunning> {
        Import::begin(before, "shop".parse().unwrap(), "https://git.example/a.git".to_owned(), now)
    }

    #[test]
    fn an_import_begins_unless_another_one_is_running() {
        let now = Timestamp::from_micros(1_000_000_000);
        let first = begun(None, now).unwrap();
        assert_eq!((first.state.number, first.version), (1, 1));
        assert_eq!(begun(Some(&first), now + Duration::from_secs(19)), Err(ImportIsRunning));

        let later = now + Duration::from_secs(15);
        let renewed = first.with(ImportStage::Running { until: later + IMPORT_LEASE });
        assert_eq!(begun(Some(&renewed), now + IMPORT_LEASE), Err(ImportIsRunning));
        assert_eq!(renewed.progress(later + IMPORT_LEASE), ImportProgress::Interrupted);
        let second = begun(Some(&renewed), later + IMPORT_LEASE).unwrap();
        assert_eq!((second.state.number, second.version), (2, 3));

        let failed = second.with(ImportStage::Failed { cause: "gone".to_owned() });
        assert_eq!(failed.progress(now), ImportProgress::Failed("gone"));
        assert_eq!(begun(Some(&failed), now).unwrap().state.number, 3);
        let finished = second.with(ImportStage::Finished { not_copied: Some("one".to_owned()) });
        assert_eq!(finished.progress(now), ImportProgress::Finished(Some("one")));
    }

    #[test]
    fn a_lease_from_before_a_clock_was_set_back_has_expired() {
        let now = Timestamp::from_micros(10_000_000_000);
        let import = begun(None, now).unwrap();
        assert_eq!(import.progress(now - Duration::from_secs(299)), ImportProgress::Running);
        assert_eq!(import.progress(now - Duration::from_secs(301)), ImportProgress::Interrupted);
    }

    #[test]
    fn the_stored_form_does_not_change() {
        let import = begun(None, Timestamp::from_micros(7)).unwrap();
        let stored = r#"{"number":1,"url":"https://git.example/a.git","started_at":7,"stage":{"is":"running","until":20000007}}"#;
        assert_eq!(serde_json::to_string(&import.state).unwrap(), stored);
        let finished = ImportStage::Finished { not_copied: None };
        assert_eq!(serde_json::to_string(&finished).unwrap(), r#"{"is":"finished"}"#);
        let partly = ImportStage::Finished { not_copied: Some("one".to_owned()) };
        for stage in [finished, partly, ImportStage::Failed { cause: "gone".to_owned() }, import.state.stage] {
            let text = serde_json::to_string(&stage).unwrap();
            assert_eq!(serde_json::from_str::<ImportStage>(&text).unwrap(), stage);
        }
    }
}
