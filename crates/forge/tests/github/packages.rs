//! The packages with GitHub's descriptions of its interfaces and its examples of webhooks.

use std::path::PathBuf;

use serde_json::Value;

use crate::described::description::read_json;

/// The folder of the test's packages.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/github");

/// Returns the path of a file in a package.
pub(crate) fn packaged(file: &str) -> PathBuf {
    PathBuf::from(FOLDER).join("node_modules/@octokit").join(file)
}

/// Reads a JSON file of a package.
pub(crate) fn read(file: &str) -> Value {
    read_json(&packaged(file))
}
