//! Detection of excessively nested text before it is parsed.
//!
//! A quote or a list takes at least one column to the left of its content. So the nesting is never deeper than the
//! column of the last marker at the beginning of a line.

/// The maximum column of a marker. Ordinary text has none beyond it.
const MAX_COLUMN: usize = 200;

/// Returns true if a marker of a quote or list is beyond [`MAX_COLUMN`].
pub(super) fn is_too_deep(text: &str) -> bool {
    text.lines().any(|line| column_of_last_marker(line.as_bytes()) > MAX_COLUMN)
}

fn column_of_last_marker(line: &[u8]) -> usize {
    let (mut column, mut last) = (0, 0);
    let mut rest = line;
    loop {
        let (bytes, columns, is_marker) = match rest.first() {
            Some(b' ') => (1, 1, false),
            // A tab advances at most four columns. Counting too many is safe; counting too few is not.
            Some(b'\t') => (1, 4, false),
            Some(b'>') => (1, 1, true),
            _ => match list_marker(rest) {
                0 => return last,
                bytes => (bytes, bytes, true),
            },
        };
        column += columns;
        if is_marker {
            last = column;
        }
        rest = rest.get(bytes..).unwrap_or_default();
    }
}

/// Returns the length of a list marker in bytes, or zero if there is none.
fn list_marker(rest: &[u8]) -> usize {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let bytes = match (digits, rest.get(digits)) {
        (0, Some(b'-' | b'+' | b'*')) => 1,
        (1..=9, Some(b'.' | b')')) => digits + 1,
        _ => return 0,
    };
    if matches!(rest.get(bytes), None | Some(b' ' | b'\t')) { bytes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_up_to_the_last_marker() {
        for (line, column) in [
            ("", 0),
            ("text > text", 0),
            ("> text", 1),
            (">>>", 3),
            ("> > a > b", 3),
            ("- a", 1),
            ("    - a", 5),
            ("\t- a", 5),
            ("12. > - a", 7),
            ("-", 1),
            ("-a", 0),
            ("**bold**", 0),
            ("---", 0),
            ("1234567890. a", 0),
            ("2026-11-21", 0),
        ] {
            assert_eq!(column_of_last_marker(line.as_bytes()), column, "{line}");
        }
    }

    #[test]
    fn only_excessive_nesting_is_detected() {
        assert!(is_too_deep(&format!("text\n\n{}", ">".repeat(10_000))));
        assert!(is_too_deep(&"- ".repeat(5_000)));
        assert!(is_too_deep(&"1) ".repeat(5_000)));
        assert!(!is_too_deep(&format!("{}\n{}x", "-".repeat(500), " ".repeat(500))));
        assert!(!is_too_deep("> > - 1. text\n\n```\n> >\n```"));
    }
}
