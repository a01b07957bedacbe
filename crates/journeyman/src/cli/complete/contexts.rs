//! Completions of the names of contexts. They come from a file of the user and not from the server.

use clap_complete::engine::CompletionCandidate;

use super::super::contexts::ContextFile;
use super::super::look::plain;
use super::super::words::short;
use crate::config::client_environment;

/// Returns the names of the contexts, with their URLs.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let contexts = ContextFile::read_of(&client_environment()).unwrap_or_default().contexts;
    contexts.into_iter().map(|(name, context)| described(&name, &context.url)).collect()
}

/// Returns a name with a description, which some shells show beside it.
pub(super) fn described(name: &str, text: &str) -> CompletionCandidate {
    let text = short(&plain(text).replace(['\n', '\t'], " "), 60);
    CompletionCandidate::new(plain(name)).help(Some(text.into()))
}
