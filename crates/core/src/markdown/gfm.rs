//! Writes Markdown of code hosts. It must mean the same to parsers of CommonMark and to Python-Markdown, which Bitbucket
//! uses: characters that Python-Markdown cannot escape are written as entities or as code.

use pulldown_cmark::Alignment;

use super::tree::{Block, Emphasis, Inline, Source};

/// The languages of blocks of code. None of them is drawn by a host, or makes it load something.
pub(super) const LANGUAGES: &[&str] = &[
    "ada",
    "apache",
    "asm",
    "awk",
    "bash",
    "bat",
    "batch",
    "c",
    "c#",
    "c++",
    "clojure",
    "cmake",
    "cmd",
    "cobol",
    "conf",
    "console",
    "cpp",
    "cs",
    "csharp",
    "css",
    "cuda",
    "dart",
    "diff",
    "docker",
    "dockerfile",
    "elixir",
    "elm",
    "erlang",
    "fish",
    "fortran",
    "fsharp",
    "gherkin",
    "glsl",
    "go",
    "golang",
    "gradle",
    "graphql",
    "groovy",
    "haskell",
    "hcl",
    "html",
    "http",
    "ini",
    "java",
    "javascript",
    "jinja",
    "js",
    "json",
    "json5",
    "jsonc",
    "jsx",
    "julia",
    "kotlin",
    "less",
    "log",
    "lua",
    "make",
    "makefile",
    "markdown",
    "md",
    "nginx",
    "nim",
    "nix",
    "objc",
    "objective-c",
    "ocaml",
    "patch",
    "perl",
    "php",
    "plaintext",
    "powershell",
    "properties",
    "proto",
    "protobuf",
    "ps1",
    "py",
    "python",
    "r",
    "rb",
    "rs",
    "ruby",
    "rust",
    "sass",
    "scala",
    "scss",
    "sh",
    "shell",
    "sql",
    "svelte",
    "swift",
    "terraform",
    "text",
    "toml",
    "ts",
    "tsx",
    "txt",
    "typescript",
    "vim",
    "vue",
    "xml",
    "yaml",
    "yml",
    "zig",
    "zsh",
];

/// The number of characters of the name of a language that are shown.
const INFO_CHARS: usize = 1000;

/// Returns the language of a block of code, if it may be named, and a label for all others.
pub(super) fn language(info: &str) -> (String, Option<Vec<Inline>>) {
    let name = info.to_ascii_lowercase();
    if info.is_empty() || LANGUAGES.contains(&name.as_str()) {
        return (name, None);
    }
    let label = vec![Inline::Code(super::cut(info, INFO_CHARS)), Inline::Text(":".to_owned())];
    (String::new(), Some(label))
}

/// Writes blocks, separated by empty lines.
pub(super) fn write(blocks: &[Block], source: Source) -> String {
    let mut lines = Vec::new();
    write_blocks(blocks, source, &mut lines, false);
    lines.join("\n")
}

fn write_blocks(blocks: &[Block], source: Source, lines: &mut Vec<String>, is_tight: bool) {
    let mut is_other = false;
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 && !(is_tight && matches!(block, Block::List { .. } | Block::Code { .. })) {
            lines.push(String::new());
        }
        // A list after a list of the same kind needs another marker, or both would be one.
        let before = index.checked_sub(1).and_then(|before| blocks.get(before));
        is_other = matches!((before, block), (Some(Block::List { .. }), Block::List { .. })) && !is_other;
        write_block(block, source, is_other, lines);
    }
}

/// Writes a block. `is_other` asks for the other of two markers of a list.
fn write_block(block: &Block, source: Source, is_other: bool, lines: &mut Vec<String>) {
    let context = InlineContext { is_heading: false, is_cell: false, is_link: false };
    match block {
        Block::Paragraph(line) => lines.extend(inline(line, context).split('\n').map(str::to_owned)),
        Block::Heading(level, line) => {
            let text = inline(line, InlineContext { is_heading: true, ..context }).replace('\n', " ");
            lines.push(format!("{} {text}", "#".repeat((*level).clamp(1, 6))));
        }
        Block::Code { info, text } => write_code(info, text, lines),
        Block::Quote(blocks) => {
            let mut inner = Vec::new();
            write_blocks(blocks, source, &mut inner, false);
            if inner.is_empty() {
                inner.push(String::new());
            }
            lines.extend(inner.iter().map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") }));
        }
        Block::List { first, is_tight, items } => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 && !is_tight {
                    lines.push(String::new());
                }
                let marker = match first {
                    None => if is_other { "* " } else { "- " }.to_owned(),
                    Some(first) => {
                        let number = first.saturating_add(index as u64).min(999_999_999);
                        format!("{number}{} ", if is_other { ')' } else { '.' })
                    }
                };
                write_item(item, source, *is_tight, &marker, lines);
            }
        }
        Block::Table { alignments, rows } => write_table(alignments, rows, lines),
        Block::Rule => lines.push("* * *".to_owned()),
        Block::Comment(text) => lines.extend(format!("<!--{text}-->").split('\n').map(str::to_owned)),
    }
}

fn write_item(item: &[Block], source: Source, is_tight: bool, marker: &str, lines: &mut Vec<String>) {
    let mut inner = Vec::new();
    write_blocks(item, source, &mut inner, is_tight);
    // Python-Markdown needs four spaces for what belongs to an item.
    let indent = " ".repeat(marker.len().max(4));
    for (index, line) in inner.iter().enumerate() {
        lines.push(match (index, line.as_str()) {
            (0, line) => format!("{marker}{line}"),
            (_, "") => String::new(),
            (_, line) => format!("{indent}{line}"),
        });
    }
    if inner.is_empty() {
        lines.push(marker.trim_end().to_owned());
    }
}

fn write_code(info: &str, text: &str, lines: &mut Vec<String>) {
    let (language, label) = language(info);
    if let Some(label) = label {
        lines.extend([inline(&super::split::split_line(label), InlineContext::default()), String::new()]);
    }
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    lines.push(format!("{fence}{language}"));
    lines.extend(text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()));
    lines.push(fence);
}

fn write_table(alignments: &[Alignment], rows: &[Vec<Vec<Inline>>], lines: &mut Vec<String>) {
    let context = InlineContext { is_cell: true, ..InlineContext::default() };
    for (number, row) in rows.iter().enumerate() {
        // Rows may be shorter than the head.
        let last = row.iter().rposition(|cell| !cell.is_empty()).map_or(1, |last| last + 1);
        let shown = if number == 0 { row.len() } else { last.min(row.len()) };
        let cells: Vec<String> = row[..shown].iter().map(|cell| inline(cell, context).replace('\n', " ")).collect();
        lines.push(format!("| {} |", cells.join(" | ")));
        if number == 0 {
            let rule = |alignment: &Alignment| match alignment {
                Alignment::None => "---",
                Alignment::Left => ":--",
                Alignment::Center => ":-:",
                Alignment::Right => "--:",
            };
            lines.push(format!("| {} |", alignments.iter().map(rule).collect::<Vec<_>>().join(" | ")));
        }
    }
}

/// The construct in which a line is written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InlineContext {
    pub(super) is_heading: bool,
    pub(super) is_cell: bool,
    /// True for the text of a link that the service writes.
    pub(super) is_link: bool,
}

/// Writes a line.
pub(super) fn inline(line: &[Inline], context: InlineContext) -> String {
    let mut out = String::new();
    write_inline(line, context, &mut out);
    let lines: Vec<&str> = out.split('\n').map(|line| line.trim_start_matches([' ', '\t'])).collect();
    let text = lines.join("\n").trim_end().to_owned();
    if context.is_cell { text } else { without_definitions(text) }
}

/// Escapes a bracket at the beginning of a line before code with `]:`, which would begin the definition of a link.
fn without_definitions(text: String) -> String {
    let Some(last) = text.replace("\\]:", "   ").rfind("]:") else { return text };
    let mut escaped = String::with_capacity(text.len() + 1);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with('[') && at < last {
            escaped.push('\\');
        }
        escaped.push_str(line);
        at += line.len();
    }
    escaped
}

fn write_inline(line: &[Inline], context: InlineContext, out: &mut String) {
    for (at, part) in line.iter().enumerate() {
        match part {
            Inline::Text(text) => write_text(text, context, out),
            Inline::Code(code) => out.push_str(&code_span(code, context)),
            Inline::Url(url) if context.is_link => out.push_str(&code_span(url, context)),
            Inline::Url(url) => out.push_str(&format!("<{url}>")),
            Inline::Emphasis(kind, inside) => {
                let mut inner = String::new();
                write_inline(inside, context, &mut inner);
                let mark = match kind {
                    Emphasis::Weak => "*",
                    Emphasis::Strong => "**",
                    Emphasis::Struck => "~~",
                };
                // Marks with a space inside are none. White space moves out.
                let text = inner.trim();
                let (before, after) = (inner.len() - inner.trim_start().len(), inner.trim_end().len());
                let next = inner[after..].chars().next().or_else(|| line.get(at + 1).map(first));
                let before_mark = if before > 0 { Some(' ') } else { out.chars().next_back() };
                // Some hosts read other marks within struck text first, or a description in a line of it.
                let is_plain = !matches!(kind, Emphasis::Struck) || !text.contains(['^', '~', '\n']);
                match is_plain && is_emphasis(before_mark, text, next) {
                    // Without the marks, a sign and a name could meet.
                    false => {
                        let meets = |sign: Option<char>, next: Option<char>| {
                            let is_sign = sign.is_some_and(|c| "@＠﹫#＃!%&^$~/[".contains(c));
                            is_sign && next.is_some_and(|c| !c.is_whitespace())
                        };
                        let space = |is_needed| if is_needed { " " } else { "" };
                        let begin = space(meets(out.chars().next_back(), inner.chars().next()));
                        let end = space(meets(inner.chars().next_back(), line.get(at + 1).map(first)));
                        out.push_str(&format!("{begin}{inner}{end}"));
                    }
                    true => out.push_str(&format!("{}{mark}{text}{mark}{}", &inner[..before], &inner[after..])),
                }
            }
            Inline::Task(is_done) => out.push_str(if *is_done { "[x] " } else { "[ ] " }),
            Inline::Comment(text) => out.push_str(&format!("<!--{}-->", text.replace('\n', " "))),
            Inline::Break { .. } if context.is_cell || context.is_heading => out.push(' '),
            Inline::Break { is_hard } => {
                out.truncate(out.trim_end_matches([' ', '\t']).len());
                out.push_str(if *is_hard { "  \n" } else { "\n" });
            }
        }
    }
}

/// Returns a character like the first one of a part.
fn first(part: &Inline) -> char {
    match part {
        Inline::Text(text) => text.chars().next().unwrap_or(' '),
        Inline::Code(_) | Inline::Url(_) | Inline::Comment(_) | Inline::Task(_) => '<',
        Inline::Break { .. } => ' ',
        // Its marks may be left out.
        Inline::Emphasis(..) => 'a',
    }
}

/// Returns whether marks of emphasis around a text would be read as such, by the rules of CommonMark.
fn is_emphasis(before: Option<char>, text: &str, after: Option<char>) -> bool {
    let (Some(begin), Some(end)) = (text.chars().next(), text.chars().next_back()) else { return false };
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    // Another mark before it would be read as a part of it.
    let is_apart = !matches!(before, Some('*' | '~' | '_'));
    is_apart && (begin.is_alphanumeric() || !is_word(before)) && (end.is_alphanumeric() || !is_word(after))
}

/// Writes text, in which nothing is markup.
fn write_text(text: &str, context: InlineContext, out: &mut String) {
    let chars: Vec<char> = text.chars().collect();
    let line = out[out.rfind('\n').map_or(0, |end| end + 1)..].trim_start();
    let mut is_begin = line.is_empty();
    let mut is_number = !is_begin && line.bytes().all(|b| b.is_ascii_digit());
    for (at, c) in chars.iter().copied().enumerate() {
        let before =
            at.checked_sub(1).and_then(|before| chars.get(before)).copied().or_else(|| out.chars().next_back());
        let next = chars.get(at + 1).copied();
        let is_start = is_begin && !context.is_cell;
        let is_box = next.is_some_and(|c| " xX".contains(c)) && chars.get(at + 2) == Some(&']');
        let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let is_after_number = is_number && next.is_none_or(char::is_whitespace);
        is_number = c.is_ascii_digit() && (is_begin || is_number);
        is_begin &= c.is_whitespace();
        match c {
            '\\' | '`' | '*' | '{' => out.extend(['\\', c]),
            '_' if is_inside(before) && is_inside(next) => out.push(c),
            '_' => out.push_str("\\_"),
            '<' => out.push_str("&lt;"),
            '>' if is_start => out.push_str("&gt;"),
            '&' if next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '#') => out.push_str("&amp;"),
            '[' if context.is_link || next.is_some_and(|c| "!^[".contains(c)) || is_box => out.push_str("\\["),
            ']' if context.is_link || next.is_some_and(|c| "([:{".contains(c)) => out.push_str("\\]"),
            '!' if next == Some('[') => out.push_str("\\!"),
            '|' if context.is_cell => out.push_str("\\|"),
            // What is in braces at the end of a heading can be its attributes.
            '}' if context.is_heading => out.push_str("\\}"),
            '#' if is_start || context.is_heading => out.push_str("\\#"),
            '-' | '+' if is_start => out.extend(['\\', c]),
            '.' | ')' if is_after_number => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
}

/// Writes a span of code.
pub(super) fn code_span(code: &str, context: InlineContext) -> String {
    let fence = "`".repeat(if code.contains('`') { longest_run(code) + 1 } else { 1 });
    let needs_space = code.starts_with('`') || code.ends_with('`') || (code.starts_with(' ') && code.ends_with(' '));
    let space = if needs_space && !code.trim().is_empty() { " " } else { "" };
    let code = if context.is_cell { code.replace('|', "\\|") } else { code.to_owned() };
    // At the beginning of a paragraph, this would be the definition of a link.
    let code = if context.is_link { code.replace("]:", "] :") } else { code };
    format!("{fence}{space}{code}{space}{fence}")
}

/// Returns the length of the longest row of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}
