//! Comments on lines of a merge request.

use http::Method;
use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::ReviewComment;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Gitlab;

/// A merge request with the commits that its diff is between.
#[derive(Debug, Deserialize)]
struct Compared {
    #[serde(default)]
    diff_refs: Option<Refs>,
}

#[derive(Debug, Deserialize)]
struct Refs {
    base_sha: String,
    start_sha: String,
    head_sha: String,
}

/// Begins a discussion on lines of the diff at a commit. Refused if the merge request has another newest commit now.
pub(super) async fn add(
    gitlab: &Gitlab,
    repository: &HostRepository,
    pull: u64,
    (commit, comment): (&Sha, &ReviewComment),
    text: &str,
) -> Result<(), ForgeError> {
    let path = format!("/merge_requests/{pull}");
    let refs = gitlab.get::<Compared>(repository, &path).await?.diff_refs;
    let Some(refs) = refs.filter(|refs| refs.head_sha == commit.as_str()) else {
        return Err(ForgeError::Refused("the merge request has another newest commit now".to_owned()));
    };
    let body = json!({"body": text_of(comment, text), "position": position(&refs, comment)});
    gitlab.send(repository, Method::POST, &format!("{path}/discussions"), Some(&body)).await?.ok().map(drop)
}

/// Returns the position of the last line. A line that both versions have has both numbers.
fn position(refs: &Refs, comment: &ReviewComment) -> Value {
    let mut position = json!({
        "position_type": "text",
        "base_sha": refs.base_sha,
        "start_sha": refs.start_sha,
        "head_sha": refs.head_sha,
        "new_path": comment.path,
        "old_path": comment.old_path,
    });
    for (name, number) in [("new_line", comment.last.new), ("old_line", comment.last.old)] {
        if let Some(number) = number {
            position[name] = number.into();
        }
    }
    position
}

/// Returns the text for a comment on the last line of several: it names the others, and its suggestion replaces all.
fn text_of(comment: &ReviewComment, text: &str) -> String {
    let Some(first) = comment.first else { return text.to_owned() };
    let before = comment.last.new.zip(first.new).map_or(0, |(last, first)| last.saturating_sub(first));
    let text = text.replace("```suggestion\n", &format!("```suggestion:-{before}+0\n"));
    format!("{}:\n\n{text}", comment.lines())
}

#[cfg(test)]
mod tests {
    use journeyman_core::conversation::DiffLine;

    use super::*;

    #[test]
    fn a_comment_is_on_the_last_line_and_its_suggestion_replaces_all() {
        let line = |old, new| DiffLine { old, new };
        let refs = Refs { base_sha: "b".to_owned(), start_sha: "s".to_owned(), head_sha: "h".to_owned() };
        let (path, old_path, body) = ("new.rs".to_owned(), "old.rs".to_owned(), "No.".to_owned());
        let single = ReviewComment { path, old_path, first: None, last: line(None, Some(5)), body };
        let mut expected = json!({
            "position_type": "text", "base_sha": "b", "start_sha": "s", "head_sha": "h", "new_path": "new.rs",
            "old_path": "old.rs", "new_line": 5,
        });
        assert_eq!(position(&refs, &single), expected);
        assert_eq!(text_of(&single, "No.\n\n```suggestion\nx\n```"), "No.\n\n```suggestion\nx\n```");
        let several = ReviewComment { first: Some(line(None, Some(3))), last: line(Some(4), Some(5)), ..single };
        expected["old_line"] = 4.into();
        assert_eq!(position(&refs, &several), expected);
        let text = text_of(&several, "No.\n\n```suggestion\nx\n```");
        assert_eq!(text, "`new.rs`, lines 3–5:\n\nNo.\n\n```suggestion:-2+0\nx\n```");
    }
}
