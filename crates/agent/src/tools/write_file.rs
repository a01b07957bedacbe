//! `write_file`: writes a whole file.
//!
//! Invariant: only regular files are replaced, never a device or a pipe.

use std::fs;
use std::io;
use std::path::Path;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::output::{MAX_DIFF_BYTES, OldText, changed};
use super::{Announcement, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "write_file";

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
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(ToolError::io("create the directory of", &args.path))?;
    }
    fs::write(&path, &args.content).map_err(ToolError::io("write", &args.path))?;
    let text = format!("Wrote {} bytes to {}.", args.content.len(), args.path);
    Ok(changed(text, &path, old, &args.content))
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
    fn directories_and_outside_paths_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        assert!(matches!(write(&workspace, ".", "x"), Err(ToolError::Refused(_))));
        assert!(matches!(write(&workspace, "../x", "x"), Err(ToolError::Path(_))));
    }
}
