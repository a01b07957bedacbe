//! The answers of Bitbucket Data Center, as far as the service needs them, and the form of its texts.

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::PullState;
use journeyman_core::hook::HostUser;
use journeyman_core::inbox::route::MARKER;
use journeyman_core::pull::HostPull;
use serde::Deserialize;

use super::position::Anchor;
use crate::http::Answer;
use crate::json::{Id, or_default, sha};

/// The maximum length of a description or a comment, in characters. The host accepts 32,768; hidden comments need a few.
const TEXT_CHARS: usize = 32_000;

/// The beginning of a line that the host does not show: the definition of a link.
const HIDDEN: &str = "[//]: # (";

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: Deserialize<'de>")]
pub(super) struct Page<T> {
    pub(super) values: Vec<T>,
    #[serde(default)]
    is_last_page: bool,
    #[serde(default)]
    next_page_start: Option<u64>,
}

impl<T> Page<T> {
    /// Returns the start of the next page.
    pub(super) fn next(&self) -> Option<u64> {
        self.next_page_start.filter(|_| !self.is_last_page)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) id: Id,
    pub(super) slug: String,
    /// The name for people. The slug is made from it.
    #[serde(default)]
    pub(super) name: String,
    pub(super) project: Project,
    #[serde(default)]
    pub(super) archived: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Project {
    /// In uppercase; `~` and the user for a personal repository.
    pub(super) key: String,
}

/// A repository in a list, of which only the ID counts.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) id: Id,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Branch {
    #[serde(default)]
    pub(super) display_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: Id,
    pub(super) name: String,
    /// `NORMAL`, or `SERVICE` for the user of a project's or repository's token.
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
}

impl From<User> for HostUser {
    fn from(user: User) -> Self {
        Self { id: user.id.0, name: user.name, is_bot: user.kind == "SERVICE" }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PullRequest {
    pub(super) id: u64,
    /// Every change must name it.
    pub(super) version: u64,
    pub(super) title: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) description: String,
    state: String,
    /// `None` before version 8.18, which has no drafts.
    #[serde(default)]
    pub(super) draft: Option<bool>,
    from_ref: End,
    to_ref: End,
    #[serde(default)]
    pub(super) reviewers: Vec<Participant>,
    #[serde(default, deserialize_with = "or_default")]
    links: Links,
}

/// The source or the target of a pull request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    /// The full name, such as `refs/heads/main`.
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    latest_commit: String,
    #[serde(default)]
    repository: Option<Listed>,
}

impl End {
    fn branch(&self) -> &str {
        self.id.strip_prefix("refs/heads/").unwrap_or(&self.id)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Participant {
    pub(super) user: User,
}

#[derive(Debug, Default, Deserialize)]
struct Links {
    /// Old versions write `[null]`.
    #[serde(default, rename = "self", deserialize_with = "or_default")]
    own: Vec<Option<Link>>,
}

#[derive(Debug, Deserialize)]
struct Link {
    #[serde(default)]
    href: Option<String>,
}

impl PullRequest {
    /// Returns the newest commit of the source.
    pub(super) fn latest_commit(&self) -> &str {
        &self.from_ref.latest_commit
    }

    /// Describes the pull request. `page` is its page, in case the host does not say.
    pub(super) fn into_pull(self, page: String) -> HostPull {
        let state = match self.state.as_str() {
            "OPEN" => PullState::Open,
            "MERGED" => PullState::Merged,
            _ => PullState::Closed,
        };
        let [from, to] =
            [&self.from_ref, &self.to_ref].map(|end| end.repository.as_ref().map(|repository| &repository.id));
        let link = self.links.own.into_iter().flatten().find_map(|link| link.href);
        HostPull {
            number: self.id,
            url: link.filter(|link| link.starts_with("http")).unwrap_or(page),
            state,
            draft: self.draft == Some(true),
            title: self.title,
            body: with_visible_comments(&self.description),
            head: self.from_ref.branch().to_owned(),
            head_sha: sha(&self.from_ref.latest_commit),
            base: self.to_ref.branch().to_owned(),
            is_from_fork: from != to,
        }
    }
}

/// An event in the conversation of a pull request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Activity {
    /// The comment, with the replies to it.
    #[serde(default)]
    pub(super) comment: Option<Comment>,
    /// `REPLIED` if the comment is a reply, which is also part of the activity of its thread.
    #[serde(default)]
    pub(super) comment_action: String,
    /// The position of a comment on a line, and of the replies to it.
    #[serde(default)]
    pub(super) comment_anchor: Option<Anchor>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comment {
    pub(super) id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) text: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    /// `PENDING` for a draft.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) state: String,
    /// Whether the thread is resolved; only the first comment has it. Missing before version 8.9.
    #[serde(default)]
    pub(super) thread_resolved: Option<bool>,
    /// The replies, each with the replies to it.
    #[serde(default, deserialize_with = "or_default")]
    comments: Vec<Self>,
}

impl Comment {
    /// Returns whether this is the comment with an ID, or has it among the replies.
    pub(super) fn has(&self, id: &str) -> bool {
        self.id.0 == id || self.comments.iter().any(|reply| reply.has(id))
    }

    /// Returns the comment and all replies.
    pub(super) fn into_thread(mut self) -> Vec<Self> {
        let replies = std::mem::take(&mut self.comments);
        std::iter::once(self).chain(replies.into_iter().flat_map(Self::into_thread)).collect()
    }
}

/// A comment whose version is asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u64,
}

/// A status of a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Build {
    pub(super) key: String,
    #[serde(default)]
    name: Option<String>,
    state: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl Build {
    pub(super) fn into_check(self) -> Check {
        let state = match self.state.as_str() {
            "SUCCESSFUL" => CheckState::Passed,
            "FAILED" => CheckState::Failed,
            "INPROGRESS" => CheckState::Pending,
            // CANCELLED or UNKNOWN.
            _ => CheckState::Skipped,
        };
        let name = self.name.filter(|name| !name.is_empty()).unwrap_or(self.key);
        let summary = self.description.filter(|text| !text.is_empty());
        // The host has no logs of builds.
        Check { url: self.url, summary, ..Check::new(name, state) }
    }
}

/// The body of an error.
#[derive(Debug, Deserialize)]
struct Faults {
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fault {
    #[serde(default)]
    exception_name: Option<String>,
}

/// Returns the class of the exception in the body of an error, without its package. It is empty if the error is not one
/// of the application, for example because this version lacks the resource.
pub(super) fn exception(answer: &Answer) -> String {
    let faults = serde_json::from_slice::<Faults>(&answer.body).ok();
    let name = faults.and_then(|faults| faults.errors.into_iter().find_map(|fault| fault.exception_name));
    name.and_then(|name| name.rsplit('.').next().map(str::to_owned)).unwrap_or_default()
}

/// Returns a text in the form in which the host stores it.
///
/// The host shows HTML comments. A line that consists of one becomes the definition of a link, which is not shown, after
/// a blank line, because a definition cannot follow text.
pub(super) fn with_hidden_comments(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        if is_comment(line.trim_end()) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("{HIDDEN}{})", line.trim_end()));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Reverses [`with_hidden_comments`] for the markers of the service. Other definitions stay: the host does not show them,
/// but it would show a comment.
pub(super) fn with_visible_comments(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        let hidden = line.trim_end().strip_prefix(HIDDEN).and_then(|rest| rest.strip_suffix(')'));
        match hidden.filter(|hidden| hidden.starts_with(MARKER) && is_comment(hidden)) {
            Some(comment) => {
                lines.pop_if(|before| before.trim_end().is_empty());
                lines.push(comment);
            }
            None => lines.push(line),
        }
    }
    lines.join("\n")
}

/// Returns whether a line consists of one HTML comment without characters that end the definition of a link.
fn is_comment(line: &str) -> bool {
    let inner = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
    inner.is_some_and(|inner| !inner.contains("-->") && !inner.contains(['(', ')', '\\']))
}

/// Cuts a text to the length that the host accepts. A marker in the last paragraph stays.
pub(super) fn fitting(text: &str) -> String {
    if text.chars().nth(TEXT_CHARS).is_none() {
        return text.to_owned();
    }
    let marked = text.rsplit_once("\n\n").filter(|(_, end)| is_comment(end));
    let end = marked.map_or_else(String::new, |(_, marker)| format!("\n\n{marker}"));
    let left = TEXT_CHARS.saturating_sub(end.chars().count() + 1);
    text.chars().take(left).chain(['…']).chain(end.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_hidden_and_found_again() {
        for (text, expected) in [
            ("<!-- a -->\nx\n<!-- b -->", "[//]: # (<!-- a -->)\nx\n\n[//]: # (<!-- b -->)"),
            ("x\n\n<!-- a -->\n", "x\n\n\n[//]: # (<!-- a -->)\n"),
            ("\n<!-- a -->", "\n\n[//]: # (<!-- a -->)"),
            ("x <!-- a -->", "x <!-- a -->"),
            ("<!-- a --> b <!-- c -->", "<!-- a --> b <!-- c -->"),
            ("<!-- a (b) -->", "<!-- a (b) -->"),
            ("<!-->", "<!-->"),
            ("", ""),
        ] {
            assert_eq!(with_hidden_comments(text), expected, "{text:?}");
            let hidden = with_hidden_comments(text);
            assert_eq!(with_visible_comments(&hidden), hidden, "people do not see it: {text:?}");
            let (text, hidden) = (text.replace("<!-- ", MARKER), hidden.replace("<!-- ", MARKER));
            assert_eq!(with_visible_comments(&hidden), text, "{text:?}");
        }
        assert_eq!(
            with_visible_comments("x\r\n\r\n[//]: # (<!-- journeyman:a -->)\r\ny"),
            "x\r\n<!-- journeyman:a -->\ny"
        );
        assert_eq!(with_visible_comments("[//]: # (a)"), "[//]: # (a)");
    }

    #[test]
    fn a_long_text_is_cut_and_keeps_its_marker() {
        let text = format!("{}\n\n<!-- m -->", "ä".repeat(60_000));
        let stored = with_hidden_comments(&fitting(&text));
        assert!(stored.chars().count() < 32_768 && stored.ends_with("…\n\n\n[//]: # (<!-- m -->)"));
        assert!(fitting(&"ä".repeat(60_000)).ends_with("ä…"));
    }

    #[test]
    fn a_reply_is_found_in_its_thread() {
        let reply = serde_json::json!({"id": 3, "comments": [{"id": 4, "comments": null}]});
        let thread: Comment = serde_json::from_value(serde_json::json!({"id": 2, "comments": [reply]})).unwrap();
        for (id, expected) in [("2", true), ("3", true), ("4", true), ("5", false)] {
            assert_eq!(thread.has(id), expected, "{id}");
        }
    }

    #[test]
    fn missing_fields_are_no_error() {
        let end = |name: &str| serde_json::json!({"id": format!("refs/heads/{name}")});
        let pull = serde_json::json!({
            "id": 1, "version": 0, "title": "a", "state": "DECLINED", "fromRef": end("x/y"), "toRef": end("main"),
            "links": {"self": [null]},
        });
        let pull = serde_json::from_value::<PullRequest>(pull).unwrap().into_pull("https://b.example/1".to_owned());
        assert_eq!((pull.head.as_str(), pull.url.as_str()), ("x/y", "https://b.example/1"));
        assert_eq!((pull.state, pull.head_sha), (PullState::Closed, None));
    }
}
