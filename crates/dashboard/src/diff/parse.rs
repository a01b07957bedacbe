//! The parser of diffs, which works line by line.

use journeyman_core::pull::diff_names as names;

use super::{Change, FileDiff, Line, LineClass};

/// Parses a diff. Keeps at most `max_lines` lines and counts the others. A truncated diff is parsed up to its end; a
/// text that is not a diff has no files.
pub(crate) fn parse(diff: &str, max_lines: usize) -> Vec<FileDiff<'_>> {
    let mut parser = Parser { files: Vec::new(), hunk: None, lines_left: max_lines };
    for text in diff.split_terminator('\n') {
        parser.line(text);
    }
    parser.files
}

struct Parser<'a> {
    files: Vec<FileDiff<'a>>,
    /// The current hunk of the last file; `None` before its first hunk.
    hunk: Option<Hunk>,
    lines_left: usize,
}

impl<'a> Parser<'a> {
    fn line(&mut self, text: &'a str) {
        if self.in_hunk(text) {
            return;
        }
        if let Some(paths) = text.strip_prefix("diff --git ") {
            self.files.push(begin(paths));
            self.hunk = None;
        } else if let Some(hunk) = Hunk::begin(text) {
            self.hunk = Some(hunk);
            self.keep(Line { class: LineClass::Hunk, old_no: None, new_no: None, text });
        } else if self.hunk.is_none()
            && let Some(file) = self.files.last_mut()
        {
            header(file, text);
        }
    }

    /// Adds the line to the current hunk; returns false if it does not belong to one.
    fn in_hunk(&mut self, text: &'a str) -> bool {
        let Some(hunk) = &mut self.hunk else { return false };
        // "\ No newline at end of file" follows its line, even the last one of a hunk.
        if let Some(note) = text.strip_prefix('\\') {
            self.keep(Line { class: LineClass::Note, old_no: None, new_no: None, text: note.trim_start() });
            return true;
        }
        if hunk.is_over() {
            return false;
        }
        let line = if let Some(text) = text.strip_prefix('+') {
            Line { class: LineClass::Added, old_no: None, new_no: Some(hunk.new.take()), text }
        } else if let Some(text) = text.strip_prefix('-') {
            Line { class: LineClass::Removed, old_no: Some(hunk.old.take()), new_no: None, text }
        } else if text.is_empty() || text.starts_with(' ') {
            // Some tools strip the space of an empty context line.
            let text = text.strip_prefix(' ').unwrap_or(text);
            Line { class: LineClass::Context, old_no: Some(hunk.old.take()), new_no: Some(hunk.new.take()), text }
        } else {
            hunk.end();
            return false;
        };
        self.keep(line);
        true
    }

    fn keep(&mut self, line: Line<'a>) {
        let Some(file) = self.files.last_mut() else { return };
        match line.class {
            LineClass::Added => file.added += 1,
            LineClass::Removed => file.removed += 1,
            LineClass::Hunk | LineClass::Context | LineClass::WhitespaceOnly | LineClass::Note => {}
        }
        match self.lines_left.checked_sub(1) {
            Some(left) => {
                self.lines_left = left;
                file.lines.push(line);
            }
            None => file.left_out += 1,
        }
    }
}

fn begin(paths: &str) -> FileDiff<'_> {
    FileDiff {
        path: names::of_both(paths),
        old_path: None,
        change: Change::Modified,
        old_mode: None,
        new_mode: None,
        added: 0,
        removed: 0,
        binary: false,
        blobs: "",
        lines: Vec::new(),
        left_out: 0,
    }
}

/// Parses a line between `diff --git` and the first hunk. Ignores unknown lines.
fn header<'a>(file: &mut FileDiff<'a>, text: &'a str) {
    if text.starts_with("index ") {
        file.blobs = text;
    } else if let Some(path) = text.strip_prefix("rename from ") {
        (file.change, file.old_path) = (Change::Renamed, Some(names::unquoted(path)));
    } else if let Some(path) = text.strip_prefix("copy from ") {
        (file.change, file.old_path) = (Change::Copied, Some(names::unquoted(path)));
    } else if let Some(path) = text.strip_prefix("rename to ").or_else(|| text.strip_prefix("copy to ")) {
        file.path = names::unquoted(path);
    } else if let Some(mode) = text.strip_prefix("old mode ") {
        file.old_mode = Some(mode);
    } else if let Some(mode) = text.strip_prefix("new mode ") {
        file.new_mode = Some(mode);
    } else if text.starts_with("new file mode ") {
        file.change = Change::Added;
    } else if text.starts_with("deleted file mode ") {
        file.change = Change::Deleted;
    } else if let Some(path) = text.strip_prefix("--- ").and_then(|path| names::of_one(path, "a/")) {
        file.path = path;
    } else if let Some(path) = text.strip_prefix("+++ ").and_then(|path| names::of_one(path, "b/")) {
        file.path = path;
    } else if text.starts_with("Binary files ") || text == "GIT binary patch" {
        file.binary = true;
    }
}

/// The first line of a hunk on each side, old and new.
pub(super) fn starts(header: &str) -> Option<(u32, u32)> {
    let hunk = Hunk::begin(header)?;
    // A side without lines is named by the line before it.
    let first = |side: &Side| if side.left == 0 { side.next.saturating_add(1) } else { side.next };
    Some((first(&hunk.old), first(&hunk.new)))
}

/// The progress in a hunk.
struct Hunk {
    old: Side,
    new: Side,
}

impl Hunk {
    /// Parses a header such as `@@ -1,2 +3,4 @@ …`.
    fn begin(text: &str) -> Option<Self> {
        let (old, rest) = text.strip_prefix("@@ -")?.split_once(" +")?;
        let (new, _) = rest.split_once(" @@")?;
        Some(Self { old: Side::begin(old)?, new: Side::begin(new)? })
    }

    fn is_over(&self) -> bool {
        self.old.left == 0 && self.new.left == 0
    }

    fn end(&mut self) {
        (self.old.left, self.new.left) = (0, 0);
    }
}

/// The number of the next line on one side of a hunk, and the number of remaining lines.
struct Side {
    next: u32,
    left: u32,
}

impl Side {
    /// Parses a range such as `3,4`, or `3` for `3,1`.
    fn begin(range: &str) -> Option<Self> {
        let (next, left) = range.split_once(',').unwrap_or((range, "1"));
        Some(Self { next: next.parse().ok()?, left: left.parse().ok()? })
    }

    fn take(&mut self) -> u32 {
        let number = self.next;
        self.next = number.saturating_add(1);
        self.left = self.left.saturating_sub(1);
        number
    }
}
