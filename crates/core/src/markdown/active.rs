//! Finds what acts on hosts, in text and in code.

use std::ops::Range;

use url::{Position, Url};

/// Something in a text that can act where it is shown, or be read as markup there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) kind: Kind,
    /// The part that becomes code, so that the rest no longer acts: the name after `@`, or the number after `#`.
    pub(super) range: Range<usize>,
    /// True if it also acts in code: hosts search for words that close issues in the source of a description, and a
    /// description can become the message of a commit, in which nothing is code.
    pub(super) in_code: bool,
}

/// A kind of what acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The name of a person, a team or a bot.
    Mention,
    /// The number or name of an issue, a pull request or the like.
    Reference,
    /// The name of a command at the beginning of a line.
    Command,
    /// A word that a host, CI or this service searches for, such as that in `[skip ci]`.
    Marker,
    /// An address with a scheme, or one that begins with `www.`.
    Address,
    /// A `$`, which begins mathematics or a variable, or a row of `~`, with what follows.
    Sign,
    /// A line that would underline a heading, or separate the head of a table.
    Rule,
}

/// Words before the name of an issue that close or reopen it on a code host or in an issue tracker.
pub(super) const CLOSING: &[&str] = &[
    "close",
    "closes",
    "closed",
    "closing",
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "resolve",
    "resolves",
    "resolved",
    "resolving",
    "implement",
    "implements",
    "implemented",
    "implementing",
    "complete",
    "completes",
    "completed",
    "completing",
    "reopen",
    "reopens",
    "reopened",
    "reopening",
    "transition",
    "transitions",
    "ref",
    "refs",
    "addresses",
    "references",
];

/// Words that may stand between such a word and the name of the issue.
const BETWEEN: &[&str] = &["issue", "issues", "bug", "bugs", "ticket", "tickets", "and", "to"];

/// The keys of trailers of commits, besides those that end with `-by`.
const TRAILERS: &[&str] = &["change-id", "release-as", "skip-checks", "on-behalf-of", "skip-ci"];

/// The parts of URLs after which the number of an issue, a pull request or the like follows.
const PAGES: &[&str] = &[
    "issue",
    "issues",
    "pull",
    "pulls",
    "pull-requests",
    "merge_requests",
    "work_items",
    "epics",
    "browse",
    "discussions",
    "incidents",
    "alerts",
];

/// The ends of files that some hosts show instead of a link to them.
const MEDIA: &[&str] = &[
    ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif", ".apng", ".bmp", ".ico", ".tif", ".tiff", ".heic",
    ".mp4", ".m4v", ".mov", ".webm", ".ogv", ".avi", ".mp3", ".m4a", ".ogg", ".oga", ".wav", ".flac", ".pdf", ".cast",
];

/// The maximum length of an address that remains a link, in bytes.
const LONGEST_LINK: usize = 2000;

/// Returns an address as it may be a link: http(s), without a user name, not that of an image or the like, which some
/// hosts show in place of the link, and not that of an issue or a pull request, which gets a note about each text that
/// names it, or is closed. All characters that could be markup are encoded.
pub(super) fn live(address: &str) -> Option<String> {
    let url = Url::parse(address.trim()).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty());
    if !is_web || !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let parts: Vec<&str> = url.path_segments()?.collect();
    let is_page = |pair: &[&str]| {
        PAGES.contains(&pair[0].to_ascii_lowercase().as_str()) && pair[1].contains(|c: char| c.is_ascii_digit())
    };
    let file = parts.last().map(|last| last.to_ascii_lowercase()).unwrap_or_default();
    let is_medium = MEDIA.iter().any(|end| file.ends_with(end)) || parts.first() == Some(&"user-attachments");
    let is_work_item =
        parts.contains(&"_workitems") || url.query().is_some_and(|query| query.contains("selectedIssue"));
    let acts = is_medium || is_work_item || parts.windows(2).any(is_page);
    if acts || !url.host_str().is_some_and(|host| host.chars().all(is_host)) {
        return None;
    }
    let mut text = url[..Position::BeforePath].to_owned();
    for c in url[Position::BeforePath..].chars() {
        match c {
            '@' | '$' | '`' | '|' | '\\' | '{' | '}' | '*' | '~' | '^' | '[' | ']' | '\'' | '"' | '<' | '>' | '('
            | ')' => {
                text.push_str(&format!("%{:02X}", u32::from(c)));
            }
            _ => text.push(c),
        }
    }
    (text.bytes().all(|b| b.is_ascii_graphic()) && text.len() <= LONGEST_LINK).then_some(text)
}

/// Returns an address of a text, which may begin with `www.`, as it may be a link.
pub(super) fn web(address: &str) -> Option<String> {
    if address.contains("://") { live(address) } else { live(&format!("https://{address}")) }
}

/// The maximum length of the scheme of an address, in bytes.
const LONGEST_SCHEME: usize = 40;

/// The number of characters of a reference in brackets that are read.
const LONGEST_BRACKET: usize = 200;

/// Reads a text from its beginning. What comes before decides about what follows, also in the next part of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    /// True at the beginning of a line.
    pub(super) is_line_start: bool,
    /// True after a word that closes issues.
    is_closing: bool,
    /// True in titles, in which `$` and `~` do not act.
    pub(super) is_title: bool,
}

impl Reader {
    /// Returns a reader at the beginning of a block.
    pub(super) const fn new() -> Self {
        Self { is_line_start: true, is_closing: false, is_title: false }
    }

    /// Returns a reader of titles.
    pub(super) const fn of_title() -> Self {
        Self { is_title: true, ..Self::new() }
    }

    /// Returns what acts in a text, in order and without overlap.
    pub(super) fn read(&mut self, text: &str) -> Vec<Active> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let length = match c {
                '\n' => {
                    self.is_line_start = true;
                    at += 1;
                    continue;
                }
                _ if c.is_whitespace() => c.len_utf8(),
                _ if self.is_line_start && rule(rest) > 0 => self.add(&mut found, at, Kind::Rule, 0, rule(rest), false),
                _ if c.is_ascii_alphanumeric() || c == '_' => self.word(&mut found, text, at),
                '@' | '＠' | '﹫' => {
                    let after = &rest[c.len_utf8()..];
                    let is_word = after.starts_with('[') && bracket(after).is_some_and(|(_, in_code)| in_code);
                    let length = if is_word || own_marker(after) > 0 { 0 } else { before_number(after, name(after)) };
                    self.after_sign(&mut found, at, c, Kind::Mention, length, false)
                }
                '#' | '＃' => {
                    let key = run(&rest[c.len_utf8()..], |c| c.is_alphanumeric() || c == '-' || c == '_');
                    let is_work_item = text[..at].ends_with("AB") || text[..at].ends_with("ab");
                    let key = before_number(&rest[c.len_utf8()..], key);
                    let in_code = key > 0 && (self.is_closing || is_work_item);
                    self.after_sign(&mut found, at, c, Kind::Reference, key, in_code)
                }
                '!' | '%' | '&' | '^' => {
                    let number = run(&rest[1..], |c| c.is_ascii_digit());
                    let quoted = if c == '%' && rest[1..].starts_with(['"', '{']) { 1 } else { 0 };
                    self.after_sign(&mut found, at, c, Kind::Reference, number.max(quoted), false)
                }
                '$' | '~' if !self.is_title => self.sign(&mut found, at, rest),
                '/' if self.is_line_start => match command(&rest[1..]) {
                    0 => 1,
                    length => self.add(&mut found, at, Kind::Command, 1, length, true),
                },
                '[' => match bracket(rest) {
                    Some((range, in_code)) => {
                        let kind = if in_code { Kind::Marker } else { Kind::Reference };
                        self.add(&mut found, at, kind, range.start, range.len(), in_code)
                    }
                    None => 1,
                },
                '<' => match own_marker(rest) {
                    0 => 1,
                    length => self.add(&mut found, at, Kind::Marker, 1, length, true),
                },
                _ => c.len_utf8(),
            };
            let ends_sentence = ".;?".contains(c) && rest[1..].chars().next().is_none_or(char::is_whitespace);
            if c.is_alphanumeric() && !c.is_ascii() || ends_sentence {
                self.is_closing = false;
            }
            if !c.is_whitespace() {
                self.is_line_start = false;
            }
            let length = length.max(c.len_utf8());
            // Hosts find a word that closes issues behind any sign.
            self.is_closing |= ends_with_closing(&text[at..at + length]);
            at += length;
        }
        found
    }

    /// Adds something at `at`, whose part that becomes code is `skipped` bytes behind, and returns the number of bytes read.
    fn add(
        &self,
        found: &mut Vec<Active>,
        at: usize,
        kind: Kind,
        skipped: usize,
        length: usize,
        in_code: bool,
    ) -> usize {
        found.push(Active { kind, range: at + skipped..at + skipped + length, in_code });
        skipped + length
    }

    /// Adds what follows a sign, if anything does.
    fn after_sign(
        &self,
        found: &mut Vec<Active>,
        at: usize,
        sign: char,
        kind: Kind,
        length: usize,
        in_code: bool,
    ) -> usize {
        match length {
            0 => sign.len_utf8(),
            _ => self.add(found, at, kind, sign.len_utf8(), length, in_code),
        }
    }

    /// Adds a sign with the text that follows it.
    fn sign(&self, found: &mut Vec<Active>, at: usize, rest: &str) -> usize {
        let signs = run(rest, |c| c == '$' || c == '~');
        let all = run(rest, |c| !c.is_whitespace() && !"`<>|[]#＃@＠﹫!&%".contains(c));
        let length = rest[..all].trim_end_matches(|c| ".,;:!?)]}\"'*_".contains(c)).len().max(signs);
        self.add(found, at, Kind::Sign, 0, length, false)
    }

    /// Reads a word, and returns its length.
    fn word(&mut self, found: &mut Vec<Active>, text: &str, at: usize) -> usize {
        let rest = &text[at..];
        let length = run(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let (word, after) = rest.split_at(length);
        let is_scheme = |c: &char| c.is_ascii_alphanumeric() || "+-._".contains(*c);
        let scheme = length.max(rest.chars().take(LONGEST_SCHEME).take_while(is_scheme).count());
        let is_www = rest.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("www.")) && rest.len() > 4;
        if rest[scheme..].starts_with("://") || is_www {
            let all = address(rest);
            // What follows in an address that is no link may act.
            let length = match self.is_closing || web(&rest[..all]).is_none() {
                true => {
                    let signs = ['#', '＃', '@', '＠', '﹫', '!', '&', '$', '%', '~'];
                    before_number(rest, rest[..all].find(signs).unwrap_or(all))
                }
                false => all,
            };
            return self.add(found, at, Kind::Address, 0, length, self.is_closing);
        }
        let lower = word.to_ascii_lowercase();
        let is_trailer = lower.ends_with("-by") || TRAILERS.contains(&lower.as_str());
        if self.is_line_start && is_trailer && after.trim_start_matches(' ').starts_with(':') {
            return self.add(found, at, Kind::Marker, 0, length, true);
        }
        if word.contains("NO_CI") {
            return self.add(found, at, Kind::Marker, 0, length, true);
        }
        if let Some((key, number)) = word.split_once('-') {
            let digits = run(number, |c| c.is_ascii_digit());
            let is_own = key.eq_ignore_ascii_case("gh") || key.eq_ignore_ascii_case("gl");
            let is_key = key.len() > 1 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if digits > 0 && (is_own || (self.is_closing && is_key)) {
                return self.add(found, at, Kind::Reference, key.len() + 1, digits, self.is_closing);
            }
        }
        let is_path = after.starts_with(['/', '#', '!', '.']) && !after.starts_with(". ");
        if !BETWEEN.contains(&lower.as_str()) && !is_path {
            self.is_closing = false;
        }
        length
    }
}

/// Returns whether a piece of text ends with a word that closes issues.
pub(super) fn ends_with_closing(piece: &str) -> bool {
    let word = piece.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    CLOSING.iter().any(|closing| word.eq_ignore_ascii_case(closing))
}

/// Returns the length of the beginning of a text whose characters are of a kind.
fn run(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

/// Returns the length of the name that follows `@`, or of the character with which a name in brackets or quotes begins.
fn name(rest: &str) -> usize {
    if rest.starts_with(['{', '[', '"', '<', '(']) {
        return 1;
    }
    let all = run(rest, |c| c.is_alphanumeric() || "_-./:+".contains(c));
    rest[..all].trim_end_matches(|c| ".:/".contains(c)).len()
}

/// Returns the length of a name without a number such as that of `GH-1` in it, which a title refers to also in code.
fn before_number(rest: &str, length: usize) -> usize {
    let name = rest[..length].to_ascii_lowercase();
    let ends = ["gh-", "gl-"].into_iter().filter_map(|key| name.find(key)).map(|at| at + 2);
    ends.min().filter(|end| name[end + 1..].starts_with(|c: char| c.is_ascii_digit())).unwrap_or(length)
}

/// Returns the length of the name of a command after a slash: one word. A path such as `usr/bin` is none.
fn command(rest: &str) -> usize {
    let length = run(rest, |c| c.is_alphanumeric() || c == '_' || c == '-');
    let is_word = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_end = rest[length..].chars().next().is_none_or(|c| c.is_whitespace() || c == ':');
    if is_word && is_end { length } else { 0 }
}

/// Returns the length of a line that consists of the characters of a rule or the separator of a table; 0 for others.
fn rule(rest: &str) -> usize {
    let line = rest.split('\n').next().unwrap_or_default();
    let is_rule = line.chars().all(|c| "-=|: ".contains(c)) && line.contains(['-', '=']);
    if is_rule { line.trim_end().len() } else { 0 }
}

/// Returns the range of the word in brackets to change, and whether it acts in code: the second of two words of which one
/// is `skip` or `no`, as in `[skip ci]`, or the kind of an object of GitLab, as in `[vulnerability:1]`.
fn bracket(rest: &str) -> Option<(Range<usize>, bool)> {
    let inner = &rest[1..];
    let first = run(inner, |c| c.is_ascii_alphabetic() || c == '_');
    let between = inner.get(first..)?.chars().next()?;
    if first == 0 {
        return None;
    }
    if between == ':' {
        let end = inner
            .chars()
            .take(LONGEST_BRACKET)
            .take_while(|c| *c != ']' && !c.is_whitespace())
            .map(char::len_utf8)
            .sum();
        return (end > first + 1 && inner[end..].starts_with(']')).then_some((1..first + 1, false));
    }
    let second = first + between.len_utf8();
    let length = run(&inner[second..], |c| c.is_ascii_alphabetic());
    let is_whole = length > 0 && inner[second + length..].starts_with(']') && matches!(between, ' ' | '-' | '_');
    let is_skip = |word: &str| ["skip", "no"].contains(&word.to_ascii_lowercase().as_str());
    let has_skip = is_skip(&inner[..first]) || is_skip(&inner[second..second + length]);
    (is_whole && has_skip).then_some((second + 1..second + 1 + length, true))
}

/// Returns the length of the beginning of a marker of this service behind `<`.
fn own_marker(rest: &str) -> usize {
    let inside = rest.strip_prefix("<!--").map(str::trim_start);
    let begin = inside.and_then(|inside| inside.get(.."journeyman".len()));
    if begin.is_some_and(|begin| begin.eq_ignore_ascii_case("journeyman")) { "!--".len() } else { 0 }
}

/// Returns the length of an address without the punctuation after it.
fn address(rest: &str) -> usize {
    let is_end = |c: char| {
        c.is_whitespace()
            || "<>\"`|[⟨＠﹫＃".contains(c)
            || matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ff0f}')
    };
    // A host may be an IPv6 address in brackets.
    let rest = rest.split(char::is_whitespace).next().unwrap_or_default();
    let host = rest.find("://").map_or(0, |at| if rest[at..].starts_with("://[") { at + "://[".len() } else { 0 });
    let is_v6 = |c: char| c.is_ascii_hexdigit() || c == ':';
    let from = if host > 0 && rest[host..].trim_start_matches(is_v6).starts_with(']') { host } else { 0 };
    let mut address = &rest[..rest[from..].find(is_end).map_or(rest.len(), |end| from + end)];
    let mut unopened = address.matches(')').count().saturating_sub(address.matches('(').count());
    while let Some(last) = address.chars().next_back() {
        let is_end = "?!.,:;*_~'\"]}".contains(last) || (last == ')' && unopened > 0);
        if !is_end || address.len() <= last.len_utf8() {
            break;
        }
        unopened = unopened.saturating_sub(usize::from(last == ')'));
        address = &address[..address.len() - last.len_utf8()];
    }
    address.len()
}
