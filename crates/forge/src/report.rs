//! The reports of checks, as the files that an agent gets.

/// The end of a report that was cut.
const CUT: &str = "\n[the rest of the report is left out]";

/// Returns a report as the content of a file, at most `limit` bytes; `None` if it is empty.
pub(crate) fn file(text: String, limit: usize) -> Option<Vec<u8>> {
    if text.len() <= limit {
        return Some(text.into_bytes()).filter(|text| !text.is_empty());
    }
    let end = text.floor_char_boundary(limit.saturating_sub(CUT.len()));
    Some([&text.as_bytes()[..end], CUT.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_says_that_it_was_cut() {
        assert_eq!(file(String::new(), 100), None);
        assert_eq!(file("short".to_owned(), 100), Some(b"short".to_vec()));
        let cut = file("ä".repeat(100), 101).unwrap();
        assert!(cut.len() <= 101 && String::from_utf8(cut).unwrap().ends_with(CUT));
    }
}
