//! Conversion of parser events to HTML. All tags are constants in this module; all text is escaped.

use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream,
};

use super::clean::TASK;
use super::link;
use crate::highlight::{Budget, Highlighter};
use crate::visible;

/// The maximum depth of elements; deeper ones are written without their tags. The time of a browser's parser grows with
/// the depth.
const MAX_DEPTH: usize = 64;

/// The maximum size of the markup in bytes; a text with more is shown without formatting. A small table can have very
/// large markup.
const LONGEST_MARKUP: usize = 2 * 1024 * 1024;

/// Parses a text with the syntax that texts of agents and articles have in common.
pub(super) fn parse(text: &str) -> impl Iterator<Item = Event<'_>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    TextMergeStream::new(Parser::new_ext(text, options))
}

/// Converts the events of a text to markup; returns `None` if the markup exceeds [`LONGEST_MARKUP`]. `is_article` is
/// true for texts of this project, in which headings have IDs and links lead to other pages of the documentation.
pub(super) fn render<'t>(
    events: impl Iterator<Item = Event<'t>>,
    is_article: bool,
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Option<String> {
    let mut writer = Writer {
        out: String::new(),
        is_article,
        open: Vec::new(),
        links: 0,
        verbatim: None,
        cells: Cells::default(),
        highlighter,
        budget,
    };
    for event in events {
        writer.event(event);
        if writer.is_full() {
            return None;
        }
    }
    Some(writer.out)
}

/// Returns the text as one preformatted block, without any formatting.
pub(super) fn preformatted(text: &str) -> String {
    let mut out = "<pre tabindex=\"0\"><code>".to_owned();
    escape(&mut out, text);
    out.push_str("</code></pre>");
    out
}

struct Writer<'w> {
    out: String,
    is_article: bool,
    open: Vec<Open>,
    /// The number of links among the open elements: zero or one.
    links: usize,
    /// The block of code or HTML that is being read.
    verbatim: Option<Verbatim>,
    cells: Cells,
    highlighter: &'w Highlighter,
    budget: &'w mut Budget,
}

/// An element that was opened, whether its tag was written or not.
struct Open {
    end: &'static str,
    is_link: bool,
    /// The offset in the output at which the content begins.
    begin: usize,
}

/// A block whose text is shown without formatting.
#[derive(Default)]
struct Verbatim {
    info: String,
    text: String,
}

/// The position in the current table.
#[derive(Default)]
struct Cells {
    alignments: Vec<Alignment>,
    in_head: bool,
    column: usize,
}

impl Writer<'_> {
    fn is_full(&self) -> bool {
        self.out.len() > LONGEST_MARKUP
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(TagEnd::CodeBlock | TagEnd::HtmlBlock) => self.end_verbatim(),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.escaped(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => {
                let mark = if done { "☑" } else { "☐" };
                self.out.push_str(&format!("<span class=\"{TASK}\">{mark}</span> "));
            }
            // The options do not enable these.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => self.text(&text),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::CodeBlock(kind) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.verbatim = Some(Verbatim { info, ..Verbatim::default() });
            }
            Tag::HtmlBlock => self.verbatim = Some(Verbatim::default()),
            Tag::Paragraph => self.begin("<p>", "</p>"),
            Tag::Heading { level, id: Some(id), .. } if self.is_article => self.start_section(level, &id),
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => self.begin("<h4>", "</h4>"),
                HeadingLevel::H2 => self.begin("<h5>", "</h5>"),
                _ => self.begin("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.begin("<blockquote>", "</blockquote>"),
            Tag::List(None) => self.begin("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.begin("<ol>", "</ol>"),
            Tag::List(Some(first)) => self.begin(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.begin("<li>", "</li>"),
            Tag::Table(alignments) => {
                self.cells = Cells { alignments, ..Cells::default() };
                self.begin("<table tabindex=\"0\">", "</tbody></table>");
            }
            Tag::TableHead => {
                (self.cells.in_head, self.cells.column) = (true, 0);
                self.begin("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => {
                (self.cells.in_head, self.cells.column) = (false, 0);
                self.begin("<tr>", "</tr>");
            }
            Tag::TableCell => self.start_cell(),
            Tag::Emphasis => self.begin("<em>", "</em>"),
            Tag::Strong => self.begin("<strong>", "</strong>"),
            Tag::Strikethrough => self.begin("<del>", "</del>"),
            Tag::Link { link_type: LinkType::Email, dest_url, .. } => self.start_link(&format!("mailto:{dest_url}")),
            // Images are not loaded, because a request would tell the image's host who views the page, and when.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.start_link(&dest_url),
            // The options do not enable these.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => self.begin("", ""),
        }
    }

    /// Begins the heading of a section of an article. The page itself has the only `h1`.
    fn start_section(&mut self, level: HeadingLevel, id: &str) {
        let (name, end) = match level {
            HeadingLevel::H1 | HeadingLevel::H2 => ("h2", "</h2>"),
            HeadingLevel::H3 => ("h3", "</h3>"),
            _ => ("h4", "</h4>"),
        };
        let mut begin = format!("<{name} id=\"");
        escape(&mut begin, id);
        begin.push_str("\">");
        self.begin(&begin, end);
    }

    fn end(&mut self, tag: TagEnd) {
        let Some(open) = self.open.pop() else { return };
        if tag == TagEnd::Image && self.out.len() == open.begin {
            self.out.push_str("image");
        }
        self.out.push_str(open.end);
        self.links -= usize::from(open.is_link);
    }

    /// Writes the opening tag of an element. [`Self::end`] writes the closing tag.
    fn begin(&mut self, begin: &str, end: &'static str) {
        let is_shown = self.open.len() < MAX_DEPTH;
        if is_shown {
            self.out.push_str(begin);
        }
        self.open.push(Open { end: if is_shown { end } else { "" }, is_link: false, begin: self.out.len() });
    }

    fn start_cell(&mut self) {
        let align = match self.cells.alignments.get(self.cells.column) {
            Some(Alignment::Left) => " align=\"left\"",
            Some(Alignment::Center) => " align=\"center\"",
            Some(Alignment::Right) => " align=\"right\"",
            Some(Alignment::None) | None => "",
        };
        self.cells.column += 1;
        if self.cells.in_head {
            self.begin(&format!("<th{align}>"), "</th>");
        } else {
            self.begin(&format!("<td{align}>"), "</td>");
        }
    }

    /// Begins a link. If its URL is not allowed, or the link is inside another one, only its text is shown.
    fn start_link(&mut self, address: &str) {
        let is_allowed = link::is_allowed(address) || self.is_article && link::is_own(address);
        if self.links > 0 || !is_allowed {
            self.begin("", "");
            return;
        }
        let mut begin = "<a href=\"".to_owned();
        escape(&mut begin, address);
        begin.push_str("\">");
        self.begin(&begin, "</a>");
        if let Some(open) = self.open.last_mut() {
            open.is_link = true;
            self.links += 1;
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(verbatim) = &mut self.verbatim {
            verbatim.text.push_str(text);
            return;
        }
        let mut rest = text;
        if self.links == 0 {
            while let Some(range) = link::bare(rest) {
                let (before, from) = rest.split_at(range.start);
                let (address, after) = from.split_at(range.len());
                self.escaped(before);
                self.start_link(address);
                self.escaped(address);
                self.end(TagEnd::Link);
                rest = after;
            }
        }
        self.escaped(rest);
    }

    /// Writes escaped text. Makes hidden characters visible here too, because entities can produce them.
    fn escaped(&mut self, text: &str) {
        escape(&mut self.out, &visible::lines(text));
    }

    fn end_verbatim(&mut self) {
        let Some(Verbatim { info, text }) = self.verbatim.take() else { return };
        let text = visible::lines(&text);
        self.out.push_str("<pre tabindex=\"0\"><code>");
        self.out.push_str(&highlighted(&info, &text, self.highlighter, self.budget));
        self.out.push_str("</code></pre>");
    }
}

/// Returns code with a `span` for each token. It ends after [`LONGEST_MARKUP`].
pub(super) fn highlighted(info: &str, text: &str, highlighter: &Highlighter, budget: &mut Budget) -> String {
    let mut out = String::new();
    for line in highlighter.block(info, text, budget) {
        for span in line {
            match span.token {
                Some(token) => {
                    out.push_str(&format!("<span class=\"{}\">", token.class()));
                    escape(&mut out, span.text);
                    out.push_str("</span>");
                }
                None => escape(&mut out, span.text),
            }
        }
        out.push('\n');
        if out.len() > LONGEST_MARKUP {
            break;
        }
    }
    out
}

/// Escapes text for the content of an element and for a quoted attribute.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
}
