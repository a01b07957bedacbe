//! Reads the HTML that a Markdown renderer passes on, as the HTML parser behind it does.
//!
//! The renderer writes pieces of HTML from the text between its own elements, and only the whole is parsed as HTML. So
//! what one piece opens, a later one may close: the text between is not shown, whatever it is in Markdown. The rules
//! are those of the HTML standard, section 13.2.5 (tokenization).

use std::ops::Range;

/// A piece of HTML, which may be several lines of the source without what stands before them in quotes and lists.
#[derive(Debug, Default)]
pub(super) struct Piece {
    text: String,
    /// The beginnings of the lines in `text` and in the source.
    lines: Vec<(usize, usize)>,
}

impl Piece {
    /// Adds a line that begins at `at` in the source.
    pub(super) fn push(&mut self, line: &str, at: usize) {
        self.lines.push((self.text.len(), at));
        self.text.push_str(line);
    }

    /// Returns the piece of a span within a line or several lines. `written` is the span without what stands before its
    /// lines.
    pub(super) fn of_span(written: &str, source: &str, at: usize) -> Self {
        let mut piece = Self::default();
        let mut start = at;
        for (line, whole) in written.split_inclusive('\n').zip(source.split_inclusive('\n')) {
            piece.push(line, start + whole.len().saturating_sub(line.len()));
            start += whole.len();
        }
        piece
    }

    /// Returns the offset in the source of an offset in the text.
    fn source(&self, at: usize) -> usize {
        let line = self.lines.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        self.lines.get(line).map_or(0, |(start, source)| source + at - start)
    }

    /// Returns the offset in the source of the end of a part of the text. It is behind the last character of the part,
    /// and not at the beginning of the next line.
    fn source_of_end(&self, end: usize) -> usize {
        if end == 0 { self.source(0) } else { self.source(end - 1) + 1 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Comment,
    /// Within an element whose contents are dropped.
    Dropped(&'static Element),
}

/// An element whose contents are dropped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: &'static str,
    pub(super) emptied: &'static str,
}

/// Finds what is hidden in pieces of HTML.
pub(super) struct Scanner {
    dropped: &'static [Element],
    state: State,
    from: usize,
    hidden: Vec<Hidden>,
}

/// HTML that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hidden {
    pub(super) range: Range<usize>,
    /// Something of the same kind without content, with which the text is read as before.
    pub(super) emptied: &'static str,
}

impl Scanner {
    pub(super) fn new(dropped: &'static [Element]) -> Self {
        Self { dropped, state: State::Text, from: 0, hidden: Vec::new() }
    }

    /// Reads the next piece.
    pub(super) fn read(&mut self, piece: &Piece) {
        let text = piece.text.as_str();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let length = match self.state {
                State::Comment => comment_end(rest),
                State::Dropped(element) => element_end(rest, element.name),
                State::Text => {
                    let Some(next) = rest.find('<') else { return };
                    at += next;
                    at += self.markup(piece, at);
                    continue;
                }
            };
            let Some(length) = length else { return };
            at += length;
            let emptied = match self.state {
                State::Dropped(element) => element.emptied,
                State::Comment if text[..at].ends_with("--!>") => "<!-- --!>",
                State::Comment | State::Text => "<!-- -->",
            };
            self.hidden.push(Hidden { range: self.from..piece.source_of_end(at), emptied });
            self.state = State::Text;
        }
    }

    /// Reads what begins with `<`, and returns the number of bytes that were read.
    fn markup(&mut self, piece: &Piece, at: usize) -> usize {
        let (rest, from) = (&piece.text[at..], piece.source(at));
        let is_name = |at: usize| rest[at..].starts_with(|c: char| c.is_ascii_alphabetic());
        if rest.starts_with("<!--") {
            if let Some(emptied) = ["<!-->", "<!--->"].into_iter().find(|empty| rest.starts_with(*empty)) {
                self.hidden.push(Hidden { range: from..piece.source_of_end(at + emptied.len()), emptied });
                return emptied.len();
            }
            (self.state, self.from) = (State::Comment, from);
            return "<!--".len();
        }
        if rest.starts_with("<!") || rest.starts_with("<?") || (rest.starts_with("</") && rest.len() > 2 && !is_name(2))
        {
            // The parser reads all of these as comments that end at the first `>`, also a CDATA section.
            let length = rest.find('>').map_or(rest.trim_end().len(), |end| end + 1);
            self.hidden
                .push(Hidden { range: from..piece.source_of_end(at + length), emptied: emptied(&rest[..length]) });
            return length;
        }
        if !(is_name(1) || rest.starts_with("</")) {
            return 1;
        }
        let length = tag_length(rest);
        let name = |tag: &str| tag.chars().skip(1).take_while(|c| c.is_ascii_alphanumeric()).collect::<String>();
        if let Some(element) = self.dropped.iter().find(|dropped| dropped.name.eq_ignore_ascii_case(&name(rest))) {
            (self.state, self.from) = (State::Dropped(element), from);
        }
        length
    }

    /// Returns the hidden parts of a source with this length.
    pub(super) fn finish(mut self, length: usize) -> Vec<Hidden> {
        let emptied = match self.state {
            State::Text => return self.hidden,
            State::Comment => "<!-- -->",
            State::Dropped(element) => element.emptied,
        };
        self.hidden.push(Hidden { range: self.from..length, emptied });
        self.hidden
    }
}

/// Returns whether cmark-gfm reads what begins a text as a comment or a declaration within a paragraph, and not as
/// text. It follows CommonMark 0.29 here: `<!--- x --->` and `<!x>` are text (`src/scanners.re`), and it looks for no
/// declaration behind a `<!--` that is text. `before` begins with the paragraph, and `text` ends with it.
pub(super) fn is_read_by_github(before: &str, text: &str) -> bool {
    if let Some(inside) = text.strip_prefix("<!--") {
        return ["<!-->", "<!--->"].iter().any(|empty| text.starts_with(empty)) || ends_for_github(inside.as_bytes());
    }
    let Some(declaration) = text.strip_prefix("<!").filter(|rest| !rest.starts_with('[')) else { return true };
    let name = declaration.bytes().take_while(u8::is_ascii_uppercase).count();
    name > 0 && declaration[name..].starts_with(|c: char| c.is_ascii_whitespace()) && !before.contains("<!--")
}

/// Returns whether a comment ends: after two hyphens, the third character is part of the comment, unless it is `>`.
fn ends_for_github(inside: &[u8]) -> bool {
    let mut at = 0;
    while at < inside.len() {
        at += match (inside[at], inside.get(at + 1), inside.get(at + 2)) {
            (b'-', Some(b'-'), Some(b'>')) => return true,
            (b'-', Some(b'-'), _) => 3,
            (b'-', _, _) => 2,
            _ => 1,
        };
    }
    false
}

/// Returns the emptied form of what the parser reads as a comment, and Markdown as an instruction, a declaration or
/// CDATA. It ends a block of its kind where the whole did.
fn emptied(whole: &str) -> &'static str {
    match whole {
        _ if whole.starts_with("<?") && whole.ends_with("?>") => "<??>",
        _ if whole.starts_with("<?") => "<? >",
        _ if whole.starts_with("<![CDATA[") && whole.ends_with("]]>") => "<![CDATA[]]>",
        _ if whole.starts_with("<![CDATA[") && whole.ends_with('>') => "<![CDATA[>",
        _ if whole.starts_with("<![CDATA[") => "<![CDATA[",
        _ if whole.starts_with("<!") && whole.ends_with('>') => "<!A >",
        _ if whole.starts_with("<!") => "<!A",
        _ => "</>",
    }
}

fn comment_end(text: &str) -> Option<usize> {
    let end = text.find("-->");
    // What is behind the one end is not searched for the other, so that many comments take linear time.
    let other = text[..end.unwrap_or(text.len())].find("--!>").map(|at| at + "--!>".len());
    other.or(end.map(|at| at + "-->".len()))
}

/// Returns the length of the rest of an element with its end tag.
fn element_end(text: &str, name: &str) -> Option<usize> {
    for (at, _) in text.match_indices("</") {
        let after = &text[at + 2..];
        let is_it = after.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        if is_it && after[name.len()..].starts_with(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>') {
            return Some(at + tag_length(&text[at..]));
        }
    }
    None
}

/// Returns the length of a tag. A `>` within quotes does not end it. A tag that the piece does not close is the rest of
/// the piece, and stays.
fn tag_length(text: &str) -> usize {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '>' => return at + 1,
            // Elsewhere, a quote is part of a name or a value.
            None if (c == '"' || c == '\'') && before == '=' => quote = Some(c),
            None => {}
        }
        if !c.is_ascii_whitespace() {
            before = c;
        }
    }
    text.len()
}
