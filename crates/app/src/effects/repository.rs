//! The check that an effect reaches the repository that it is about.

use journeyman_core::code_host::PullRepository;
use journeyman_core::ports::{Forge, ForgeError};

/// Returns whether a pull request or issue of a repository is that of the project: the project may have another repository
/// now, with other pull requests and issues of the same numbers.
pub(crate) async fn is_at(forge: &dyn Forge, repository: &PullRepository) -> Result<bool, ForgeError> {
    Ok(forge.host() == repository.host && forge.repository().await?.id == repository.id)
}
