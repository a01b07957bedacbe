//! `read_file`: reads a slice of a text file by lines.
//!
//! Invariant: a call never shows more than [`SLICE_BYTES`] of a file, and reads at most that much of a line at once.

use std::fs::{self, File};
use std::io::{self, Read};

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::edit_file::with_given;
use super::encoding::Detected;
use super::lines::Lines;
use super::{Announcement, ToolError, ToolOutput, arguments};
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
    #[serde(default, deserialize_with = "arguments::number")]
    pub(crate) offset: Option<u64>,
    /// The maximum number of lines to show. Default: as many as fit.
    #[serde(default, deserialize_with = "arguments::number")]
    pub(crate) limit: Option<u64>,
    /// The encoding of the file, if it is not the detected one.
    pub(crate) encoding: Option<String>,
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
                "encoding": {"type": "string", "description": "The encoding, if the detected one is wrong"},
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
    let lines = Lines::open(file, metadata.len(), SLICE_BYTES).map_err(ToolError::io("read", &args.path))?;
    let detected = with_given(lines.detected, args.encoding.as_deref())?;
    if detected.binary {
        return Err(ToolError::Refused(format!(
            "`{}` is a binary file of {} bytes: look at it with run_command, for example with xxd or file",
            args.path,
            metadata.len()
        )));
    }
    let lines = lines.with_encoding(detected);
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.unwrap_or(u64::MAX).max(1);
    let slice = Slice::read(lines, first, limit, SLICE_BYTES).map_err(ToolError::io("read", &args.path))?;
    Ok(ToolOutput::text(slice.into_text(first, detected)))
}

/// Consecutive lines of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Slice {
    text: String,
    /// The number of the next line, if the file continues.
    next: Option<u64>,
    /// Set if the last line was too long and its end is missing.
    cut: bool,
    /// The number of lines that end with CRLF.
    crlf: u64,
    /// The number of lines that end with LF alone.
    lf: u64,
    /// The number of bytes that are no text.
    invalid: usize,
}

impl Slice {
    fn read<R: Read>(mut lines: Lines<R>, first: u64, limit: u64, max_bytes: usize) -> io::Result<Self> {
        for _ in 1..first {
            if lines.is_at_end()? {
                return Ok(Self::default());
            }
            lines.skip_line()?;
        }
        let mut slice = Self::default();
        let mut line = first;
        while line - first < limit {
            let Some(mut piece) = lines.next()? else { return Ok(slice) };
            let is_first = line == first;
            if slice.text.len() + piece.text.len() + usize::from(piece.has_break) > max_bytes || !piece.ends_line {
                if !is_first {
                    slice.next = Some(line);
                    return Ok(slice);
                }
                slice.cut = true;
                piece.text.truncate(piece.text.floor_char_boundary(max_bytes));
                if !piece.ends_line {
                    lines.skip_line()?;
                }
            }
            slice.text.push_str(&piece.text);
            slice.invalid += piece.invalid;
            line += 1;
            if slice.cut {
                break;
            }
            if piece.has_break {
                slice.text.push('\n');
                *(if piece.crlf { &mut slice.crlf } else { &mut slice.lf }) += 1;
            }
        }
        slice.next = (!lines.is_at_end()?).then_some(line);
        Ok(slice)
    }

    fn into_text(self, first: u64, detected: Detected) -> String {
        let mut text = self.text;
        if text.is_empty() && !self.cut {
            return match first {
                1 => "[The file is empty.]".to_owned(),
                _ => format!("[The file has no line {first}.]"),
            };
        }
        let mut notes = Vec::new();
        if self.cut {
            notes.push("The end of this line is left out: it is too long.".to_owned());
        }
        if let Some(next) = self.next {
            notes.push(format!("The file goes on: read it with offset {next}."));
        }
        if let Some(words) = detected.in_words() {
            notes.push(format!("The encoding of the file is {words}. edit_file keeps it."));
        }
        match (self.crlf, self.lf) {
            (0, _) => {}
            (_, 0) => notes.push("The lines end with CRLF. edit_file keeps that.".to_owned()),
            (crlf, lf) => {
                notes.push(format!("{crlf} of these lines end with CRLF, and {lf} with LF. edit_file keeps that."))
            }
        }
        if self.invalid > 0 {
            let name = detected.encoding.name();
            notes.push(format!(
                "Bytes that are not valid {name} are shown as \\xNN ({} here). edit_file keeps them.",
                self.invalid
            ));
        }
        if !notes.is_empty() {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let notes: Vec<String> = notes.iter().map(|note| format!("[{note}]")).collect();
            text.push_str(&notes.join("\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(text: &str, first: u64, limit: u64, max_bytes: usize) -> (String, Option<u64>, bool) {
        let slice = Slice::read(Lines::of(text.as_bytes(), max_bytes).unwrap(), first, limit, max_bytes).unwrap();
        (slice.text, slice.next, slice.cut)
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
            (3, 99, 3, ("thr", None, true)),
            (2, 99, 2, ("tw", Some(3), true)),
        ] {
            let (text, next, cut) = slice(text, first, limit, max_bytes);
            assert_eq!((text.as_str(), next, cut), expected, "{first} {limit} {max_bytes}");
        }
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        assert_eq!(slice("a\nb", 1, 99, 99), ("a\nb".to_owned(), None, false));
        assert_eq!(slice("abc", 1, 99, 3), ("abc".to_owned(), None, false));
        assert_eq!(slice("", 1, 99, 99), (String::new(), None, false));
    }

    fn read(workspace: &Workspace, arguments: serde_json::Value) -> Result<String, String> {
        let args: Args = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
        run(&args, workspace).map(|output| output.text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_text_says_how_to_continue() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "one\ntwo\n").unwrap();
        let text = read(&workspace, json!({"path": "a", "limit": "1"})).unwrap();
        assert_eq!(text, "one\n[The file goes on: read it with offset 2.]");
        assert_eq!(read(&workspace, json!({"path": "a", "offset": "2"})).unwrap(), "two\n");
        let error = read(&workspace, json!({"path": "a", "offset": "two"})).unwrap_err();
        assert!(error.contains("\"two\" is not a whole number"), "{error}");
    }

    #[test]
    fn the_text_says_what_is_unusual_about_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        for (bytes, expected) in [
            (&b"one\r\ntwo"[..], "one\ntwo\n[The lines end with CRLF. edit_file keeps that.]"),
            (b"one\r\ntwo\n", "one\ntwo\n[1 of these lines end with CRLF, and 1 with LF. edit_file keeps that.]"),
            (
                b"caf\xe9\n",
                "caf\u{e9}\n[The encoding of the file is windows-1252 (guessed; set encoding if it is \
                 another). edit_file keeps it.]",
            ),
            (
                b"\xef\xbb\xbfone\n",
                "one\n[The encoding of the file is UTF-8 with a byte order mark. edit_file keeps it.]",
            ),
            (
                b"gr\xc3\xbcn\xff",
                "gr\u{fc}n\\xff\n[Bytes that are not valid UTF-8 are shown as \\xNN (1 here). edit_file keeps them.]",
            ),
            (b"a text with a \0\n", "a text with a \\x00\n"),
            (b"", "[The file is empty.]"),
        ] {
            fs::write(directory.path().join("a"), bytes).unwrap();
            assert_eq!(read(&workspace, json!({"path": "a"})).unwrap(), expected);
        }
    }

    #[test]
    fn directories_and_binary_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("b"), b"a\0b").unwrap();
        for (path, reason) in [(".", "use list_dir"), ("b", "a binary file of 3 bytes"), ("none", "cannot read `none`")]
        {
            let error = read(&workspace, json!({ "path": path })).unwrap_err();
            assert!(error.contains(reason), "{path}: {error}");
        }
        let shown = read(&workspace, json!({"path": "b", "encoding": "windows-1252"})).unwrap();
        assert_eq!(shown, "a\\x00b\n[The encoding of the file is windows-1252. edit_file keeps it.]");
    }
}
