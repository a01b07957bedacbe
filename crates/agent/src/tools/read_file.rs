//! `read_file`: reads a slice of a text file by lines.
//!
//! Invariant: a call never reads more than [`SLICE_BYTES`] into memory, and never shows more.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::{Announcement, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "read_file";

/// The maximum number of bytes of a file that one call shows: 256 KiB.
const SLICE_BYTES: usize = 256 * 1024;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The file.
    pub(crate) path: String,
    /// The first line to show, counted from 1. Default: 1.
    pub(crate) offset: Option<u64>,
    /// The maximum number of lines to show. Default: as many as fit.
    pub(crate) limit: Option<u64>,
}

impl Args {
    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        Announcement::new(ToolKind::Read, format!("Read {}", self.path)).at(workspace, &self.path)
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description(
            "Read a text file. At most 256 KiB are shown at a time; use offset and limit (in lines) for the rest.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory"},
                "offset": {"type": "integer", "description": "The first line to show, counted from 1"},
                "limit": {"type": "integer", "description": "The most lines to show"},
            },
            "required": ["path"],
        }))
}

/// Runs the tool.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let metadata = fs::metadata(&path).map_err(ToolError::io("read", &args.path))?;
    if !metadata.is_file() {
        let hint = if metadata.is_dir() { ": use list_dir" } else { "" };
        return Err(ToolError::Refused(format!("`{}` is not a file{hint}", args.path)));
    }
    let file = File::open(&path).map_err(ToolError::io("read", &args.path))?;
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.unwrap_or(u64::MAX).max(1);
    let slice =
        Slice::read(BufReader::new(file), first, limit, SLICE_BYTES).map_err(ToolError::io("read", &args.path))?;
    if slice.bytes.contains(&0) {
        return Err(ToolError::Refused(format!("`{}` is a binary file", args.path)));
    }
    Ok(ToolOutput::text(slice.into_text(first)))
}

/// Consecutive lines of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Slice {
    bytes: Vec<u8>,
    /// The number of the next line, if the file continues.
    next: Option<u64>,
    /// Set if the last line was too long and its end is missing.
    cut: bool,
}

impl Slice {
    fn read<R: BufRead>(mut reader: R, first: u64, limit: u64, max_bytes: usize) -> io::Result<Self> {
        for _ in 1..first {
            if reader.skip_until(b'\n')? == 0 {
                return Ok(Self::default());
            }
        }
        let mut slice = Self::default();
        let mut line = first;
        while line - first < limit {
            let start = slice.bytes.len();
            let capacity = max_bytes.saturating_sub(start) as u64;
            (&mut reader).take(capacity).read_until(b'\n', &mut slice.bytes)?;
            if slice.bytes.ends_with(b"\n") && slice.bytes.len() > start {
                line += 1;
                continue;
            }
            if reader.fill_buf()?.is_empty() {
                return Ok(slice);
            }
            if start > 0 {
                slice.bytes.truncate(start);
            } else {
                slice.cut = true;
                line += 1;
            }
            break;
        }
        slice.next = (slice.cut || !reader.fill_buf()?.is_empty()).then_some(line);
        Ok(slice)
    }

    fn into_text(self, first: u64) -> String {
        let mut text = String::from_utf8_lossy(&self.bytes).into_owned();
        if text.is_empty() {
            return match first {
                1 => "[The file is empty.]".to_owned(),
                _ => format!("[The file has no line {first}.]"),
            };
        }
        if self.cut {
            text.push_str("\n[The end of this line is left out: it is too long.]");
        }
        if let Some(next) = self.next {
            text.push_str(&format!("\n[The file goes on: read it with offset {next}.]"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(text: &str, first: u64, limit: u64, max_bytes: usize) -> (String, Option<u64>, bool) {
        let slice = Slice::read(text.as_bytes(), first, limit, max_bytes).unwrap();
        (String::from_utf8(slice.bytes).unwrap(), slice.next, slice.cut)
    }

    #[test]
    fn slices_are_whole_lines_within_the_size() {
        let text = "one\ntwo\nthree\n";
        for (first, limit, max_bytes, expected) in [
            (1, 99, 99, ("one\ntwo\nthree\n", None, false)),
            (2, 1, 99, ("two\n", Some(3), false)),
            (3, 1, 99, ("three\n", None, false)),
            (4, 9, 99, ("", None, false)),
            (9, 9, 99, ("", None, false)),
            (1, 99, 8, ("one\ntwo\n", Some(3), false)),
            (1, 99, 10, ("one\ntwo\n", Some(3), false)),
            (3, 99, 3, ("thr", Some(4), true)),
        ] {
            let (bytes, next, cut) = slice(text, first, limit, max_bytes);
            assert_eq!((bytes.as_str(), next, cut), expected, "{first} {limit} {max_bytes}");
        }
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        assert_eq!(slice("a\nb", 1, 99, 99), ("a\nb".to_owned(), None, false));
        assert_eq!(slice("abc", 1, 99, 3), ("abc".to_owned(), None, false));
        assert_eq!(slice("", 1, 99, 99), (String::new(), None, false));
    }

    #[test]
    fn the_text_says_how_to_continue() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "one\ntwo\n").unwrap();
        let args = Args { path: "a".to_owned(), offset: None, limit: Some(1) };
        let output = run(&args, &workspace).unwrap();
        assert!(output.text.contains("one\n"), "{}", output.text);
        assert!(output.text.contains("offset 2"), "{}", output.text);
    }

    #[test]
    fn directories_and_binary_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("b"), b"a\0b").unwrap();
        for path in [".", "b", "none"] {
            let args = Args { path: path.to_owned(), offset: None, limit: None };
            assert!(run(&args, &workspace).is_err(), "{path}");
        }
    }
}
