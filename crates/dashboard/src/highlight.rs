//! Syntax highlighting as data: each line becomes spans of text with their tokens. The templates escape the text, and
//! the stylesheet defines the colors.
//!
//! Parsing takes CPU time, some milliseconds for a hundred lines, so handlers call this module within `spawn_blocking`.
//! A [`Budget`] limits the cost; text beyond it is not highlighted.

#[cfg(test)]
mod tests;
mod token;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, ScopeStack, ScopeStackOp, SyntaxReference, SyntaxSet};

use self::token::Scopes;
pub(crate) use self::token::Token;

/// The maximum length of a highlighted line in bytes: the time of a grammar can grow with the square of the length.
const LONGEST_LINE: usize = 2_000;

/// Names of languages in Markdown that are not names of a grammar, with the name or extension to use instead.
const ALIASES: &[(&str, &str)] = &[
    ("c++", "cpp"),
    ("console", "sh"),
    ("csharp", "cs"),
    ("docker", "Dockerfile"),
    ("golang", "go"),
    ("javascript", "js"),
    ("jsonc", "json"),
    ("make", "Makefile"),
    ("markdown", "md"),
    ("mjs", "js"),
    ("patch", "diff"),
    ("shell", "sh"),
    ("typescript", "ts"),
    ("zsh", "sh"),
];

/// A part of a line with one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span<'t> {
    /// The token; `None` for text without color.
    pub(crate) token: Option<Token>,
    /// The raw text of the file: not escaped, and with hidden characters.
    pub(crate) text: &'t str,
}

/// The limit of lines and time for the highlighting of a page. All texts of the page share it.
#[derive(Debug)]
pub(crate) struct Budget {
    lines: usize,
    until: Instant,
}

impl Budget {
    /// Creates the budget of one page. Unchanged lines of a diff can count twice, once for each side.
    pub(crate) fn page() -> Self {
        Self::new(3_000, Duration::from_secs(1))
    }

    /// Creates the budget of a page that is rendered once and does not contain text from outside.
    pub(crate) fn own_page() -> Self {
        Self::new(20_000, Duration::from_secs(30))
    }

    /// Creates a budget with which nothing is highlighted and no grammar is loaded.
    pub(crate) fn none() -> Self {
        Self::new(0, Duration::ZERO)
    }

    fn new(lines: usize, time: Duration) -> Self {
        Self { lines, until: Instant::now() + time }
    }

    /// Takes one line from the budget; returns `false` if no lines or no time are left.
    fn take_line(&mut self) -> bool {
        if self.lines == 0 || self.is_late() {
            return false;
        }
        self.lines -= 1;
        true
    }

    /// Returns true if the time has run out. Checked between lines, because a grammar cannot be interrupted.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[cfg(test)]
impl Budget {
    /// Creates a budget whose time does not run out, so that tests do not depend on the speed of the machine.
    pub(crate) fn without_deadline(lines: usize) -> Self {
        Self::new(lines, Duration::from_secs(3_600))
    }
}

/// A syntax highlighter. Clones share the grammars, which are loaded on first use.
#[derive(Clone, Default)]
pub(crate) struct Highlighter {
    grammars: Arc<OnceLock<Grammars>>,
}

impl Highlighter {
    /// Creates a highlighter without loading the grammars.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Highlights consecutive lines of a file, such as one side of a hunk, and returns the spans of each line. The
    /// file's name determines the language.
    ///
    /// The lines before the first one are unknown: a hunk that begins inside a comment is highlighted like code.
    pub(crate) fn file<'t>(&self, path: &str, lines: &[&'t str], budget: &mut Budget) -> Vec<Vec<Span<'t>>> {
        if budget.lines == 0 {
            return lines.iter().copied().map(plain).collect();
        }
        let grammars = self.grammars();
        grammars.highlight(grammars.of_file(path), lines, budget)
    }

    /// Highlights a code block in Markdown. The info string of its fence determines the language.
    pub(crate) fn block<'t>(&self, info: &str, code: &'t str, budget: &mut Budget) -> Vec<Vec<Span<'t>>> {
        let lines: Vec<&str> = code.lines().collect();
        let language = info.split([' ', '\t', ',', '{', ';']).next().unwrap_or_default();
        if language.is_empty() || budget.lines == 0 {
            return lines.into_iter().map(plain).collect();
        }
        let grammars = self.grammars();
        grammars.highlight(grammars.of_language(language), &lines, budget)
    }

    fn grammars(&self) -> &Grammars {
        self.grammars.get_or_init(Grammars::bundled)
    }
}

/// The grammars of all languages, and the tokens of their scopes.
struct Grammars {
    syntaxes: SyntaxSet,
    scopes: Scopes,
}

impl Grammars {
    fn bundled() -> Self {
        Self { syntaxes: two_face::syntax::extra_newlines(), scopes: Scopes::new() }
    }

    /// Returns the grammar for a file name, such as `Makefile`, or else for its extension.
    fn of_file(&self, path: &str) -> Option<&SyntaxReference> {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.syntaxes.find_syntax_by_extension(name).or_else(|| {
            let (_, extension) = name.rsplit_once('.')?;
            self.syntaxes.find_syntax_by_extension(extension)
        })
    }

    fn of_language(&self, language: &str) -> Option<&SyntaxReference> {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(language));
        self.syntaxes.find_syntax_by_token(alias.map_or(language, |(_, name)| name))
    }

    fn highlight<'t>(
        &self,
        syntax: Option<&SyntaxReference>,
        lines: &[&'t str],
        budget: &mut Budget,
    ) -> Vec<Vec<Span<'t>>> {
        let mut highlighted = Vec::with_capacity(lines.len());
        if let Some(syntax) = syntax {
            // syntect panics if a regular expression does not compile, and grammars build some from the file's text,
            // such as the end of a here-document. The rest of such a file is not highlighted; its page still renders.
            let read = catch_unwind(AssertUnwindSafe(|| self.read(syntax, lines, budget, &mut highlighted)));
            if read.is_err() {
                tracing::debug!(syntax = %syntax.name, "a grammar failed; the rest of the text is not highlighted");
            }
        }
        let rest = lines.get(highlighted.len()..).unwrap_or_default();
        highlighted.extend(rest.iter().map(|line| plain(line)));
        highlighted
    }

    /// Adds the spans of each line, until the budget is used up or the grammar fails.
    fn read<'t>(
        &self,
        syntax: &SyntaxReference,
        lines: &[&'t str],
        budget: &mut Budget,
        highlighted: &mut Vec<Vec<Span<'t>>>,
    ) {
        let mut state = ParseState::new(syntax);
        let mut stack = ScopeStack::new();
        // These grammars require the newline at the end of a line.
        let mut with_newline = String::new();
        for line in lines {
            if line.len() > LONGEST_LINE {
                highlighted.push(plain(line));
                continue;
            }
            if !budget.take_line() {
                return;
            }
            with_newline.clear();
            with_newline.push_str(line);
            with_newline.push('\n');
            let Ok(operations) = state.parse_line(&with_newline, &self.syntaxes) else { return };
            let Some(spans) = self.spans(line, &operations, &mut stack) else { return };
            highlighted.push(spans);
        }
    }

    /// Splits a line where its scopes change; returns `None` if the operations are inconsistent.
    fn spans<'t>(
        &self,
        line: &'t str,
        operations: &[(usize, ScopeStackOp)],
        stack: &mut ScopeStack,
    ) -> Option<Vec<Span<'t>>> {
        // Each token with its end. Adjacent equal tokens are merged.
        let mut ends: Vec<(Option<Token>, usize)> = Vec::new();
        let mut begin = 0;
        for (at, operation) in operations {
            // The added newline is not part of the line.
            let at = (*at).min(line.len());
            if at > begin {
                extend(&mut ends, self.scopes.token(stack.as_slice()), at);
                begin = at;
            }
            stack.apply(operation).ok()?;
        }
        if begin < line.len() {
            extend(&mut ends, self.scopes.token(stack.as_slice()), line.len());
        }
        let mut begin = 0;
        let mut spans = Vec::with_capacity(ends.len());
        for (token, end) in ends {
            spans.push(Span { token, text: line.get(begin..end)? });
            begin = end;
        }
        Some(spans)
    }
}

fn extend(ends: &mut Vec<(Option<Token>, usize)>, token: Option<Token>, end: usize) {
    match ends.last_mut() {
        Some((last, until)) if *last == token => *until = end,
        _ => ends.push((token, end)),
    }
}

/// Returns a line without highlighting. An empty line has no spans.
fn plain(text: &str) -> Vec<Span<'_>> {
    if text.is_empty() { Vec::new() } else { vec![Span { token: None, text }] }
}
