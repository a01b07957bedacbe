//! The objects of the built-in code host, for the host itself: upkeep, imports, and removed repositories.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::lfs::{POINTER_BYTES, Pointer, blob_folder};
use journeyman_core::ports::{
    HostedObjects, ImportedObjects, LfsError, LfsFailure, LfsObjects as _, LfsUpload, Reach, Remote,
};
use journeyman_core::time::Timestamp;
use journeyman_git::MaintenanceError;

use crate::Lfs;
use crate::disk::disk;
use crate::hosted::name_of;
use crate::lock::Lock;
use crate::upkeep::Upkeep;

/// The maximum number of objects that are copied at once.
const BATCH: usize = 100;

/// The number of bytes from which objects are not copied at once.
const BATCH_BYTES: u64 = 1 << 30;

/// The maximum number of objects of an import.
const MAX_OBJECTS: usize = 500_000;

/// The number of blobs that are listed at once.
const PAGE: usize = 1000;

/// The objects of the built-in code host, for the host itself. Cheap to clone.
#[derive(Clone)]
pub struct Keeper {
    lfs: Lfs,
    /// The folder for temporary files, which the next start of the service empties.
    scratch: PathBuf,
    /// Only one repository is measured at a time, so that there is one set of temporary files.
    upkeep: Arc<tokio::sync::Mutex<()>>,
}

impl Keeper {
    /// Returns the keeper of the objects that `lfs` finds. `scratch` is a folder for temporary files, which the next start
    /// of the service empties.
    #[must_use]
    pub fn new(lfs: Lfs, scratch: PathBuf) -> Self {
        Self { lfs, scratch, upkeep: Arc::default() }
    }

    /// Measures a repository of the built-in host and removes the objects that nothing names, if that is due.
    ///
    /// # Errors
    /// Git, the blob store or the disk failed. The repository can still be used.
    pub async fn maintain(&self, git_dir: &Path, now: Timestamp) -> Result<(), MaintenanceError> {
        let _one = self.upkeep.lock().await;
        let scratch = self.scratch.join(format!("{}.lfs-upkeep", name_of(git_dir)));
        tokio::fs::create_dir_all(&scratch).await?;
        let upkeep = Upkeep { git: &self.lfs.git, blobs: &*self.lfs.blobs, git_dir, now };
        let done = upkeep.carry_out(&scratch).await;
        tokio::fs::remove_dir_all(&scratch).await?;
        done
    }

    /// Returns the pointers of all files of a repository, and the number of those beyond [`MAX_OBJECTS`].
    async fn pointers(&self, repository: &Path, list: &Path) -> Result<(Vec<Pointer>, usize), MaintenanceError> {
        let (mut found, mut beyond) = (HashSet::new(), 0);
        let collect = |content: &[u8]| match Pointer::parse(content) {
            // An empty object needs no copy: its pointer is an empty file.
            Some(pointer) if pointer.bytes > 0 && !found.contains(&pointer) => match found.len() < MAX_OBJECTS {
                true => drop(found.insert(pointer)),
                false => beyond += 1,
            },
            _ => {}
        };
        self.lfs.git.small_blobs(repository, POINTER_BYTES, list, collect).await?;
        let mut found: Vec<Pointer> = found.into_iter().collect();
        found.sort_unstable_by(|one, other| one.oid.cmp(&other.oid));
        Ok((found, beyond))
    }
}

/// Returns the number of the first objects that are copied at once.
fn part_of(objects: &[Pointer]) -> usize {
    let mut bytes = 0_u64;
    let fits = |object: &&Pointer| {
        bytes = bytes.saturating_add(object.bytes);
        bytes <= BATCH_BYTES
    };
    objects.iter().take(BATCH).take_while(fits).count().max(1).min(objects.len())
}

impl ImportedOf<'_> {
    /// Copies objects that the repository does not have, and returns those that failed.
    async fn copy(&self, objects: &[Pointer], scratch: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        let missing = self.lfs.missing(&self.to, BRANCH, objects).await?;
        let missing: Vec<Pointer> = missing.into_iter().map(|failure| failure.pointer).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        tokio::fs::create_dir_all(scratch).await.map_err(|error| disk(&error))?;
        let mut failures = self.lfs.download(self.from, &missing, scratch).await?;
        let failed: HashSet<String> = failures.iter().map(|failure| failure.pointer.oid.clone()).collect();
        for pointer in missing.into_iter().filter(|pointer| !failed.contains(&pointer.oid)) {
            let file = scratch.join(&pointer.oid);
            let upload = LfsUpload { pointer, file };
            if let Err(error) = self.lfs.upload(&self.to, BRANCH, std::slice::from_ref(&upload)).await {
                failures.push(LfsFailure { pointer: upload.pointer, error });
            }
        }
        tokio::fs::remove_dir_all(scratch).await.map_err(|error| disk(&error))?;
        Ok(failures)
    }
}

/// The branch of uploads to the built-in host, which does not use it.
const BRANCH: &str = "main";

/// The two sides of an import.
struct ImportedOf<'a> {
    lfs: &'a Lfs,
    from: &'a Remote,
    to: Remote,
}

#[async_trait]
impl HostedObjects for Keeper {
    async fn import(
        &self,
        from: &Remote,
        staged: &Path,
        to: &Path,
        scratch: &Path,
    ) -> Result<ImportedObjects, LfsError> {
        let pointers = self.pointers(staged, &scratch.join("journeyman-blobs")).await;
        let (pointers, beyond) = pointers.map_err(|error| LfsError::Failed(error.to_string()))?;
        let url = to.to_string_lossy().into_owned();
        let sides = ImportedOf {
            lfs: &self.lfs,
            from,
            to: Remote { url, credential: None, is_ours: true, reach: Reach::Public },
        };
        let folder = scratch.join("journeyman-objects");
        let mut imported = ImportedObjects { failed: beyond, ..ImportedObjects::default() };
        let mut rest = pointers.as_slice();
        while !rest.is_empty() {
            let (part, later) = rest.split_at(part_of(rest));
            match sides.copy(part, &folder).await {
                Ok(failures) => {
                    imported.copied += part.len() - failures.len();
                    imported.failed += failures.len();
                    imported.example = imported.example.or_else(|| failures.into_iter().next());
                }
                Err(error) => {
                    // The server would refuse the others, too.
                    imported.failed += rest.len();
                    let pointer = part.first().cloned();
                    imported.example = imported.example.or(pointer.map(|pointer| LfsFailure { pointer, error }));
                    break;
                }
            }
            rest = later;
        }
        Ok(imported)
    }

    async fn remove(&self, name: &str, git_dir: &Path) -> Result<(), LfsError> {
        let failed = |error: &dyn std::fmt::Display| LfsError::Failed(error.to_string());
        let held = Lock::alone(git_dir).await.map_err(|error| failed(&error))?;
        let _held = held.ok_or_else(|| failed(&"an object of Git LFS is still being uploaded"))?;
        let blobs = &self.lfs.blobs;
        loop {
            let page = blobs.list(&blob_folder(name), None, PAGE).await.map_err(|error| failed(&error))?;
            for blob in &page {
                blobs.delete(&blob.key).await.map_err(|error| failed(&error))?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_objects_and_bytes_are_copied_at_once() {
        let objects = |sizes: &[u64]| -> Vec<Pointer> {
            let named = |(number, bytes): (usize, &u64)| Pointer { oid: format!("{number:064x}"), bytes: *bytes };
            sizes.iter().enumerate().map(named).collect()
        };
        assert_eq!(part_of(&objects(&[1])), 1);
        assert_eq!(part_of(&objects(&[u64::MAX, 1])), 1, "an object that is too large goes alone");
        assert_eq!(part_of(&objects(&[BATCH_BYTES - 1, 1, 1])), 2);
        assert_eq!(part_of(&objects(&[1; 250])), BATCH);
    }
}
