//! `write_file`: writes a whole file.
//!
//! Invariant: only regular files are replaced, never a device or a pipe.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::encoding::Encoding;
use super::lines::Lines;
use super::output::{MAX_DIFF_BYTES, OldText, changed};
use super::{Announcement, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "write_file";

/// The maximum number of bytes of the first line by which the line breaks of a file are found.
const FIRST_LINE_BYTES: usize = 64 * 1024;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The file.
    pub(crate) path: String,
    /// The whole new text of the file.
    pub(crate) content: String,
}

impl Args {
    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        Announcement::new(ToolKind::Edit, format!("Write {}", self.path)).at(workspace, &self.path)
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description(
            "Write a file; an existing one is replaced, missing directories are made. Use edit_file for changes in a \
             file.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory"},
                "content": {"type": "string", "description": "The whole text of the file"},
            },
            "required": ["path", "content"],
        }))
}

/// Runs the tool.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let old = old_text(&path, &args.path)?;
    let before = match &old {
        OldText::NewFile => Vec::new(),
        OldText::Known(_) | OldText::Unknown => {
            lost(&path, &args.content).map_err(ToolError::io("read", &args.path))?
        }
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(ToolError::io("create the directory of", &args.path))?;
    }
    fs::write(&path, &args.content).map_err(ToolError::io("write", &args.path))?;
    let mut text = format!("Wrote {} bytes to {}.", args.content.len(), args.path);
    for change in before {
        text.push_str(&format!(" {change}"));
    }
    Ok(changed(text, &path, old, &args.content))
}

/// Returns what a file had before and the new content does not have, in sentences: its encoding, and its line breaks.
fn lost(path: &Path, content: &str) -> io::Result<Vec<String>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut lines = Lines::open(file, length, FIRST_LINE_BYTES)?;
    let detected = lines.detected;
    let mut lost = Vec::new();
    if detected.binary {
        lost.push("The file was binary before.".to_owned());
        return Ok(lost);
    }
    let is_kept = detected.encoding == Encoding::Utf8 && content.starts_with('\u{feff}');
    if let Some(words) = detected.in_words().filter(|_| !is_kept) {
        lost.push(format!("Its encoding was {words} before, and is UTF-8 now."));
    }
    let first = lines.next()?.unwrap_or_default();
    if first.crlf && content.contains('\n') && !content.contains("\r\n") {
        lost.push("Its lines ended with CRLF before, and end with LF now.".to_owned());
    }
    Ok(lost)
}

/// Returns the text before the change. Refuses anything but a regular file before opening it: a pipe would block.
fn old_text(path: &Path, asked: &str) -> Result<OldText, ToolError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OldText::NewFile),
        Err(error) => return Err(ToolError::io("inspect", asked)(error)),
    };
    if !metadata.is_file() {
        return Err(ToolError::Refused(format!("`{asked}` is not a file")));
    }
    if metadata.len() > MAX_DIFF_BYTES as u64 {
        return Ok(OldText::Unknown);
    }
    let bytes = fs::read(path).map_err(ToolError::io("read", asked))?;
    Ok(String::from_utf8(bytes).map_or(OldText::Unknown, OldText::Known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(workspace: &Workspace, path: &str, content: &str) -> Result<ToolOutput, ToolError> {
        let args = Args { path: path.to_owned(), content: content.to_owned() };
        run(&args, workspace)
    }

    #[test]
    fn missing_directories_are_created_and_old_texts_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let first = write(&workspace, "a/b/c.txt", "one").unwrap().diff.unwrap();
        assert_eq!(first.old_text, None);
        let second = write(&workspace, "a/b/c.txt", "two").unwrap().diff.unwrap();
        assert_eq!(second.old_text.as_deref(), Some("one"));
        assert_eq!(second.new_text, "two");
        assert_eq!(fs::read_to_string(directory.path().join("a/b/c.txt")).unwrap(), "two");
    }

    #[test]
    fn the_text_says_which_encoding_and_line_breaks_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        for (before, content, expected) in [
            (&b"one\ntwo\n"[..], "x\n", ""),
            (b"one\r\ntwo\r\n", "x\r\n", ""),
            (b"one\r\ntwo\r\n", "x\n", " Its lines ended with CRLF before, and end with LF now."),
            (b"\xef\xbb\xbfone", "\u{feff}x", ""),
            (b"\xef\xbb\xbfone", "x", " Its encoding was UTF-8 with a byte order mark before, and is UTF-8 now."),
            (b"\xff\xfea\0", "x", " Its encoding was UTF-16LE with a byte order mark before, and is UTF-8 now."),
            (b"\0\x01\x02", "x", " The file was binary before."),
        ] {
            fs::write(directory.path().join("a"), before).unwrap();
            let text = write(&workspace, "a", content).unwrap().text;
            assert_eq!(text, format!("Wrote {} bytes to a.{expected}", content.len()));
        }
    }

    #[test]
    fn directories_and_outside_paths_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        assert!(matches!(write(&workspace, ".", "x"), Err(ToolError::Refused(_))));
        assert!(matches!(write(&workspace, "../x", "x"), Err(ToolError::Path(_))));
    }
}
