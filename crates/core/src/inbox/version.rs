//! Orders the versions of a comment or review, because hosts deliver events in any order, and more than once.

use std::cmp::Ordering;

use crate::hook::{CommentAction, HookContent};
use crate::idempotency::Fingerprint;

/// Compares two versions of the same comment or review. A deletion is the last version. Returns `None` unless both events
/// are about comments, or both about reviews.
#[must_use]
pub fn compare(one: &HookContent, other: &HookContent) -> Option<Ordering> {
    if std::mem::discriminant(one) != std::mem::discriminant(other) {
        return None;
    }
    let ((action, version), (other_action, other_version)) = (version(one)?, version(other)?);
    let is_deleted = |action| action == CommentAction::Deleted;
    // Some hosts count in seconds, so that a quick edit has the version of the comment that it changes.
    let is_edited = |action| action == CommentAction::Edited;
    let by_deletion = is_deleted(action).cmp(&is_deleted(other_action));
    let by_version = || compare_texts(version, other_version);
    Some(by_deletion.then_with(by_version).then_with(|| is_edited(action).cmp(&is_edited(other_action))))
}

fn version(content: &HookContent) -> Option<(CommentAction, &str)> {
    match content {
        HookContent::Comment { action, comment, .. } => Some((*action, &comment.version)),
        HookContent::Review { action, review, .. } => Some((*action, &review.version)),
        _ => None,
    }
}

fn text(content: &HookContent) -> Option<String> {
    let body = match content {
        HookContent::Comment { comment, .. } => &comment.body,
        HookContent::Review { review, .. } => &review.body,
        _ => return None,
    };
    let lines: Vec<&str> = body.trim().lines().map(str::trim_end).collect();
    Some(lines.join("\n"))
}

/// Returns whether two versions of a comment or review have the same text. Spaces and line endings at the ends of lines
/// do not count, because webhooks and answers of a host may differ in them.
#[must_use]
pub fn has_same_text(one: &HookContent, other: &HookContent) -> bool {
    text(one) == text(other)
}

/// Returns whether two events report the same version of a comment or review. Hosts that count in seconds give two
/// quick edits the same version, so the texts are compared too.
#[must_use]
pub fn is_same(one: &HookContent, other: &HookContent) -> bool {
    let is_deletion = version(one).is_some_and(|(action, _)| action == CommentAction::Deleted);
    compare(one, other) == Some(Ordering::Equal) && (is_deletion || has_same_text(one, other))
}

/// Returns a short hash of the text of a comment or review, which is part of the key of its version. It is empty for a
/// deletion, with which some hosts send the text.
#[must_use]
pub fn text_hash(content: &HookContent) -> String {
    let is_deletion = version(content).is_some_and(|(action, _)| action == CommentAction::Deleted);
    let Some(text) = text(content).filter(|_| !is_deletion) else { return String::new() };
    Fingerprint::of("text", text.as_bytes()).0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether `one` is a later version of a comment or review than `other`.
#[must_use]
pub fn is_newer(one: &HookContent, other: &HookContent) -> bool {
    compare(one, other) == Some(Ordering::Greater)
}

/// Compares two versions as hosts write them: as numbers, or as times in one format, which have the order of texts.
#[must_use]
pub fn compare_texts(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{CommentKind, HostComment, HostUser};

    fn comment(action: CommentAction, version: &str) -> HookContent {
        let comment = HostComment {
            kind: CommentKind::Pull,
            id: "1".to_owned(),
            version: version.to_owned(),
            url: String::new(),
            author: HostUser { id: "8".to_owned(), name: "ada".to_owned(), is_bot: false },
            body: String::new(),
            position: None,
            hunk: None,
            thread: None,
            review: None,
        };
        HookContent::Comment { number: 1, action, comment }
    }

    #[test]
    fn versions_are_numbers_or_times() {
        use CommentAction::{Created, Deleted, Edited};
        for (action, version, other_action, other_version, expected) in [
            (Created, "2026-01-01T10:00:00Z", Edited, "2026-01-01T10:00:05Z", Ordering::Less),
            (Edited, "10", Edited, "9", Ordering::Greater),
            (Edited, "1", Created, "1", Ordering::Greater),
            (Deleted, "1", Edited, "2", Ordering::Greater),
            (Created, "1", Created, "1", Ordering::Equal),
        ] {
            let (one, other) = (comment(action, version), comment(other_action, other_version));
            assert_eq!(compare(&one, &other), Some(expected), "{action:?} {version} {other_action:?} {other_version}");
            assert_eq!(compare(&other, &one), Some(expected.reverse()));
        }
        assert_eq!(compare(&comment(Created, "1"), &HookContent::Ping), None);
    }

    fn written(action: CommentAction, version: &str, body: &str) -> HookContent {
        let HookContent::Comment { number, action, comment } = comment(action, version) else { panic!("no comment") };
        HookContent::Comment { number, action, comment: HostComment { body: body.to_owned(), ..comment } }
    }

    #[test]
    fn two_edits_with_the_same_version_are_told_apart_by_their_texts() {
        use CommentAction::{Created, Deleted, Edited};
        let first = written(Edited, "1", "a\nb");
        for (other, expected) in [
            (written(Edited, "1", "a\nb"), true),
            (written(Edited, "1", "a \r\nb\r\n"), true),
            (written(Edited, "1", "a b"), false),
            (written(Edited, "2", "a\nb"), false),
            (written(Created, "1", "a\nb"), false),
        ] {
            assert_eq!(is_same(&first, &other), expected, "{other:?}");
            assert_eq!(text_hash(&first) == text_hash(&other), has_same_text(&first, &other), "{other:?}");
        }
        let (with_text, without) = (written(Deleted, "1", "a"), written(Deleted, "1", ""));
        assert!(is_same(&with_text, &without));
        assert_eq!((text_hash(&with_text), text_hash(&without)), (String::new(), String::new()));
    }
}
