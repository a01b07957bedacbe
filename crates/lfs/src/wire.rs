//! The bodies of the batch API of Git LFS.
//!
//! Source: <https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md>.

use std::collections::BTreeMap;

use journeyman_core::lfs::Pointer;
use serde::{Deserialize, Serialize};

/// The content type of requests and answers.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.git-lfs+json";

/// A request.
#[derive(Debug, Serialize)]
pub(crate) struct Batch<'a> {
    pub(crate) operation: &'static str,
    pub(crate) transfers: [&'static str; 1],
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<Reference>,
    pub(crate) objects: Vec<Object<'a>>,
    pub(crate) hash_algo: &'static str,
}

/// The branch of a request.
#[derive(Debug, Serialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
}

/// An object of a request.
#[derive(Debug, Serialize)]
pub(crate) struct Object<'a> {
    pub(crate) oid: &'a str,
    pub(crate) size: u64,
}

impl<'a> From<&'a Pointer> for Object<'a> {
    fn from(pointer: &'a Pointer) -> Self {
        Self { oid: &pointer.oid, size: pointer.bytes }
    }
}

/// An answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) transfer: Option<String>,
    pub(crate) hash_algo: Option<String>,
    pub(crate) objects: Vec<Answered>,
}

/// An object of an answer.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Answered {
    pub(crate) oid: String,
    /// The next requests. Old servers use another name.
    #[serde(alias = "_links")]
    pub(crate) actions: Option<Actions>,
    pub(crate) error: Option<ObjectError>,
}

/// The next requests for an object.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Actions {
    pub(crate) download: Option<Action>,
    pub(crate) upload: Option<Action>,
    pub(crate) verify: Option<Action>,
}

/// A request that a server asks for.
#[derive(Clone, Deserialize)]
pub(crate) struct Action {
    pub(crate) href: String,
    pub(crate) header: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Action {
    /// Neither the URL nor the headers may be logged: both may contain credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Action").finish_non_exhaustive()
    }
}

/// The error of an object.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ObjectError {
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) message: String,
}

/// The body of an error.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) message: String,
}
