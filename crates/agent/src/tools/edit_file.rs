//! `edit_file`: replaces one exact text in a file.
//!
//! Invariant: a file is changed only if it contains the text to replace exactly once.

use std::fs;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::output::{OldText, changed};
use super::{Announcement, ToolError, ToolOutput};
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
    /// The text to replace, exactly as it is in the file.
    pub(crate) old_text: String,
    /// The text that replaces it.
    pub(crate) new_text: String,
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
             lines around the change to make it unique.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory"},
                "old_text": {"type": "string", "description": "The exact text to replace"},
                "new_text": {"type": "string", "description": "The text to put in its place"},
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
    let old = fs::read_to_string(&path).map_err(ToolError::io("edit", &args.path))?;
    let new = replace_once(&old, &args.old_text, &args.new_text)?;
    fs::write(&path, &new).map_err(ToolError::io("edit", &args.path))?;
    let text = format!("Edited {}.", args.path);
    Ok(changed(text, &path, OldText::Known(old), &new))
}

/// Returns `content` with the only occurrence of `old` replaced.
fn replace_once(content: &str, old: &str, new: &str) -> Result<String, ToolError> {
    let refused = |reason: &str| Err(ToolError::Refused(reason.to_owned()));
    if old.is_empty() {
        return refused("old_text is empty");
    }
    if old == new {
        return refused("old_text and new_text are the same");
    }
    let Some(start) = content.find(old) else {
        return refused("old_text is not in the file: read the file and give its exact text");
    };
    // The search continues at the next character, so that it also finds overlapping occurrences.
    let next = start + old.chars().next().map_or(1, char::len_utf8);
    if content.get(next..).is_some_and(|rest| rest.contains(old)) {
        return refused("old_text is in the file more than once: give more of the text around it");
    }
    Ok(content.replacen(old, new, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_unique_text_is_replaced() {
        assert_eq!(replace_once("a b c", "b", "x").unwrap(), "a x c");
        assert_eq!(replace_once("ünder", "ü", "").unwrap(), "nder");
        for (content, old, new, reason) in [
            ("a b c", "d", "x", "not in the file"),
            ("a b b", "b", "x", "more than once"),
            ("aaa", "aa", "x", "more than once"),
            ("üüü", "üü", "x", "more than once"),
            ("abc", "", "x", "empty"),
            ("abc", "b", "b", "same"),
        ] {
            let error = replace_once(content, old, new).unwrap_err().to_string();
            assert!(error.contains(reason), "{content} {old}: {error}");
        }
    }

    #[test]
    fn a_file_is_edited_and_the_diff_is_returned() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::write(directory.path().join("a"), "one\ntwo\n").unwrap();
        let args = Args { path: "a".to_owned(), old_text: "two".to_owned(), new_text: "three".to_owned() };
        let diff = run(&args, &workspace).unwrap().diff.unwrap();
        assert_eq!(diff.new_text, "one\nthree\n");
        assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "one\nthree\n");
    }
}
