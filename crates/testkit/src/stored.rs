//! Resources as a store has them, for tests.

use journeyman_core::ids::ProjectId;
use journeyman_core::ports::ResourceStore;
use journeyman_core::resource::Resource;

/// Finds a resource.
///
/// # Panics
/// If the store fails.
pub async fn stored<R: Resource>(store: &(impl ResourceStore<R> + ?Sized), id: R::Id) -> Option<R> {
    store.resource(id).await.unwrap()
}

/// Returns the resources of a project if they belong to one, or else all.
///
/// # Panics
/// If the store fails.
pub async fn all_stored<R: Resource>(store: &(impl ResourceStore<R> + ?Sized), project: Option<ProjectId>) -> Vec<R> {
    store.resources(project).await.unwrap()
}
