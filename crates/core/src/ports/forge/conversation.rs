//! The conversation about a pull request or an issue on a code host, and the files in it.

use bytes::Bytes;

/// The answer to a request for a file of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentFile {
    /// The content.
    Content(Bytes),
    /// The file is larger than the limit.
    TooLarge,
}
