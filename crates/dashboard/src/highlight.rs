//! Syntax colours, as data: each line becomes spans of text with what they are. The templates escape the text, and the
//! stylesheet says the colours.
//!
//! Reading a grammar's tokens is work for the processor, milliseconds for a hundred lines: a handler calls this inside
//! `spawn_blocking`. What it may cost is bounded by a [`Budget`]; beyond it text is plain.

#[cfg(test)]
mod tests;
mod token;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, ScopeStack, ScopeStackOp, SyntaxReference, SyntaxSet};

use self::token::Scopes;
pub(crate) use self::token::Token;

/// A longer line is plain: the time that a grammar takes may grow with the square of a line's length.
const LONGEST_LINE: usize = 2_000;

/// Names in Markdown that no grammar goes by.
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

/// A stretch of a line that is one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span<'t> {
    /// What it is, if it has a colour.
    pub(crate) token: Option<Token>,
    /// Its text, as it is in the file: neither escaped nor made visible.
    pub(crate) text: &'t str,
}

/// How much may be coloured. One for each page, however many texts are on it.
#[derive(Debug)]
pub(crate) struct Budget {
    lines: usize,
    until: Instant,
}

impl Budget {
    /// What one page may cost. The unchanged lines of a diff may count twice, once for each side.
    pub(crate) fn page() -> Self {
        Self::new(3_000, Duration::from_secs(1))
    }

    fn new(lines: usize, time: Duration) -> Self {
        Self { lines, until: Instant::now() + time }
    }

    /// Takes one line out of it; `false` where there is none left.
    fn take_line(&mut self) -> bool {
        if self.lines == 0 || self.is_late() {
            return false;
        }
        self.lines -= 1;
        true
    }

    /// Whether the time is over. It is looked at between lines, for a grammar cannot be interrupted.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

#[cfg(test)]
impl Budget {
    /// For tests, which a slow machine must not change.
    pub(crate) fn patient(lines: usize) -> Self {
        Self::new(lines, Duration::from_secs(3_600))
    }
}

/// Colours text. A clone shares the grammars, which are loaded when they are first asked for.
#[derive(Clone, Default)]
pub(crate) struct Highlighter {
    grammars: Arc<OnceLock<Grammars>>,
}

impl Highlighter {
    /// One that has loaded nothing yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Colours lines of a file that follow each other, such as one side of a hunk. For each line there are the spans
    /// that it consists of; the name of the file says in which language it is.
    ///
    /// What stands before the first line is not known: a hunk that begins inside a comment looks like code.
    pub(crate) fn file<'t>(&self, path: &str, lines: &[&'t str], budget: &mut Budget) -> Vec<Vec<Span<'t>>> {
        let grammars = self.grammars();
        grammars.coloured(grammars.of_file(path), lines, budget)
    }

    /// Colours a block of code in Markdown by the info string of its fence.
    pub(crate) fn block<'t>(&self, info: &str, code: &'t str, budget: &mut Budget) -> Vec<Vec<Span<'t>>> {
        let lines: Vec<&str> = code.lines().collect();
        let language = info.split([' ', '\t', ',', '{', ';']).next().unwrap_or_default();
        if language.is_empty() {
            return lines.into_iter().map(plain).collect();
        }
        let grammars = self.grammars();
        grammars.coloured(grammars.of_language(language), &lines, budget)
    }

    fn grammars(&self) -> &Grammars {
        self.grammars.get_or_init(Grammars::bundled)
    }
}

/// All languages, and what their scopes mean here.
struct Grammars {
    syntaxes: SyntaxSet,
    scopes: Scopes,
}

impl Grammars {
    fn bundled() -> Self {
        Self { syntaxes: two_face::syntax::extra_newlines(), scopes: Scopes::new() }
    }

    /// By the name, as for `Makefile`, else by what follows the last dot.
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

    fn coloured<'t>(
        &self,
        syntax: Option<&SyntaxReference>,
        lines: &[&'t str],
        budget: &mut Budget,
    ) -> Vec<Vec<Span<'t>>> {
        let mut coloured = Vec::with_capacity(lines.len());
        if let Some(syntax) = syntax {
            // syntect panics where a regular expression does not compile, and grammars make some of the file's own
            // text, such as the end of a here-document. Such a file is plain from there; its page is not lost.
            let read = catch_unwind(AssertUnwindSafe(|| self.read(syntax, lines, budget, &mut coloured)));
            if read.is_err() {
                tracing::debug!(syntax = %syntax.name, "a grammar failed");
            }
        }
        let rest = lines.get(coloured.len()..).unwrap_or_default();
        coloured.extend(rest.iter().map(|line| plain(line)));
        coloured
    }

    /// Pushes line by line, up to the end, or to where the budget or the grammar ends.
    fn read<'t>(
        &self,
        syntax: &SyntaxReference,
        lines: &[&'t str],
        budget: &mut Budget,
        coloured: &mut Vec<Vec<Span<'t>>>,
    ) {
        let mut state = ParseState::new(syntax);
        let mut stack = ScopeStack::new();
        // These grammars want the newline that a line ends with.
        let mut with_newline = String::new();
        for line in lines {
            if line.len() > LONGEST_LINE {
                coloured.push(plain(line));
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
            coloured.push(spans);
        }
    }

    /// Cuts a line where its scopes change; `None` where they make no sense.
    fn spans<'t>(
        &self,
        line: &'t str,
        operations: &[(usize, ScopeStackOp)],
        stack: &mut ScopeStack,
    ) -> Option<Vec<Span<'t>>> {
        // Each with where it ends; what is alike is one.
        let mut ends: Vec<(Option<Token>, usize)> = Vec::new();
        let mut begin = 0;
        for (at, operation) in operations {
            // The newline is not part of what is shown.
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

/// A line without colours; an empty one has no spans.
fn plain(text: &str) -> Vec<Span<'_>> {
    if text.is_empty() { Vec::new() } else { vec![Span { token: None, text }] }
}
