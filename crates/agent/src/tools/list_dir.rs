//! `list_dir`: lists the names in a directory.
//!
//! Invariant: at most [`MAX_ENTRIES`] names are shown, in a stable order.

use std::fs;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::{Announcement, ToolError, ToolOutput};
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "list_dir";

/// The maximum number of names that one call shows.
const MAX_ENTRIES: usize = 1_000;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The directory. Default: the working directory.
    pub(crate) path: Option<String>,
}

impl Args {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }

    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        Announcement::new(ToolKind::Read, format!("List {}", self.path())).at(workspace, self.path())
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description("List the names in a directory; a slash marks a directory, an @ a symbolic link.")
        .with_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The directory, relative to the working directory"},
            },
        }))
}

/// Runs the tool.
pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ToolOutput, ToolError> {
    let asked = args.path();
    let path = workspace.resolve(asked)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(ToolError::io("list", asked))? {
        let entry = entry.map_err(ToolError::io("list", asked))?;
        let mark = match entry.file_type() {
            Ok(kind) if kind.is_dir() => "/",
            Ok(kind) if kind.is_symlink() => "@",
            Ok(_) | Err(_) => "",
        };
        names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
    }
    names.sort_unstable();
    Ok(ToolOutput::text(shown(names)))
}

fn shown(mut names: Vec<String>) -> String {
    if names.is_empty() {
        return "[The directory is empty.]".to_owned();
    }
    let hidden = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    if hidden > 0 {
        names.push(format!("[{hidden} more are not shown.]"));
    }
    names.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_marked() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("a"), "").unwrap();
        std::os::unix::fs::symlink("a", directory.path().join("link")).unwrap();
        let output = run(&Args { path: None }, &workspace).unwrap();
        assert_eq!(output.text, "a\nlink@\nsrc/");
    }

    #[test]
    fn long_lists_are_truncated_with_a_note() {
        let names = (0..=MAX_ENTRIES).map(|number| number.to_string()).collect();
        assert!(shown(names).ends_with("[1 more are not shown.]"));
        assert_eq!(shown(Vec::new()), "[The directory is empty.]");
    }
}
