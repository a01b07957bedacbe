//! The operator's rules for bodies.

use std::collections::BTreeSet;

use super::super::fields::FieldGroup;

/// The operator's rules for bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// `true` if parts that reach beyond the sandbox are allowed.
    pub(crate) hosted_tools: bool,
    /// The groups of fields that are allowed.
    pub(crate) groups: BTreeSet<FieldGroup>,
    /// More fields that are passed on.
    pub(crate) fields: BTreeSet<String>,
    /// The output limit in tokens for bodies that do not set one.
    pub(crate) max_output: Option<u64>,
    /// The context window in tokens for bodies to Ollama that do not set it.
    pub(crate) context_tokens: Option<u64>,
    /// `true` if the server is OpenAI's, which has a different name for the output limit.
    pub(crate) is_openai: bool,
}
