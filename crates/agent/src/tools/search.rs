//! `search`: searches the files of the repository for a regular expression.
//!
//! Invariants: files that `.gitignore` excludes are not searched, nor is `.git`; symbolic links are not followed; a
//! cancelled call ends at the next file.

use std::fs;
use std::path::Path;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};
use regex::Regex;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Announcement, ToolError, ToolOutput};
use crate::text;
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "search";

/// The maximum number of lines that one call shows.
const MAX_MATCHES: usize = 200;

/// The maximum number of characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;

/// The size of the largest file that is searched, in bytes: 2 MiB. People rarely write larger files.
const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The regular expression, in the syntax of the `regex` crate.
    pub(crate) pattern: String,
    /// The file or directory to search. Default: the working directory.
    pub(crate) path: Option<String>,
    /// A glob, as in `.gitignore`, that limits the search to matching files. Default: all files.
    pub(crate) glob: Option<String>,
}

impl Args {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }

    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        let title = format!("Search for {}", text::clip(&self.pattern, 100));
        Announcement::new(ToolKind::Search, title).at(workspace, self.path())
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description(
            "Search the lines of files for a regular expression (Rust syntax, no look-around). Files that .gitignore \
             excludes are left out. The answer has lines of the form path:line: text.",
        )
        .with_schema(json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression"},
                "path": {"type": "string", "description": "A file or directory, relative to the working directory"},
                "glob": {"type": "string", "description": "Only files that match, for example *.rs or src/**/*.ts"},
            },
            "required": ["pattern"],
        }))
}

/// Runs the tool.
pub(crate) fn run(args: &Args, workspace: &Workspace, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
    let pattern = Regex::new(&args.pattern).map_err(refused)?;
    let filter = file_filter(workspace.root(), args.glob.as_deref())?;
    let start = workspace.resolve(args.path())?;
    let mut walk = WalkBuilder::new(&start);
    // Hidden files belong to a repository (.github, .gitlab-ci.yml); the ignore rules in the user's home do not.
    walk.hidden(false)
        .require_git(false)
        .git_global(false)
        .sort_by_file_path(|a, b| a.cmp(b))
        .filter_entry(|entry| entry.file_name() != ".git");
    let mut found = Vec::new();
    for entry in walk.build().filter_map(Result::ok) {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || filter.as_ref().is_some_and(|filter| filter.matched(entry.path(), false).is_ignore()) {
            continue;
        }
        search_file(entry.path(), workspace.root(), &pattern, &mut found);
        if found.len() > MAX_MATCHES {
            break;
        }
    }
    Ok(ToolOutput::text(shown(found)))
}

/// Returns the filter for a glob. It is not part of the walk, where it would take precedence over `.gitignore`.
fn file_filter(root: &Path, glob: Option<&str>) -> Result<Option<Override>, ToolError> {
    let Some(glob) = glob else {
        return Ok(None);
    };
    let mut builder = OverrideBuilder::new(root);
    builder.add(glob).map_err(refused)?;
    builder.build().map(Some).map_err(refused)
}

/// Adds the matching lines of a file; skips files that are too large, binary or unreadable.
fn search_file(path: &Path, root: &Path, pattern: &Regex, found: &mut Vec<String>) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_FILE_BYTES) {
        return;
    }
    let Ok(bytes) = fs::read(path) else {
        return;
    };
    if bytes.contains(&0) {
        return;
    }
    let shown_path = path.strip_prefix(root).unwrap_or(path).display();
    for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        if found.len() > MAX_MATCHES {
            return;
        }
        if pattern.is_match(line) {
            found.push(format!("{shown_path}:{}: {}", index + 1, text::clip(line, MAX_LINE_CHARS)));
        }
    }
}

fn shown(mut found: Vec<String>) -> String {
    if found.is_empty() {
        return "[Nothing was found.]".to_owned();
    }
    if found.len() > MAX_MATCHES {
        found.truncate(MAX_MATCHES);
        found.push(format!("[There is more than these {MAX_MATCHES} lines: search more narrowly.]"));
    }
    found.join("\n")
}

fn refused(error: impl std::fmt::Display) -> ToolError {
    ToolError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in [".git", "src", "target"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join(".gitignore"), "target/\n*.log\n").unwrap();
        fs::write(root.join(".git/config"), "needle").unwrap();
        fs::write(root.join("target/out.rs"), "needle").unwrap();
        fs::write(root.join("run.log"), "needle").unwrap();
        fs::write(root.join("binary"), b"needle\0").unwrap();
        fs::write(root.join("README.md"), "no\nneedle here\n").unwrap();
        fs::write(root.join("src/a.rs"), "let needle = 1;\n").unwrap();
        let workspace = Workspace::open(root).unwrap();
        (directory, workspace)
    }

    fn search(workspace: &Workspace, pattern: &str, path: Option<&str>, glob: Option<&str>) -> String {
        let args = Args { pattern: pattern.to_owned(), path: path.map(str::to_owned), glob: glob.map(str::to_owned) };
        run(&args, workspace, &CancellationToken::new()).unwrap().text
    }

    #[test]
    fn ignored_and_binary_files_are_left_out() {
        let (_directory, workspace) = repository();
        assert_eq!(search(&workspace, "need.e", None, None), "README.md:2: needle here\nsrc/a.rs:1: let needle = 1;");
        assert_eq!(search(&workspace, "haystack", None, None), "[Nothing was found.]");
    }

    #[test]
    fn path_and_glob_narrow_the_search_but_do_not_undo_gitignore() {
        let (_directory, workspace) = repository();
        let in_source = "src/a.rs:1: let needle = 1;";
        assert_eq!(search(&workspace, "needle", Some("src"), None), in_source);
        assert_eq!(search(&workspace, "needle", Some("src/a.rs"), None), in_source);
        assert_eq!(search(&workspace, "needle", None, Some("*.rs")), in_source);
        assert_eq!(search(&workspace, "needle", None, Some("*.log")), "[Nothing was found.]");
    }

    #[test]
    fn an_invalid_pattern_and_a_cancelled_turn_are_errors() {
        let (_directory, workspace) = repository();
        let args = |pattern: &str| Args { pattern: pattern.to_owned(), path: None, glob: None };
        let cancel = CancellationToken::new();
        assert!(matches!(run(&args("("), &workspace, &cancel), Err(ToolError::Refused(_))));
        cancel.cancel();
        assert!(matches!(run(&args("x"), &workspace, &cancel), Err(ToolError::Cancelled)));
    }

    #[test]
    fn long_results_are_truncated_with_a_note() {
        let (directory, workspace) = repository();
        fs::write(directory.path().join("many"), "thing\n".repeat(MAX_MATCHES + 5)).unwrap();
        let text = search(&workspace, "thing", None, None);
        assert_eq!(text.lines().count(), MAX_MATCHES + 1);
        assert!(text.ends_with("search more narrowly.]"), "{text}");
    }
}
