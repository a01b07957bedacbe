//! Changes of an open page of a job, as `turbo-stream` elements.

use askama::Template;

use crate::fragment::Fragment;

/// The maximum number of changes in an event, and their size in bytes from which on another event begins, so that a browser
/// is never busy with one for long.
const MAX_CHANGES: usize = 50;
const MAX_BYTES: usize = 64 << 10;

#[derive(Template)]
#[template(path = "_streams.html")]
pub(super) struct Streams<'a> {
    refresh: bool,
    changes: &'a [Change],
}

impl<'a> Streams<'a> {
    /// Renders changes.
    pub(super) fn render_changes(changes: &'a [Change]) -> askama::Result<String> {
        Self { refresh: false, changes }.render()
    }

    /// Renders the instruction to load the page again.
    pub(super) fn refresh() -> askama::Result<String> {
        Self { refresh: true, changes: &[] }.render()
    }
}

/// A change of the page.
pub(super) enum Change {
    /// Appends an element to the conversation.
    Append(Fragment),
    /// Replaces an element.
    Replace { target: String, content: Fragment },
    /// Folds the elements of a section up to the element `before`. `after` is the element of its message.
    Fold { target: String, after: String, before: String, content: Fragment },
}

impl Change {
    /// Returns the change that replaces an element.
    pub(super) fn replace(target: &str, content: Fragment) -> Self {
        Self::Replace { target: target.to_owned(), content }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Append(content) | Self::Replace { content, .. } | Self::Fold { content, .. } => content.len(),
        }
    }
}

/// Divides changes into parts that a browser renders quickly, in order.
pub(super) fn divided(changes: &[Change]) -> Vec<&[Change]> {
    let (mut parts, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, change) in changes.iter().enumerate() {
        bytes += change.bytes();
        if index + 1 - begin == MAX_CHANGES || bytes >= MAX_BYTES {
            parts.push(&changes[begin..=index]);
            (begin, bytes) = (index + 1, 0);
        }
    }
    if begin < changes.len() {
        parts.push(&changes[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_few_changes_and_little_text() {
        #[derive(Template)]
        #[template(source = "{{ text }}", ext = "txt")]
        struct Text {
            text: String,
        }
        let change = |bytes: usize| Change::Append(Fragment::of(&Text { text: "x".repeat(bytes) }).unwrap());
        let sizes = |changes: &[Change]| divided(changes).iter().map(|part| part.len()).collect::<Vec<_>>();
        let small: Vec<Change> = (0..511).map(|_| change(10)).collect();
        assert_eq!(sizes(&small), [vec![MAX_CHANGES; 10], vec![11]].concat());
        let large: Vec<Change> = [10, MAX_BYTES, 10, MAX_BYTES / 2, MAX_BYTES / 2, 10].map(change).into();
        assert_eq!(sizes(&large), [2, 3, 1]);
        assert!(divided(&[]).is_empty());
    }
}
