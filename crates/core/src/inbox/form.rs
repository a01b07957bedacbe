//! The form in which texts of a code host become part of a prompt, and the prompt that is made of them.

use crate::message::SourceFile;

use super::files::{Files, HostPages};
use super::text::Dialect;

/// The form in which texts of a code host become part of a prompt.
#[derive(Debug)]
pub struct Form<'a> {
    /// The dialect of the host.
    pub dialect: Dialect,
    /// A random word, so that no text can end the blocks of text that is not an instruction.
    pub boundary: &'a str,
    /// The files of the texts that were written so far.
    pub files: Files<'a>,
}

impl<'a> Form<'a> {
    /// Returns a form. Without the pages of the host, files are not collected.
    #[must_use]
    pub const fn new(dialect: Dialect, boundary: &'a str, pages: Option<&'a HostPages>) -> Self {
        Self { dialect, boundary, files: Files::new(pages) }
    }
}

/// A prompt that was made of texts of a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPrompt {
    /// The text.
    pub text: String,
    /// The images and files that the texts refer to.
    pub files: Vec<SourceFile>,
}
