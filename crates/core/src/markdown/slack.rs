//! Writes the notation of Slack.

use super::tree::{Block, Emphasis, Inline};

/// Writes blocks, separated by empty lines.
pub(super) fn write(blocks: &[Block]) -> String {
    lines_of(blocks, false).join("\n")
}

fn lines_of(blocks: &[Block], is_tight: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 && !is_tight {
            lines.push(String::new());
        }
        write_block(block, &mut lines);
    }
    lines
}

fn write_block(block: &Block, lines: &mut Vec<String>) {
    match block {
        Block::Paragraph(line) => lines.extend(inline(line, None).split('\n').map(str::to_owned)),
        Block::Heading(_, line) => {
            lines.push(format!("*{}*", inline(line, Some(Emphasis::Strong)).replace('\n', " ").trim()));
        }
        Block::Code { info, text } => {
            lines.extend(super::gfm::language(info).1.map(|label| inline(&label, None)));
            write_code(text, lines);
        }
        Block::Quote(blocks) => lines.extend(lines_of(blocks, false).iter().map(|line| format!("> {line}"))),
        Block::List { first, is_tight, items } => {
            for (index, item) in items.iter().enumerate() {
                let marker = match first {
                    None => "• ".to_owned(),
                    Some(first) => format!("{}. ", first.saturating_add(index as u64)),
                };
                for (number, line) in lines_of(item, *is_tight).iter().enumerate() {
                    lines.push(format!("{}{line}", if number == 0 { &marker } else { "  " }));
                }
            }
        }
        Block::Table { rows, .. } => {
            let cell = |cell: &Vec<Inline>| super::tree::plain_of(cell);
            let row = |row: &Vec<Vec<Inline>>| row.iter().map(cell).collect::<Vec<_>>().join(" | ");
            write_code(&rows.iter().map(row).collect::<Vec<_>>().join("\n"), lines);
        }
        Block::Rule => lines.push("———".to_owned()),
        Block::Comment(text) => lines.push(escaped(&format!("<!--{text}-->"))),
    }
}

fn write_code(text: &str, lines: &mut Vec<String>) {
    lines.push("```".to_owned());
    lines.extend(without_backticks(&escaped(text)).split('\n').map(str::to_owned));
    lines.push("```".to_owned());
}

/// Writes a line. `open` is the emphasis around it, which Slack does not nest.
pub(super) fn inline(line: &[Inline], open: Option<Emphasis>) -> String {
    let mut out = String::new();
    for part in line {
        match part {
            Inline::Text(text) => out.push_str(&without_backticks(&escaped(text))),
            Inline::Code(code) => out.push_str(&code_span(code)),
            Inline::Url(url) => out.push_str(&format!("<{}>", escaped(url))),
            Inline::Emphasis(kind, line) if open == Some(*kind) => out.push_str(&inline(line, open)),
            Inline::Emphasis(kind, line) => {
                let mark = match kind {
                    Emphasis::Weak => '_',
                    Emphasis::Strong => '*',
                    Emphasis::Struck => '~',
                };
                out.push_str(&format!("{mark}{}{mark}", inline(line, Some(*kind))));
            }
            Inline::Task(is_done) => out.push_str(if *is_done { "[x] " } else { "[ ] " }),
            Inline::Comment(text) => out.push_str(&escaped(&format!("<!--{text}-->"))),
            Inline::Break { .. } => out.push('\n'),
        }
    }
    out
}

/// Writes a span of code.
pub(super) fn code_span(code: &str) -> String {
    format!("`{}`", without_backticks(&escaped(code)))
}

/// Escapes the characters that have a meaning in the notation.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Replaces backticks, which Slack cannot escape, by a similar character.
fn without_backticks(code: &str) -> String {
    code.replace('`', "ˋ")
}
