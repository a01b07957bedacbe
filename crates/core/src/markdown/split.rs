//! Separates what acts on hosts from the text around it, as code.

use super::active::{Active, Kind, Reader, ends_with_closing, web};
use super::tree::{Block, Inline};

/// Returns the blocks with what acts as code, and with addresses as links or code.
pub(super) fn split(blocks: Vec<Block>) -> Vec<Block> {
    blocks.into_iter().map(block).collect()
}

fn block(block: Block) -> Block {
    match block {
        Block::Paragraph(line) => Block::Paragraph(split_line(line)),
        Block::Heading(level, line) => Block::Heading(level, split_line(line)),
        Block::Code { info, text } => Block::Code { info, text: code(&text) },
        Block::Quote(blocks) => Block::Quote(split(blocks)),
        Block::List { first, is_tight, items } => {
            Block::List { first, is_tight, items: items.into_iter().map(split).collect() }
        }
        Block::Table { alignments, rows } => {
            let row = |row: Vec<Vec<Inline>>| row.into_iter().map(split_line).collect();
            Block::Table { alignments, rows: rows.into_iter().map(row).collect() }
        }
        Block::Rule => Block::Rule,
        Block::Comment(text) => Block::Comment(code(&text)),
    }
}

/// Returns a line with what acts as code.
pub(super) fn split_line(line: Vec<Inline>) -> Vec<Inline> {
    inlines(merged(plain(line), false), &mut Reader::new())
}

/// Returns a title with what acts in titles as code.
pub(super) fn split_title(line: Vec<Inline>) -> Vec<Inline> {
    inlines(merged(plain(line), true), &mut Reader::of_title())
}

/// Turns code into text that acts even in code.
fn plain(line: Vec<Inline>) -> Vec<Inline> {
    let part = |part| match part {
        Inline::Code(code) if acts_in_code(&code) => Inline::Text(code),
        Inline::Emphasis(kind, line) => Inline::Emphasis(kind, plain(line)),
        part => part,
    };
    line.into_iter().map(part).collect()
}

/// Returns whether a span of code acts. It never begins a line, because of its backtick.
fn acts_in_code(code: &str) -> bool {
    let mut reader = Reader::new();
    reader.is_line_start = false;
    reader.read(code).iter().any(|active| active.in_code)
}

/// Joins adjacent texts, and adjacent spans of code, which could not be told apart. A word that closes issues is not
/// joined with what follows it, and nothing is in a title, where a sign and a name act in code.
fn merged(line: Vec<Inline>, is_title: bool) -> Vec<Inline> {
    let mut joined: Vec<Inline> = Vec::with_capacity(line.len());
    for part in line {
        match (joined.last_mut(), part) {
            (Some(Inline::Code(text)), part @ Inline::Code(_)) if is_title || ends_with_closing(text.trim_end()) => {
                joined.extend([Inline::Text(" ".to_owned()), part]);
            }
            (Some(Inline::Text(text)), Inline::Text(more)) | (Some(Inline::Code(text)), Inline::Code(more)) => {
                text.push_str(&more);
            }
            (_, Inline::Text(text) | Inline::Code(text)) if text.is_empty() => {}
            (_, Inline::Emphasis(kind, line)) => joined.push(Inline::Emphasis(kind, merged(line, is_title))),
            (_, part) => joined.push(part),
        }
    }
    joined
}

fn inlines(line: Vec<Inline>, reader: &mut Reader) -> Vec<Inline> {
    let mut parts = Vec::with_capacity(line.len());
    for part in line {
        match part {
            Inline::Text(text) => {
                let found = reader.read(&text);
                pieces(&text, &found, &mut parts);
            }
            Inline::Emphasis(kind, line) => {
                // Its marks may be left out, so it can begin a line.
                parts.push(Inline::Emphasis(kind, inlines(line, reader)));
            }
            Inline::Break { is_hard } => {
                reader.is_line_start = true;
                parts.push(Inline::Break { is_hard });
            }
            Inline::Comment(text) => parts.push(Inline::Comment(code(&text))),
            Inline::Code(_) | Inline::Url(_) | Inline::Task(_) => {
                reader.is_line_start = matches!(part, Inline::Task(_));
                parts.push(part);
            }
        }
    }
    merged(parts, reader.is_title)
}

/// Adds the pieces of a text.
fn pieces(text: &str, found: &[Active], parts: &mut Vec<Inline>) {
    let mut at = 0;
    for Active { kind, range, in_code } in found {
        parts.push(Inline::Text(text[at..range.start].to_owned()));
        let piece = &text[range.clone()];
        at = range.end;
        parts.push(match kind {
            Kind::Address => match web(piece).filter(|_| !in_code) {
                Some(url) => Inline::Url(url),
                None => Inline::Code(piece.to_owned()),
            },
            Kind::Mention | Kind::Reference | Kind::Command | Kind::Marker | Kind::Sign | Kind::Rule => {
                Inline::Code(piece.to_owned())
            }
        });
    }
    parts.push(Inline::Text(text[at..].to_owned()));
}

/// Returns the text of a block of code, with a backslash in what acts even in code.
pub(super) fn code(text: &str) -> String {
    let found = Reader::new().read(text);
    let mut written = String::with_capacity(text.len());
    let mut at = 0;
    // Something behind a backslash does not act, as when the text was written here before.
    let acts = |active: &&Active| active.in_code && !text[..active.range.start].ends_with('\\');
    for active in found.iter().filter(acts) {
        written.push_str(&text[at..active.range.start]);
        written.push('\\');
        at = active.range.start;
    }
    written.push_str(&text[at..]);
    written
}
