//! `edit_file`: replaces a text in a file.
//!
//! Invariant: a file is changed only if it contains the text to replace exactly once, or if all occurrences are to be
//! replaced.

mod splice;

use std::fs;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use self::splice::{Replacement, replace};
use super::encoding::{Detected, Encoding, detect};
use super::output::{MAX_DIFF_BYTES, OldText, changed};
use super::{Announcement, ToolError, ToolOutput, arguments};
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "edit_file";

/// The size of the largest file that is edited, in bytes: 4 MiB.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The file.
    pub(crate) path: String,
    /// The text to replace, exactly as it is in the file, but with LF for any line break.
    pub(crate) old_text: String,
    /// The text that replaces it.
    pub(crate) new_text: String,
    /// Set to replace all occurrences.
    #[serde(default, deserialize_with = "arguments::flag")]
    pub(crate) replace_all: bool,
    /// The encoding of the file, if it is not the detected one.
    pub(crate) encoding: Option<String>,
}

impl Args {
    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        Announcement::new(ToolKind::Edit, format!("Edit {}", self.path)).at(workspace, &self.path)
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description(
            "Replace a text in a file. old_text must be in the file exactly once, white space included: give enough \
             lines around the change to make it unique, or set replace_all. Line breaks and the encoding of the file \
             are kept.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory"},
                "old_text": {"type": "string", "description": "The exact text to replace"},
                "new_text": {"type": "string", "description": "The text to put in its place"},
                "replace_all": {"type": "boolean", "description": "Replace all occurrences of old_text"},
                "encoding": {"type": "string", "description": "The encoding, if the detected one is wrong"},
            },
            "required": ["path", "old_text", "new_text"],
        }))
}

/// Runs the tool.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let metadata = fs::metadata(&path).map_err(ToolError::io("edit", &args.path))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(ToolError::Refused(format!("`{}` is not a file of at most {MAX_FILE_BYTES} bytes", args.path)));
    }
    let old = fs::read(&path).map_err(ToolError::io("edit", &args.path))?;
    let detected = with_given(detect(&old, true), args.encoding.as_deref())?;
    let encoding = detected.encoding;
    let (mark, content) = old.split_at(detected.mark.min(old.len()));
    let replacement = Replacement { old: &args.old_text, new: &args.new_text, all: args.replace_all };
    let (replaced, count) =
        replace(content, encoding, replacement).map_err(|error| ToolError::Refused(error.to_string()))?;
    fs::write(&path, [mark, &replaced].concat()).map_err(ToolError::io("edit", &args.path))?;
    let mut text = format!("Edited {}.", args.path);
    if count > 1 {
        text.push_str(&format!(" {count} occurrences were replaced."));
    }
    if let Some(words) = detected.in_words() {
        text.push_str(&format!(" The encoding is {words}."));
    }
    let old_text = match content.len() <= MAX_DIFF_BYTES {
        true => OldText::Known(encoding.shown(content)),
        false => OldText::Unknown,
    };
    Ok(changed(text, &path, old_text, &encoding.shown(&replaced)))
}

/// Replaces the detected encoding by that of an argument.
pub(super) fn with_given(detected: Detected, given: Option<&str>) -> Result<Detected, ToolError> {
    let Some(name) = given.filter(|name| !name.trim().is_empty()) else { return Ok(detected) };
    match Encoding::from_name(name) {
        Some(encoding) => Ok(Detected { encoding, guessed: false, binary: false, ..detected }),
        None => Err(ToolError::Refused(format!(
            "the encoding `{name}` is not known: use a name of the web, such as utf-8, utf-16le, windows-1252, \
             shift_jis or gbk"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(path: &str, old_text: &str, new_text: &str) -> Args {
        let (path, old_text, new_text) = (path.to_owned(), old_text.to_owned(), new_text.to_owned());
        Args { path, old_text, new_text, replace_all: false, encoding: None }
    }

    #[test]
    fn a_file_is_edited_and_the_diff_is_returned() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "one\ntwo\n").unwrap();
        let diff = run(&edit("a", "two", "three"), &workspace).unwrap().diff.unwrap();
        assert_eq!(diff.new_text, "one\nthree\n");
        assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "one\nthree\n");
    }

    #[test]
    fn a_refused_edit_leaves_the_file_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let path = directory.path().join("a");
        fs::write(&path, b"gr\xf6\xdfer\n").unwrap();
        for (args, reason) in [
            (edit("a", "größer", "größer →"), "windows-1252"),
            (edit("a", "kleiner", "x"), "not in the file"),
            (edit("a", "r", "x"), "more than once (2 times)"),
            (Args { encoding: Some("nonsense".to_owned()), ..edit("a", "g", "x") }, "`nonsense` is not known"),
        ] {
            let error = run(&args, &workspace).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"gr\xf6\xdfer\n");
        }
    }

    #[test]
    fn all_occurrences_are_replaced_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "a b a\r\na\r\n").unwrap();
        let output = run(&Args { replace_all: true, ..edit("a", "a", "x\ny") }, &workspace).unwrap();
        assert!(output.text.contains("3 occurrences"), "{}", output.text);
        assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"x\r\ny b x\r\ny\r\nx\r\ny\r\n");
    }

    #[test]
    fn a_given_encoding_replaces_the_guess() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        // `Ł` of ISO 8859-2 is `£` of Windows-1252.
        fs::write(directory.path().join("a"), b"\xa3\xf3d\xbc\n").unwrap();
        let args = Args { encoding: Some("iso-8859-2".to_owned()), ..edit("a", "Łódź", "Łódka ź") };
        run(&args, &workspace).unwrap();
        assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"\xa3\xf3dka \xbc\n");
    }
}
