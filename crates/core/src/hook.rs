//! Events of code hosts, as webhooks and polls report them, in one form for all hosts.

use serde::{Deserialize, Serialize};

use crate::code_host::PullState;
use crate::ids::Sha;
use crate::position::{Position, Thread};
use crate::prompt::MAX_PROMPT_CHARS;

/// An event of a code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookEvent {
    /// The repository; `None` for events that concern no single repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<EventRepository>,
    /// The user who caused the event, if the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<HostUser>,
    /// The event.
    pub content: HookContent,
}

impl HookEvent {
    /// Returns the page of the comment, review or issue.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match &self.content {
            HookContent::Comment { comment, .. } => Some(&comment.url),
            HookContent::Review { review, .. } => Some(&review.url),
            HookContent::Issue { issue, .. } => Some(&issue.url),
            _ => None,
        }
    }

    /// Returns the author of the comment, review or issue, otherwise the user who caused the event.
    #[must_use]
    pub fn author(&self) -> Option<&HostUser> {
        match &self.content {
            HookContent::Comment { comment, .. } => Some(&comment.author),
            HookContent::Review { review, .. } => Some(&review.author),
            HookContent::Issue { issue, .. } => Some(&issue.author),
            _ => self.sender.as_ref(),
        }
    }

    /// Returns the event with the beginning of its text, as much as a prompt can have. The inbox keeps it for long, and
    /// people without permission write texts of megabytes.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let cut = |text: &mut String| {
            if let Some((end, _)) = text.char_indices().nth(MAX_PROMPT_CHARS) {
                text.truncate(end);
            }
        };
        match &mut self.content {
            HookContent::Comment { comment, .. } => {
                cut(&mut comment.body);
                if let Some(hunk) = &mut comment.hunk {
                    cut(hunk);
                }
            }
            HookContent::Review { review, .. } => cut(&mut review.body),
            HookContent::Issue { issue, .. } => {
                cut(&mut issue.title);
                cut(&mut issue.body);
            }
            _ => {}
        }
        self
    }

    /// Returns the text of the comment or review, or the title of the issue.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            HookContent::Comment { comment, .. } => Some(&comment.body),
            HookContent::Review { review, .. } => Some(&review.body),
            HookContent::Issue { issue, .. } => Some(&issue.title),
            _ => None,
        }
    }
}

/// The repository of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRepository {
    /// The ID, which stays the same when the repository is renamed.
    pub id: String,
    /// The current path, such as `owner/name`.
    pub path: String,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HookContent {
    /// A comment was written, edited or deleted.
    Comment {
        /// The number of the pull request or issue.
        number: u64,
        /// The action on the comment.
        action: CommentAction,
        /// The comment.
        comment: HostComment,
    },
    /// A review of a pull request was submitted, edited or dismissed.
    Review {
        /// The number of the pull request.
        number: u64,
        /// The action on the review.
        action: CommentAction,
        /// The review. Its comments on lines are read from the host.
        review: HostReview,
    },
    /// A pull request was opened, changed or ended.
    Pull {
        /// The number.
        number: u64,
        /// The state after the event.
        state: PullState,
        /// The branch with the commits.
        head: String,
        /// The newest commit of the branch, if the host says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head_sha: Option<Sha>,
    },
    /// An issue was opened, labeled or assigned.
    Issue {
        /// The action on the issue.
        action: IssueAction,
        /// The issue.
        issue: HostIssue,
    },
    /// A check or a status of a commit has changed.
    Checks {
        /// The commit. For a pull request, it may be the merge of its newest commit into the target branch.
        sha: Sha,
        /// The number of the pull request, if the host says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pull: Option<u64>,
    },
    /// Branches were pushed or deleted.
    Push {
        /// The names of the branches.
        branches: Vec<String>,
    },
    /// The repository was renamed, moved, archived or deleted.
    Repository,
    /// The service was given access to repositories.
    Access {
        /// The repositories.
        added: Vec<EventRepository>,
    },
    /// The host tests the webhook.
    Ping,
    /// An event that the service does not use.
    Other,
}

/// The action on a comment or review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentAction {
    /// The comment was written, or the review submitted.
    Created,
    /// The text was changed.
    Edited,
    /// The comment was deleted, or the review dismissed.
    Deleted,
}

/// The action on an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", content = "of", rename_all = "snake_case")]
pub enum IssueAction {
    /// The issue was opened.
    Opened,
    /// A label was added: its name.
    Labeled(String),
    /// A user was assigned.
    Assigned(HostUser),
    /// Several labels were added or users assigned at once.
    Changed {
        /// The names of the labels that were added.
        labels: Vec<String>,
        /// The users who were assigned.
        users: Vec<HostUser>,
    },
    /// Labels were changed or users assigned, but the host does not say which. The issue has those that it has now.
    Updated,
    /// Anything else.
    Other,
}

impl IssueAction {
    /// Returns the action by which labels were added and users assigned.
    #[must_use]
    pub fn added(labels: Vec<String>, users: Vec<HostUser>) -> Self {
        match (labels.as_slice(), users.as_slice()) {
            ([], []) => Self::Other,
            ([label], []) => Self::Labeled(label.clone()),
            ([], [user]) => Self::Assigned(user.clone()),
            _ => Self::Changed { labels, users },
        }
    }
}

/// A comment on a code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostComment {
    /// The kind.
    pub kind: CommentKind,
    /// The ID, unique among the comments of its kind.
    pub id: String,
    /// The version: the time of the last change, or another text that changes with each edit.
    pub version: String,
    /// The page.
    pub url: String,
    /// The author.
    pub author: HostUser,
    /// The text, in Markdown; empty if the comment was deleted.
    pub body: String,
    /// The position in the changes, for a comment on lines or on a file.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// The part of the diff that the comment is about: usually the one that ends at its last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<String>,
    /// The thread; `None` if the comment cannot be part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// The ID of the review that the comment is part of, on hosts that report the review separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
}

/// A review of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReview {
    /// The ID; empty if the host does not say, so that the review is read from the host.
    pub id: String,
    /// The version: the time of the submission, or another text that changes with each edit. Without an ID, it begins
    /// with the time from which the review can be.
    pub version: String,
    /// The page.
    pub url: String,
    /// The author.
    pub author: HostUser,
    /// The text, which may be empty.
    pub body: String,
    /// `true` if the reviewer approves.
    #[serde(default)]
    pub approves: bool,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIssue {
    /// The number.
    pub number: u64,
    /// The title.
    pub title: String,
    /// The text, in Markdown.
    pub body: String,
    /// The page.
    pub url: String,
    /// The author.
    pub author: HostUser,
    /// The names of the labels.
    pub labels: Vec<String>,
    /// The users who are assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<HostUser>,
}

/// A user of a code host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct HostUser {
    /// The ID, which stays the same when the user is renamed.
    pub id: String,
    /// The name to mention, without `@`.
    pub name: String,
    /// `true` if the host says that the user is a bot or an app.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bot: bool,
}

/// The kind of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentKind {
    /// A comment in the conversation of a pull request.
    Pull,
    /// A comment in the conversation of an issue.
    Issue,
    /// A comment on a line of a diff.
    Line,
    /// The text of a submitted review.
    Review,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::{DiffSide, LineRange};

    fn stored(fields: serde_json::Value) -> serde_json::Value {
        let mut comment = serde_json::json!({
            "kind": "line",
            "id": "7",
            "version": "1",
            "url": "https://h.example/7",
            "author": {"id": "8", "name": "ada"},
            "body": "rename it",
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            comment[name] = value.clone();
        }
        comment
    }

    /// Each row has the fields of a comment as a version stores them, and the position that is read.
    #[test]
    fn comments_that_older_versions_have_stored_are_read() {
        let lines = |start, end| Position::lines("a.rs".to_owned(), LineRange { start, end }, DiffSide::New);
        let commit = "a".repeat(40);
        for (fields, expected) in [
            (serde_json::json!({}), None),
            (serde_json::json!({"path": "a.rs", "line": 7, "hunk": "@@ -1 +7 @@"}), Some(lines(7, 7))),
            (serde_json::json!({"path": "a.rs"}), Some(Position { range: None, ..lines(1, 1) })),
            (serde_json::json!({"path": "a.rs", "line": 7, "start_line": 5}), Some(lines(5, 7))),
            (
                serde_json::json!({"path": "a.rs", "line": 7, "side": "old", "start_side": "new", "commit": commit}),
                Some(Position {
                    side: DiffSide::Old,
                    start_side: Some(DiffSide::New),
                    commit: commit.parse().ok(),
                    ..lines(7, 7)
                }),
            ),
            (
                serde_json::json!({"path": "a.rs", "is_whole_file": true, "is_outdated": true}),
                Some(Position { is_outdated: true, ..Position::whole_file("a.rs".to_owned()) }),
            ),
        ] {
            let fields = stored(fields);
            let read: HostComment = serde_json::from_value(fields.clone()).expect("it is valid");
            assert_eq!(read.position, expected, "{fields}");
            assert_eq!(serde_json::to_value(&read).expect("it is written"), fields);
        }
    }

    /// The fields that older versions read, which ignore all others.
    #[derive(Debug, PartialEq, Deserialize)]
    struct Older {
        path: Option<String>,
        line: Option<u64>,
    }

    #[test]
    fn older_versions_read_the_path_and_the_last_line() {
        let fields = stored(serde_json::json!({"path": "a.rs", "line": 7, "start_line": 5, "side": "old"}));
        let comment: HostComment = serde_json::from_value(fields).expect("it is valid");
        let comment = HostComment { thread: Some(Thread::begun_by("7")), ..comment };
        let event = HookContent::Comment { number: 1, action: CommentAction::Created, comment };
        let written = serde_json::to_value(&event).expect("it is written");
        assert_eq!(serde_json::from_value::<HookContent>(written.clone()).expect("it is read"), event);
        let older: Older = serde_json::from_value(written["comment"].clone()).expect("it is valid");
        assert_eq!(older, Older { path: Some("a.rs".to_owned()), line: Some(7) });
    }
}
