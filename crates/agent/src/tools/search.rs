//! `search`: searches the files of the repository for a regular expression.
//!
//! Invariants: files that `.gitignore` excludes are not searched, nor is `.git`; symbolic links are not followed; the
//! answer names every other file that was not searched, up to a number; a cancelled call ends at the next line.

use std::fs::File;
use std::io;
use std::path::Path;

use agent_client_protocol::v1::schema::ToolKind;
use genai::chat::Tool;
use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};
use regex::Regex;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::lines::Lines;
use super::{Announcement, ToolError, ToolOutput};
use crate::text;
use crate::workspace::Workspace;

/// The name of the tool.
pub(crate) const NAME: &str = "search";

/// The maximum number of lines that one call shows.
const MAX_MATCHES: usize = 200;

/// The maximum number of characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;

/// The size of the largest file that is searched, in bytes: 256 MiB.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The maximum number of bytes of a line that are searched at once: 1 MiB.
const MAX_PIECE_BYTES: usize = 1024 * 1024;

/// The maximum number of files that a note names.
const MAX_NAMES: usize = 20;

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
             excludes are left out. The answer has lines of the form path:line: text, and names binary files that \
             match.",
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
    let mut found = SearchResult::default();
    for entry in walk.build() {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.unreadable.push(error.to_string());
                continue;
            }
        };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || filter.as_ref().is_some_and(|filter| filter.matched(entry.path(), false).is_ignore()) {
            continue;
        }
        let name = entry.path().strip_prefix(workspace.root()).unwrap_or(entry.path()).display().to_string();
        if let Err(error) = search_file(entry.path(), &name, &pattern, cancel, &mut found) {
            found.unreadable.push(format!("{name} ({error})"));
        }
        if found.lines.len() > MAX_MATCHES {
            break;
        }
    }
    if cancel.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    Ok(ToolOutput::text(found.into_text()))
}

/// The result of a search.
#[derive(Default)]
struct SearchResult {
    /// The matching lines.
    lines: Vec<String>,
    /// The binary files that match.
    binary: Vec<String>,
    /// The files that are too large, with their sizes.
    large: Vec<String>,
    /// The files that could not be read, with the errors.
    unreadable: Vec<String>,
    /// The files with lines that were searched in parts.
    in_parts: Vec<String>,
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

/// Adds the matching lines of a file.
fn search_file(
    path: &Path,
    name: &str,
    pattern: &Regex,
    cancel: &CancellationToken,
    found: &mut SearchResult,
) -> io::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > MAX_FILE_BYTES {
        found.large.push(format!("{name} ({length} bytes)"));
        return Ok(());
    }
    let mut lines = Lines::open(file, length, MAX_PIECE_BYTES)?;
    let (mut number, mut is_cut) = (1, false);
    while let Some(piece) = lines.next()? {
        if cancel.is_cancelled() || found.lines.len() > MAX_MATCHES {
            break;
        }
        if pattern.is_match(&piece.text) {
            if lines.detected.binary {
                found.binary.push(name.to_owned());
                return Ok(());
            }
            found.lines.push(format!("{name}:{number}: {}", text::clip(&piece.text, MAX_LINE_CHARS)));
        }
        is_cut |= !piece.ends_line && !lines.detected.binary;
        number += u64::from(piece.ends_line);
    }
    if is_cut {
        found.in_parts.push(name.to_owned());
    }
    Ok(())
}

impl SearchResult {
    fn into_text(mut self) -> String {
        let mut notes = Vec::new();
        if self.lines.len() > MAX_MATCHES {
            self.lines.truncate(MAX_MATCHES);
            notes.push(format!("There is more than these {MAX_MATCHES} lines: search more narrowly."));
        }
        if self.lines.is_empty() && self.binary.is_empty() {
            notes.push("Nothing was found.".to_owned());
        }
        for (what, files) in [
            ("Binary files that match", &self.binary),
            ("Not searched, because they are too large", &self.large),
            ("Not searched, because they could not be read", &self.unreadable),
            ("Searched in parts, because they have a line of more than 1 MiB", &self.in_parts),
        ] {
            if !files.is_empty() {
                notes.push(format!("{what}: {}.", named(files)));
            }
        }
        self.lines.extend(notes.into_iter().map(|note| format!("[{note}]")));
        self.lines.join("\n")
    }
}

/// Returns the names of files, at most [`MAX_NAMES`], and the number of the others.
fn named(files: &[String]) -> String {
    let shown: Vec<&str> = files.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = files.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn refused(error: impl std::fmt::Display) -> ToolError {
    ToolError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        fs::write(root.join("binary"), b"needle\0\x01\x02\0").unwrap();
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
    fn ignored_files_are_left_out_and_binary_files_are_only_named() {
        let (_directory, workspace) = repository();
        assert_eq!(
            search(&workspace, "need.e", None, None),
            "README.md:2: needle here\nsrc/a.rs:1: let needle = 1;\n[Binary files that match: binary.]"
        );
        assert_eq!(search(&workspace, "needle", Some("binary"), None), "[Binary files that match: binary.]");
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
    fn large_files_are_searched_and_what_is_not_is_named() {
        let (directory, workspace) = repository();
        let root = directory.path();
        let big = format!("{}thing\n{}late thing\n", "x\n".repeat(10), "filler line\n".repeat(500_000));
        fs::write(root.join("big"), big).unwrap();
        assert_eq!(search(&workspace, "thing", None, None), "big:11: thing\nbig:500012: late thing");

        let long = format!("{}thing{}\nthing\n", "x".repeat(MAX_PIECE_BYTES), "y".repeat(2 * MAX_PIECE_BYTES));
        fs::write(root.join("big"), long).unwrap();
        let text = search(&workspace, "thing", None, None);
        let note = "[Searched in parts, because they have a line of more than 1 MiB: big.]";
        assert!(
            text.starts_with("big:1: thingyyy") && text.ends_with(&format!("\nbig:2: thing\n{note}")),
            "{text:.99}"
        );

        File::create(root.join("big")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let note = format!("Not searched, because they are too large: big ({} bytes).", MAX_FILE_BYTES + 1);
        assert_eq!(search(&workspace, "thing", None, None), format!("[Nothing was found.]\n[{note}]"));

        let text = search(&workspace, "thing", Some("none"), None);
        assert!(text.starts_with("[Nothing was found.]\n[Not searched, because they could not be read: "), "{text}");
        let many: Vec<String> = (0..25).map(|number| number.to_string()).collect();
        assert!(named(&many).ends_with("18, 19 and 5 more"), "{}", named(&many));
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
