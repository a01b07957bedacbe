//! The stores of projects and of their holds.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::ProjectId;
use crate::project::hold::{Hold, HoldFailure};
use crate::project::{Project, RepositoryIdentity};
use crate::secret::SecretValue;
use crate::time::Timestamp;

/// Reads projects and their secrets.
#[async_trait]
pub trait ProjectStore: Send + Sync {
    /// Finds a project.
    async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError>;

    /// Returns all projects, sorted by ID.
    async fn projects(&self) -> Result<Vec<Project>, StoreError>;

    /// Returns the projects with an ID after `after`, sorted by ID, at most `limit`.
    async fn projects_after(&self, after: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, StoreError>;

    /// Decrypts and returns the secrets of a project, by name.
    async fn secrets(&self, id: ProjectId) -> Result<BTreeMap<String, SecretValue>, StoreError>;

    /// Decrypts and returns the values of a project's secrets that were changed or removed, as pairs of a name and a
    /// value, except those that no job that was created at `since` or later can have got. A value that no configured
    /// key decrypts is left out, and its row is in the log.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn retired_secrets(&self, id: ProjectId, since: Timestamp) -> Result<Vec<(String, SecretValue)>, StoreError>;

    /// Records the repository of a project, if the project has the address and no repository was seen there before.
    async fn identify_repository(&self, id: ProjectId, seen: RepositoryIdentity) -> Result<(), StoreError>;
}

/// Stores the holds of projects.
#[async_trait]
pub trait HoldStore: Send + Sync {
    /// Puts a project on hold, or updates its hold as [`Hold::after`] describes, and returns the resulting hold. `None`
    /// if the project does not exist.
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError>;

    /// Ends a project's hold. Idempotent.
    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError>;

    /// Makes the next probe of a project on hold due at `now`.
    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the projects that are on hold.
    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError>;
}
