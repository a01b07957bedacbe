//! The blobs in a backup.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use journeyman_core::lfs::HOSTED;
use journeyman_core::ports::Blobs;
use journeyman_worker::{BLOB_FOLDERS, OBJECT, left_out_key};

/// The number of blobs that are listed at a time.
const PAGE: usize = 1000;

/// Copies all blobs that exist now into the folder `to`; returns their keys.
pub(super) async fn copy_all(blobs: &dyn Blobs, to: &Path) -> anyhow::Result<BTreeSet<String>> {
    copy_folders(blobs, &BLOB_FOLDERS, to).await
}

/// Copies the objects of Git LFS of the built-in code host into the folder `to`; returns their number. Called after the
/// repositories were copied: a client uploads objects before it pushes.
pub(super) async fn copy_hosted(blobs: &dyn Blobs, to: &Path) -> anyhow::Result<usize> {
    Ok(copy_folders(blobs, &[HOSTED], to).await?.len())
}

async fn copy_folders(blobs: &dyn Blobs, folders: &[&str], to: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut copied = BTreeSet::new();
    for folder in folders {
        let mut after: Option<String> = None;
        loop {
            let page = blobs.list(folder, after.as_deref(), PAGE).await?;
            for blob in &page {
                // A blob that was removed after it was listed is no longer needed.
                if copy(blobs, &blob.key, to).await? {
                    copied.insert(blob.key.clone());
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.key.clone()),
                _ => break,
            }
        }
    }
    Ok(copied)
}

/// Completes the folder `to`, so that it contains exactly the needed blobs: fetches those that were added since
/// [`copy_all`], and removes those that are not needed. Returns the keys of needed blobs that no longer exist.
pub(super) async fn complete(
    blobs: &dyn Blobs,
    to: &Path,
    copied: &BTreeSet<String>,
    needed: &BTreeSet<String>,
) -> anyhow::Result<Vec<String>> {
    let mut missing = Vec::new();
    for key in needed.difference(copied) {
        if !copy(blobs, key, to).await? {
            missing.push(key.clone());
        }
    }
    // Few sessions have files that were left out of their commits.
    let [sessions, _] = BLOB_FOLDERS;
    let left_out: BTreeSet<String> =
        needed.iter().filter(|key| key.starts_with(sessions)).map(|key| left_out_key(key)).collect();
    for key in left_out.difference(copied) {
        copy(blobs, key, to).await?;
    }
    // Objects of Git LFS that are not on the code host yet belong to the commits of bundles.
    let is_needed = |key: &&String| key.ends_with(OBJECT) || left_out.contains(*key);
    for key in copied.difference(needed).filter(|key| !is_needed(key)) {
        let path = to.join(key);
        std::fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        // Remove the folder with its last file.
        let _ = path.parent().map(std::fs::remove_dir);
    }
    Ok(missing)
}

async fn copy(blobs: &dyn Blobs, key: &str, to: &Path) -> anyhow::Result<bool> {
    let path = to.join(key);
    let folder = path.parent().unwrap_or(to);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if blobs.get(key, &path).await.with_context(|| format!("the blob {key} cannot be read"))? {
        return Ok(true);
    }
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir(folder);
    Ok(false)
}

/// Puts a file of the backup into the blob store. `draft` is the path of a temporary copy, because the store removes
/// the file that it is given.
pub(super) async fn put(blobs: &dyn Blobs, key: &str, file: &Path, draft: PathBuf) -> anyhow::Result<()> {
    std::fs::copy(file, &draft).with_context(|| format!("{} cannot be written", draft.display()))?;
    blobs.put(key, &draft).await.with_context(|| format!("the blob {key} cannot be restored"))
}

/// Returns whether the blob store is empty.
pub(super) async fn is_empty(blobs: &dyn Blobs) -> anyhow::Result<bool> {
    for folder in BLOB_FOLDERS.into_iter().chain([HOSTED]) {
        if !blobs.list(folder, None, 1).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use journeyman_blobs::Folder;

    use super::*;

    #[tokio::test]
    async fn needed_blobs_are_copied_even_if_they_are_removed_during_the_backup() {
        let dir = tempfile::tempdir().unwrap();
        let (store, to) = (dir.path().join("store"), dir.path().join("backup"));
        let blobs = Folder::new(store, false);
        let write = async |key: &str| {
            let file = dir.path().join("file");
            std::fs::write(&file, key).unwrap();
            blobs.put(key, &file).await.unwrap();
        };
        for key in
            ["sessions/a/1.tar.gz", "sessions/b/1.tar.gz", "sessions/b/1-left-out.tar.gz", "bundles/b/1-x.bundle"]
        {
            write(key).await;
        }
        let copied = copy_all(&blobs, &to).await.unwrap();
        // A turn ends: it writes its session, and removes the previous one.
        write("sessions/a/2.tar.gz").await;
        write("sessions/a/2-left-out.tar.gz").await;
        blobs.delete("sessions/a/1.tar.gz").await.unwrap();
        let needed = ["sessions/a/1.tar.gz", "sessions/a/2.tar.gz", "sessions/c/1.tar.gz"];
        let needed = needed.map(str::to_owned).into();
        let missing = complete(&blobs, &to, &copied, &needed).await.unwrap();
        assert_eq!(missing, ["sessions/c/1.tar.gz"]);
        assert_eq!(std::fs::read_to_string(to.join("sessions/a/1.tar.gz")).unwrap(), "sessions/a/1.tar.gz");
        assert_eq!(std::fs::read_to_string(to.join("sessions/a/2.tar.gz")).unwrap(), "sessions/a/2.tar.gz");
        assert!(to.join("sessions/a/2-left-out.tar.gz").exists(), "what was left out belongs to the session");
        // The objects of Git LFS: those of commits that are not pushed, and those of the built-in code host.
        for key in ["bundles/b/1-x.7.lfs", "lfs/shop/x"] {
            write(key).await;
        }
        let copied = copy_all(&blobs, &to).await.unwrap();
        complete(&blobs, &to, &copied, &needed).await.unwrap();
        assert_eq!(copy_hosted(&blobs, &to).await.unwrap(), 1);
        assert!(to.join("bundles/b/1-x.7.lfs").exists() && to.join("lfs/shop/x").exists());
        assert!(!to.join("sessions/b").exists() && !to.join("sessions/c").exists(), "no job needs them");
    }
}
