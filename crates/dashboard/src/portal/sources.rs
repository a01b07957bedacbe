//! The sources of the pages of the documentation.

use super::examples::Regions;
use super::guides::Guide;
use super::spec::Spec;

/// The source of the content of a page.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Overview,
    Guide(&'static Guide),
    Reference,
    Events,
    Errors,
    /// An operation, by its position in the document.
    Operation(usize),
    Changelog,
}

/// The sources of all pages.
pub(super) struct Sources {
    pub(super) spec: Spec,
    pub(super) python: Regions,
    pub(super) typescript: Regions,
    /// The URL at which clients reach the service, for examples.
    pub(super) public_url: String,
}
