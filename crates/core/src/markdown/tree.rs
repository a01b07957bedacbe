//! Parses Markdown into the parts that are written again. Links, images and HTML become text here.

use std::collections::BTreeSet;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::active::live;
use super::cut::cut;
use super::hidden::shown;

/// The maximum depth of lists and quotes. The content of deeper ones belongs to the one around it.
const MAX_DEPTH: usize = 8;

/// The maximum number of parts. A text with more becomes one block of code: a small table can have very many cells.
const MAX_EVENTS: usize = 400_000;

/// The number of characters of an address that are shown.
const ADDRESS_CHARS: usize = 300;

/// The writer of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// An agent, or a person.
    Author,
    /// The repository's template for descriptions of pull requests.
    Template,
}

/// A kind of emphasis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emphasis {
    Weak,
    Strong,
    Struck,
}

/// A part of a line. Text and code have visible characters only, and no newlines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inline {
    Text(String),
    Code(String),
    /// An http(s) address that is shown and leads there.
    Url(String),
    Emphasis(Emphasis, Vec<Inline>),
    /// A box to check.
    Task(bool),
    /// The inside of an HTML comment of a template.
    Comment(String),
    Break {
        is_hard: bool,
    },
}

/// A block.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Paragraph(Vec<Inline>),
    Heading(usize, Vec<Inline>),
    Code {
        info: String,
        text: String,
    },
    Quote(Vec<Block>),
    List {
        first: Option<u64>,
        is_tight: bool,
        items: Vec<Vec<Block>>,
    },
    Table {
        alignments: Vec<Alignment>,
        rows: Vec<Vec<Vec<Inline>>>,
    },
    Rule,
    /// The inside of an HTML comment of a template.
    Comment(String),
}

/// Parses a text.
pub(super) fn parse(markdown: &str, source: Source) -> Vec<Block> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut builder =
        Builder { source, frames: vec![Frame::Blocks(Blocks::default())], containers: vec![0], open: [0; 3] };
    let mut events = Parser::new_ext(markdown, options).into_offset_iter();
    let mut used = BTreeSet::new();
    for (count, (event, _)) in events.by_ref().enumerate() {
        if count == MAX_EVENTS {
            return vec![Block::Code { info: String::new(), text: shown(markdown, true).into_owned() }];
        }
        if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = &event {
            used.insert(id.to_lowercase());
        }
        builder.event(event);
    }
    // Hosts do not show the definitions of links that nothing refers to.
    let is_unused = |(label, _): &(&str, _)| !used.contains(&label.to_lowercase());
    let mut unused: Vec<_> =
        events.reference_definitions().iter().filter(is_unused).map(|(_, one)| one.span.clone()).collect();
    unused.sort_unstable_by_key(|span| span.start);
    for span in unused {
        let definition = markdown[span].split_whitespace().collect::<Vec<_>>().join(" ");
        builder.block(Block::Paragraph(vec![Inline::Code(shown(&definition, false).into_owned())]));
    }
    match builder.frames.into_iter().next() {
        Some(Frame::Blocks(mut all)) => {
            all.end_line();
            all.blocks
        }
        _ => Vec::new(),
    }
}

/// Blocks that are being read. Inline parts without a paragraph, as tight lists have, wait in `line`.
#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    line: Vec<Inline>,
    has_paragraph: bool,
}

impl Blocks {
    fn end_line(&mut self) {
        if !self.line.is_empty() {
            self.blocks.push(Block::Paragraph(std::mem::take(&mut self.line)));
        }
    }

    fn push(&mut self, block: Block) {
        self.end_line();
        self.blocks.push(block);
    }
}

/// An element that is open.
enum Frame {
    /// The document, a quote or an item.
    Blocks(Blocks),
    List {
        first: Option<u64>,
        is_tight: bool,
        items: Vec<Vec<Block>>,
    },
    /// A paragraph, heading, cell, emphasis, link or image.
    Line(Vec<Inline>),
    Verbatim {
        info: Option<String>,
        text: String,
    },
    Table {
        alignments: Vec<Alignment>,
        rows: Vec<Vec<Vec<Inline>>>,
    },
    Emphasis(Emphasis, Vec<Inline>),
    Address {
        is_image: bool,
        is_bare: bool,
        address: String,
        title: String,
        line: Vec<Inline>,
    },
    /// An element whose content belongs to the one around it.
    Skipped,
}

struct Builder {
    source: Source,
    frames: Vec<Frame>,
    /// The indexes of the frames with blocks.
    containers: Vec<usize>,
    /// The numbers of open frames of each kind of emphasis.
    open: [usize; 3],
}

impl Builder {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) => match self.frames.last_mut() {
                Some(Frame::Verbatim { text: verbatim, .. }) => verbatim.push_str(&text),
                _ => self.inline(Inline::Text(shown(&text, false).into_owned())),
            },
            Event::Code(text) => self.inline(Inline::Code(shown(&text.replace('\n', " "), false).into_owned())),
            Event::InlineHtml(html) => self.inline_html(&html),
            Event::SoftBreak => self.inline(Inline::Break { is_hard: false }),
            Event::HardBreak => self.inline(Inline::Break { is_hard: true }),
            Event::Rule => self.block(Block::Rule),
            Event::TaskListMarker(is_done) => match self.source {
                Source::Author => self.inline(Inline::Text(if is_done { "[x] " } else { "[ ] " }.to_owned())),
                Source::Template => self.inline(Inline::Task(is_done)),
            },
            // The options do not enable these.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.inline(Inline::Code(shown(&text, false).into_owned()));
            }
        }
    }

    fn inline_html(&mut self, html: &str) {
        let tag: String = html.chars().filter(|c| !c.is_whitespace()).collect();
        if matches!(tag.to_ascii_lowercase().as_str(), "<br>" | "<br/>") {
            return self.inline(Inline::Break { is_hard: true });
        }
        match comment_of(html).filter(|_| self.source == Source::Template) {
            Some(comment) => self.inline(Inline::Comment(comment)),
            None => self.inline(Inline::Code(shown(&html.replace('\n', " "), false).into_owned())),
        }
    }

    /// Adds a part to the innermost line.
    fn inline(&mut self, inline: Inline) {
        if let Some(line) = self.line() {
            line.push(inline);
        }
    }

    fn line(&mut self) -> Option<&mut Vec<Inline>> {
        self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Line(line) | Frame::Emphasis(_, line) | Frame::Address { line, .. } => Some(line),
            Frame::Blocks(blocks) => Some(&mut blocks.line),
            Frame::List { .. } | Frame::Verbatim { .. } | Frame::Table { .. } | Frame::Skipped => None,
        })
    }

    /// Returns whether the innermost line ends with a letter or a digit.
    fn ends_with_word(&mut self) -> bool {
        let last = self.line().and_then(|line| line.last());
        matches!(last, Some(Inline::Text(text)) if text.ends_with(char::is_alphanumeric))
    }

    fn innermost(&mut self) -> Option<&mut Blocks> {
        match self.frames.get_mut(*self.containers.last()?) {
            Some(Frame::Blocks(blocks)) => Some(blocks),
            _ => None,
        }
    }

    fn block(&mut self, block: Block) {
        if let Some(blocks) = self.innermost() {
            blocks.push(block);
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let starts_block = matches!(
            tag,
            Tag::Paragraph
                | Tag::Heading { .. }
                | Tag::BlockQuote(_)
                | Tag::CodeBlock(_)
                | Tag::HtmlBlock
                | Tag::List(_)
                | Tag::Table(_)
        );
        if let Some(blocks) = self.innermost().filter(|_| starts_block) {
            blocks.end_line();
            blocks.has_paragraph |= tag == Tag::Paragraph;
        }
        let is_deep = self.containers.len() > MAX_DEPTH;
        let frame = match tag {
            Tag::BlockQuote(_) if !is_deep => Frame::Blocks(Blocks::default()),
            Tag::List(first) if !is_deep => Frame::List { first, is_tight: true, items: Vec::new() },
            Tag::Item if matches!(self.frames.last(), Some(Frame::List { .. })) => Frame::Blocks(Blocks::default()),
            Tag::Paragraph | Tag::Heading { .. } | Tag::TableCell => Frame::Line(Vec::new()),
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                Frame::Verbatim { info: Some(info.trim().to_owned()), text: String::new() }
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => {
                Frame::Verbatim { info: Some(String::new()), text: String::new() }
            }
            Tag::HtmlBlock => Frame::Verbatim { info: None, text: String::new() },
            Tag::Table(alignments) => Frame::Table { alignments, rows: Vec::new() },
            Tag::TableHead | Tag::TableRow => {
                if let Some(Frame::Table { rows, .. }) = self.frames.last_mut() {
                    rows.push(Vec::new());
                }
                Frame::Skipped
            }
            Tag::Emphasis => self.emphasis(Emphasis::Weak),
            Tag::Strong => self.emphasis(Emphasis::Strong),
            Tag::Strikethrough => self.emphasis(Emphasis::Struck),
            Tag::Link { link_type, dest_url, title, .. } => Frame::Address {
                is_image: false,
                is_bare: matches!(link_type, LinkType::Autolink | LinkType::Email),
                address: dest_url.into_string(),
                title: title.into_string(),
                line: Vec::new(),
            },
            Tag::Image { dest_url, title, .. } => Frame::Address {
                is_image: true,
                is_bare: false,
                address: dest_url.into_string(),
                title: title.into_string(),
                line: Vec::new(),
            },
            _ => Frame::Skipped,
        };
        match &frame {
            Frame::Blocks(_) => self.containers.push(self.frames.len()),
            Frame::Emphasis(kind, _) => self.open[*kind as usize] += 1,
            _ => {}
        }
        self.frames.push(frame);
    }

    /// Returns emphasis, unless it is in emphasis of the same kind.
    fn emphasis(&self, kind: Emphasis) -> Frame {
        if self.open[kind as usize] > 0 { Frame::Skipped } else { Frame::Emphasis(kind, Vec::new()) }
    }

    fn end(&mut self, tag: TagEnd) {
        let frame = self.frames.pop();
        match &frame {
            Some(Frame::Blocks(_)) => {
                self.containers.pop();
            }
            Some(Frame::Emphasis(kind, _)) => self.open[*kind as usize] -= 1,
            _ => {}
        }
        match (frame, tag) {
            (Some(Frame::Line(line)), TagEnd::Heading(level)) => self.block(Block::Heading(level as usize, line)),
            (Some(Frame::Line(cell)), TagEnd::TableCell) => {
                let table = self.frames.iter_mut().rev().find_map(|frame| match frame {
                    Frame::Table { rows, .. } => rows.last_mut(),
                    _ => None,
                });
                if let Some(row) = table {
                    row.push(cell);
                }
            }
            (Some(Frame::Line(line)), _) => self.block(Block::Paragraph(line)),
            (Some(Frame::Blocks(mut blocks)), TagEnd::Item) => {
                blocks.end_line();
                if let Some(Frame::List { is_tight, items, .. }) = self.frames.last_mut() {
                    *is_tight &= !blocks.has_paragraph;
                    items.push(blocks.blocks);
                }
            }
            (Some(Frame::Blocks(mut blocks)), _) => {
                blocks.end_line();
                self.block(Block::Quote(blocks.blocks));
            }
            (Some(Frame::List { first, is_tight, items }), _) => self.block(Block::List { first, is_tight, items }),
            (Some(Frame::Verbatim { info, text }), _) => self.verbatim(info, &text),
            (Some(Frame::Table { alignments, rows }), _) => self.block(Block::Table { alignments, rows }),
            (Some(Frame::Emphasis(kind, line)), _) if !line.is_empty() => self.inline(Inline::Emphasis(kind, line)),
            (Some(Frame::Address { is_image, is_bare, address, title, line }), _) => {
                if is_image && self.ends_with_word() {
                    self.inline(Inline::Text(" ".to_owned()));
                }
                for part in addressed(is_image, is_bare, &address, &title, line) {
                    self.inline(part);
                }
            }
            (Some(Frame::Skipped), TagEnd::Item) => {
                if let Some(blocks) = self.innermost() {
                    blocks.end_line();
                }
            }
            (Some(Frame::Emphasis(..) | Frame::Skipped) | None, _) => {}
        }
    }

    /// Adds a block of code or HTML. `info` is `None` for HTML.
    fn verbatim(&mut self, info: Option<String>, text: &str) {
        let shown = |text: &str| shown(text, true).into_owned();
        let Some(info) = info else {
            let html = text.trim_end();
            if let Some(comment) = comment_of(html).filter(|_| self.source == Source::Template) {
                return self.block(Block::Comment(comment));
            }
            return self.block(match html.contains('\n') {
                true => Block::Code { info: "html".to_owned(), text: shown(html) },
                false => Block::Paragraph(vec![Inline::Code(shown(html.trim()))]),
            });
        };
        self.block(Block::Code {
            info: super::hidden::shown(&info, false).into_owned(),
            text: shown(text.strip_suffix('\n').unwrap_or(text)),
        });
    }
}

/// Returns the inside of an HTML comment that is a comment for every parser.
fn comment_of(html: &str) -> Option<String> {
    let inside = html.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let is_plain = !["-->", "--!>", "<!--"].iter().any(|end| inside.contains(end));
    let is_ours = inside.trim_start().to_lowercase().starts_with("journeyman");
    let is_whole = is_plain && !is_ours && !inside.starts_with(['>', '-']) && !inside.ends_with(['-', '!']);
    is_whole.then(|| shown(inside, true).into_owned())
}

/// Returns the text of a link or an image, with its address. The address of an image is never a link, because hosts show
/// some links to images as images.
fn addressed(is_image: bool, is_bare: bool, address: &str, title: &str, line: Vec<Inline>) -> Vec<Inline> {
    let visible = cut(&shown(address, false), ADDRESS_CHARS);
    let target = match live(address).filter(|_| !is_image) {
        Some(url) => Inline::Url(url),
        None if is_bare => Inline::Text(visible),
        None if visible.trim().is_empty() => Inline::Text("no address".to_owned()),
        None => Inline::Code(visible),
    };
    let text = plain_of(&line);
    if !is_image && title.is_empty() && (is_bare || text.trim().is_empty() || text == address) {
        return vec![target];
    }
    let text = |text: &str| Inline::Text(text.to_owned());
    let mut parts = Vec::with_capacity(line.len() + 4);
    if is_image {
        parts.push(text(if line.is_empty() { "image" } else { "image: " }));
    }
    parts.extend(line);
    parts.extend([text(" ("), target]);
    if !title.is_empty() {
        parts.push(Inline::Text(format!(", \"{}\"", shown(&title.replace('\n', " "), false))));
    }
    parts.push(text(")"));
    parts
}

/// Returns the text of a line.
pub(super) fn plain_of(line: &[Inline]) -> String {
    let mut text = String::new();
    for part in line {
        match part {
            Inline::Text(part) | Inline::Code(part) | Inline::Url(part) => text.push_str(part),
            Inline::Emphasis(_, line) => text.push_str(&plain_of(line)),
            Inline::Break { .. } => text.push(' '),
            Inline::Task(_) | Inline::Comment(_) => {}
        }
    }
    text
}
