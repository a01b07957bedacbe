//! Comments, reviews and their threads.

/// The conversation of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentedOn {
    /// The conversation of a pull request.
    Pull(u64),
    /// The conversation of an issue.
    Issue(u64),
}

/// A comment in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The ID.
    pub id: u64,
    /// The conversation.
    pub target: CommentedOn,
    /// The author.
    pub author: u64,
    /// The text.
    pub body: String,
    /// The reactions, as the name that the product uses.
    pub reactions: Vec<String>,
}

/// The last line that the diff of each pull request has. Most products refuse comments on later ones.
pub(crate) const LAST_LINE: u64 = 100;

/// A submitted review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The ID.
    pub id: u64,
    /// The pull request.
    pub pull: u64,
    /// The author.
    pub author: u64,
    /// The text, which may be empty.
    pub body: String,
    /// The comments on lines.
    pub comments: Vec<ReviewComment>,
}

/// A comment on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewComment {
    /// The ID.
    pub id: u64,
    /// The text.
    pub body: String,
    /// The path of the file.
    pub path: String,
    /// The line.
    pub line: u64,
    /// The reactions.
    pub reactions: Vec<String>,
}

/// A reply to a comment on a line, or to a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentReply {
    /// The ID.
    pub id: u64,
    /// The comment that it answers.
    pub to: u64,
    /// The author.
    pub author: u64,
    /// The text.
    pub body: String,
}
