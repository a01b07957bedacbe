//! Finds the marks of conflicts in files.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::workspace::beneath::open_beneath;

/// The maximum size of a file that is searched for marks of a conflict, in bytes.
pub(super) const SEARCHED_BYTES: usize = 8 << 20;

/// Returns the first conflict in a file below the folder, if it has the marks of one. Large files are not searched.
pub(super) fn conflict_of(folder: &File, path: &Path) -> Option<Vec<u8>> {
    let file = open_beneath(folder, path).ok()?;
    let is_searched =
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= SEARCHED_BYTES as u64);
    if is_searched { conflict_in(BufReader::with_capacity(64 << 10, file)) } else { None }
}

/// Returns the first conflict in a text with its marks, each at the start of a line and in their order, as git writes them
/// (git-merge(1), "how conflicts are presented"), with LF as line endings.
pub(super) fn conflict_in(mut text: impl BufRead) -> Option<Vec<u8>> {
    let is_mark: [fn(&[u8]) -> bool; 3] =
        [|line| line.starts_with(b"<<<<<<< "), |line| line == b"=======", |line| line.starts_with(b">>>>>>> ")];
    let (mut line, mut next, mut conflict) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        match text.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        if is_mark.get(next).is_some_and(|is_mark| is_mark(content)) {
            next += 1;
        }
        if next > 0 {
            conflict.extend_from_slice(content);
            conflict.push(b'\n');
        }
        if next == is_mark.len() {
            return Some(conflict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_in_their_order_at_the_start_of_lines() {
        for (text, expected) in [
            ("a\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> main\n", true),
            ("<<<<<<< a\r\n=======\r\n>>>>>>> b", true),
            ("<<<<<<< ours\n||||||| base\n=======\n>>>>>>> theirs\n", true),
            ("Title\n=======\n", false),
            (" <<<<<<< HEAD\n=======\n>>>>>>> main\n", false),
            ("<<<<<<<< HEAD\n=======\n>>>>>>> main\n", false),
            (">>>>>>> main\n=======\n<<<<<<< HEAD\n", false),
            ("<<<<<<< HEAD\n======= \n>>>>>>> main\n", false),
            ("", false),
        ] {
            assert_eq!(conflict_in(text.as_bytes()).is_some(), expected, "{text:?}");
        }
        let conflict = conflict_in(b"a\r\n<<<<<<< a\r\n1\r\n=======\r\n>>>>>>> b\r\nmore".as_slice());
        assert_eq!(conflict.as_deref(), Some(b"<<<<<<< a\n1\n=======\n>>>>>>> b\n".as_slice()));
    }
}
