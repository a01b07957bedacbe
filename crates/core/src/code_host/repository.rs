//! A repository on a code host.

use crate::run::{Reason, ReasonCode};

/// A repository as its code host describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRepository {
    /// The ID, which stays the same when the repository is renamed. On the built-in host, the name.
    pub id: String,
    /// The current path, such as `owner/name`.
    pub path: String,
    /// The default branch; `None` for an empty repository on some hosts.
    pub default_branch: Option<String>,
    /// `true` if the credential may push; `None` if the host does not say.
    pub can_push: Option<bool>,
    /// `true` if the repository is read-only.
    pub is_archived: bool,
    /// The paths of the files that the host runs as pipelines, if its settings name other ones than the usual ones.
    pub ci_paths: Vec<String>,
}

impl HostRepository {
    /// Returns the reason why nothing can be pushed to the repository, if the host says so.
    #[must_use]
    pub fn read_only(&self) -> Option<Reason> {
        let path = &self.path;
        if self.is_archived {
            let text = format!("the repository {path} is archived, so it is read-only; unarchive it");
            return Some(Reason::new(ReasonCode::RepositoryArchived, text));
        }
        let text = || format!("the credential may read {path} but not push to it; give it write access");
        (self.can_push == Some(false)).then(|| Reason::new(ReasonCode::PermissionMissing, text()))
    }
}
