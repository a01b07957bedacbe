//! Makes the prompt of an issue that becomes a job.

use crate::hook::{CommentKind, HostIssue};
use crate::prompt::MAX_PROMPT_CHARS;

use super::around::Around;
use super::batch::{AROUND_CHARS, BODY_CHARS, SPARE_CHARS, files_of};
use super::earlier::one_line;
use super::form::{Form, WrittenPrompt};
use super::part::Part;
use super::quoted::quoted_text;
use super::text::Shown;

/// The maximum length of the text of an issue in a message, if the message has a comment too, in characters.
const ISSUE_CHARS: usize = MAX_PROMPT_CHARS / 2 - 2_000;

/// Returns the prompt for an issue that becomes a job, with what was said around it. `is_request` is true if all who have
/// written or edited its text may push; otherwise the person who labeled or assigned it vouches for the goal, and its text
/// is quoted.
#[must_use]
pub fn issue_prompt(issue: &HostIssue, is_request: bool, around: &Around, mut form: Form<'_>) -> WrittenPrompt {
    let chars = if around.is_empty() { BODY_CHARS } else { BODY_CHARS - AROUND_CHARS };
    let text = issue_text(issue, is_request, chars, &mut form);
    with_around(text, issue, around, form)
}

/// Returns the prompt for a comment that makes a job of an issue; otherwise like [`issue_prompt`].
#[must_use]
pub fn issue_comment_prompt(
    issue: &HostIssue,
    comment: &Part,
    is_request: bool,
    around: &Around,
    mut form: Form<'_>,
) -> WrittenPrompt {
    let request = Shown::markdown(&comment.body, form.dialect).trimmed().beginning(ISSUE_CHARS, &comment.url);
    let issue_text = issue_text(issue, is_request, ISSUE_CHARS, &mut form);
    let mut text = format!(
        "{}\n\n{} commented on the issue:\n\n{}",
        issue_text.trim_end(),
        comment.author.name,
        request.with_notes()
    );
    let files = files_of(comment, &mut form);
    if !files.is_empty() {
        text.push_str(&format!("\n\n{}", files.trim_end()));
    }
    with_around(text, issue, around, form)
}

fn with_around(mut text: String, issue: &HostIssue, around: &Around, mut form: Form<'_>) -> WrittenPrompt {
    if !around.is_empty() {
        let left = (MAX_PROMPT_CHARS - SPARE_CHARS).saturating_sub(text.chars().count());
        text.truncate(text.trim_end().len());
        text.push_str(&around.text(&format!("issue #{}", issue.number), left, &mut form));
    }
    WrittenPrompt { text, files: form.files.into_found() }
}

/// The maximum number of labels that a prompt names.
const LABELS: usize = 20;

/// Returns the words about the labels of an issue, such as "; labels: `bug`".
fn labels_of(issue: &HostIssue) -> String {
    let name = |label: &String| {
        let plain: String = one_line(&Shown::plain(label).text).replace('`', "'").chars().take(50).collect();
        format!("`{plain}`")
    };
    let names: Vec<String> = issue.labels.iter().take(LABELS).map(name).collect();
    if names.is_empty() { String::new() } else { format!("; labels: {}", names.join(", ")) }
}

fn issue_text(issue: &HostIssue, is_request: bool, chars: usize, form: &mut Form<'_>) -> String {
    let (title, body) = (Shown::plain(&issue.title), Shown::markdown(&issue.body, form.dialect));
    let mut text = body.trimmed();
    text.text = format!("{}\n\n{}", title.text.trim(), text.text);
    text.notes.extend(title.notes);
    let text = text.beginning(chars, &issue.url);
    let files = form.files.add(&issue.body, form.dialect, (CommentKind::Issue, ""), !is_request);
    let files = if files.is_empty() { files } else { format!("\n\n{}", files.trim_end()) };
    let (number, url, labels) = (issue.number, &issue.url, labels_of(issue));
    if is_request {
        return format!("{}{files}\n\n(Issue #{number}: {url}{labels})", text.with_notes());
    }
    let what = "the issue, which people without write access may have written or edited";
    let block = quoted_text(what, text, form.boundary);
    format!(
        "Solve issue #{number} ({url}{labels}).\n\n{}{files}",
        if files.is_empty() { &block } else { block.trim_end() }
    )
}
