//! The objects of Git LFS of a code host, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use journeyman_core::lfs::{Hasher, Pointer};
use journeyman_core::ports::{HostedObjects, ImportedObjects, LfsError, LfsFailure, LfsObjects, LfsUpload, Remote};

/// The objects of one repository.
#[derive(Debug, Default)]
pub struct FakeLfs {
    stored: Mutex<BTreeMap<String, Vec<u8>>>,
    error: Mutex<Option<LfsError>>,
    requests: Mutex<usize>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeLfs {
    /// Stores an object, and returns its pointer.
    pub fn store(&self, content: &[u8]) -> Pointer {
        let mut hasher = Hasher::default();
        hasher.update(content);
        let pointer = hasher.pointer();
        locked(&self.stored).insert(pointer.oid.clone(), content.to_vec());
        pointer
    }

    /// Returns the content of an object.
    #[must_use]
    pub fn content(&self, oid: &str) -> Option<Vec<u8>> {
        locked(&self.stored).get(oid).cloned()
    }

    /// Removes an object.
    pub fn remove(&self, oid: &str) {
        locked(&self.stored).remove(oid);
    }

    /// Lets each request fail, until another value is set.
    pub fn fail(&self, error: Option<LfsError>) {
        *locked(&self.error) = error;
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        *locked(&self.requests)
    }

    fn begin(&self) -> Result<(), LfsError> {
        *locked(&self.requests) += 1;
        locked(&self.error).clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl LfsObjects for FakeLfs {
    async fn download(&self, _: &Remote, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        self.begin()?;
        let mut failures = Vec::new();
        for pointer in objects {
            match self.content(&pointer.oid) {
                Some(content) => std::fs::write(folder.join(&pointer.oid), content).unwrap(),
                None => failures.push(LfsFailure { pointer: pointer.clone(), error: LfsError::Missing }),
            }
        }
        Ok(failures)
    }

    async fn missing(&self, _: &Remote, _: &str, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        self.begin()?;
        let missing = objects.iter().filter(|pointer| self.content(&pointer.oid).is_none());
        Ok(missing.map(|pointer| LfsFailure { pointer: pointer.clone(), error: LfsError::Missing }).collect())
    }

    async fn upload(&self, _: &Remote, _: &str, objects: &[LfsUpload]) -> Result<(), LfsError> {
        self.begin()?;
        for LfsUpload { pointer, file } in objects {
            assert_eq!(self.store(&std::fs::read(file).unwrap()), *pointer);
        }
        Ok(())
    }
}

/// The objects of the built-in code host, for tests without objects.
#[derive(Debug, Default)]
pub struct FakeHostedObjects {
    imported: Mutex<Option<Result<ImportedObjects, LfsError>>>,
    removal_error: Mutex<Option<LfsError>>,
    removed: Mutex<Vec<String>>,
}

impl FakeHostedObjects {
    /// Sets the result of imports. Without one, they find no objects.
    pub fn import_as(&self, result: Result<ImportedObjects, LfsError>) {
        *locked(&self.imported) = Some(result);
    }

    /// Lets each removal fail, until another value is set.
    pub fn fail_removals(&self, error: Option<LfsError>) {
        *locked(&self.removal_error) = error;
    }

    /// Returns the names of the repositories whose objects were removed.
    #[must_use]
    pub fn removed(&self) -> Vec<String> {
        locked(&self.removed).clone()
    }
}

#[async_trait]
impl HostedObjects for FakeHostedObjects {
    async fn import(&self, _: &Remote, _: &Path, _: &Path, _: &Path) -> Result<ImportedObjects, LfsError> {
        locked(&self.imported).clone().unwrap_or_else(|| Ok(ImportedObjects::default()))
    }

    async fn remove(&self, name: &str, _: &Path) -> Result<(), LfsError> {
        if let Some(error) = locked(&self.removal_error).clone() {
            return Err(error);
        }
        locked(&self.removed).push(name.to_owned());
        Ok(())
    }
}
