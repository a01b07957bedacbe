//! A backup of an installation: a folder with its database, the repositories of the built-in code host, its blobs, and
//! a manifest, which is written last. `docs/decisions/0027-backup.md` explains the order of the copies.

mod blobs;
mod create;
mod files;
mod layout;
mod manifest;
mod restore;

pub(crate) use self::create::{Created, create};
pub(crate) use self::manifest::{BlobsNote, Manifest};
pub(crate) use self::restore::{Restored, restore, verify};
