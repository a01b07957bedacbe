//! Shortens text to a given size.
//!
//! Invariant: a character is never split.

/// Returns the first `max_chars` characters of `text`, with an ellipsis if something was cut.
pub(crate) fn clip(text: &str, max_chars: usize) -> String {
    let mut chars = text.chars();
    let mut clipped: String = chars.by_ref().take(max_chars).collect();
    if chars.next().is_some() {
        clipped.push('…');
    }
    clipped
}

/// Returns `text` if it has at most `max_bytes`. Otherwise returns its start (a third of that size) and its end (two
/// thirds): recent text matters more than early text.
pub(crate) fn keep_ends(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let head = boundary_at_or_before(text, max_bytes / 3);
    let tail = boundary_at_or_before(text, text.len() - (max_bytes - max_bytes / 3));
    let (start, _) = text.split_at(head);
    let (_, end) = text.split_at(tail);
    format!("{start}\n[… {} bytes left out …]\n{end}", tail - head)
}

/// Returns the largest character boundary that is not above `index`.
fn boundary_at_or_before(text: &str, index: usize) -> usize {
    let mut boundary = index.min(text.len());
    while !text.is_char_boundary(boundary) {
        boundary -= 1;
    }
    boundary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_counts_characters_and_marks_the_cut() {
        assert_eq!(clip("grün", 4), "grün");
        assert_eq!(clip("grün", 3), "grü…");
        assert_eq!(clip("", 3), "");
    }

    #[test]
    fn keep_ends_keeps_short_text_and_both_ends_of_long_text() {
        assert_eq!(keep_ends("short", 5), "short");
        let cut = keep_ends(&format!("{}{}", "a".repeat(50), "z".repeat(50)), 30);
        assert!(cut.starts_with("aaaaaaaaaa\n[… "), "{cut}");
        assert!(cut.ends_with(&"z".repeat(20)), "{cut}");
    }

    #[test]
    fn keep_ends_never_splits_a_character() {
        for max in 0..40 {
            let cut = keep_ends(&"ü".repeat(30), max);
            assert!(cut.contains("left out"), "{cut}");
        }
    }
}
