//! The maintenance of the repositories of the built-in host: objects and refs are packed, and unreachable objects are removed,
//! except for those that pages of pull requests show.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use journeyman_core::hosted_storage::{HostedStorage, RECORD, StorageRecord};
use journeyman_core::time::Timestamp;
use journeyman_git::{MaintenanceError, RepositoryMaintenance, pairs};

use super::{LocalHost, blocking};
use crate::copy::repository_names;

/// The refs that keep the commits of ended pull requests whose branches do not have them. Clients neither see nor change
/// them.
const KEPT: &str = "refs/journeyman/pulls";

impl LocalHost {
    /// Returns the names of all repositories.
    ///
    /// # Errors
    /// The folder of the repositories cannot be read.
    pub async fn names(&self) -> io::Result<Vec<String>> {
        let folder = self.repositories.clone();
        blocking(move || repository_names(&folder)).await
    }

    /// Returns the last measurement of a repository; `None` if there is none.
    pub(crate) async fn storage(&self, name: &str) -> Option<StorageRecord> {
        StorageRecord::read(&tokio::fs::read_to_string(self.path(name).join(RECORD)).await.ok()?)
    }

    /// Returns the space that all repositories take, according to their last measurements.
    ///
    /// # Errors
    /// The folder of the repositories cannot be read.
    pub async fn storage_of_all(&self) -> io::Result<HostedStorage> {
        let mut all = HostedStorage::default();
        for name in self.names().await? {
            all += self.storage(&name).await.map(|record| record.storage).unwrap_or_default();
        }
        Ok(all)
    }

    /// Does what is due in a repository, while people and jobs use it.
    ///
    /// # Errors
    /// Git, the disk or the store failed. The repository can still be used.
    pub async fn maintain(&self, name: &str, now: Timestamp) -> Result<(), MaintenanceError> {
        let path = self.path(name);
        let Some(mut maintenance) = RepositoryMaintenance::begin(&self.git, &path, now).await? else { return Ok(()) };
        maintenance.pack_objects().await?;
        let changes = if maintenance.removes() { self.refs_of_pulls(name).await? } else { Vec::new() };
        maintenance.pack_refs(changes).await?;
        maintenance.remove_unreachable().await
    }

    /// Returns the changes of refs after which the commits between which pull requests have ended are kept: their
    /// branches may have been deleted, or moved by force.
    async fn refs_of_pulls(&self, name: &str) -> Result<Vec<u8>, MaintenanceError> {
        let path = self.path(name);
        let pulls = self.pulls.pulls(name.to_owned()).await.map_err(io::Error::other)?;
        let ends = pulls.into_iter().filter_map(|pull| Some((pull.number, pull.ended_between?)));
        let ends: Vec<_> =
            ends.flat_map(|(number, (base, head))| [(number, "base", base), (number, "head", head)]).collect();
        let input: String = ends.iter().map(|(.., commit)| format!("{commit}\n")).collect();
        let arguments = ["rev-list", "--ignore-missing", "--stdin", "--not", "--branches", "--tags"];
        let lost = self.git.at(&path, arguments).stdin(input).run().await?.shas()?;
        let lost: BTreeSet<_> = lost.into_iter().collect();
        let needed: BTreeMap<String, String> = ends
            .into_iter()
            .filter(|(.., commit)| lost.contains(commit))
            .map(|(number, end, commit)| (format!("{KEPT}/{number}/{end}"), commit.to_string()))
            .collect();
        let listed = self.git.at(&path, ["for-each-ref", "--format=%(objectname) %(refname)", KEPT]).run().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let kept: BTreeMap<String, String> =
            pairs(&listed.stdout, b' ').map(|(at, name)| (text(name), text(at))).collect();
        let new = needed.iter().filter(|(name, at)| kept.get(*name) != Some(*at));
        let changes = new.map(|(name, at)| format!("update {name} {at}\n"));
        let old = kept.keys().filter(|name| !needed.contains_key(*name)).map(|name| format!("delete {name}\n"));
        Ok(changes.chain(old).collect::<String>().into_bytes())
    }
}
