//! Removes characters without a shape that can mislead, and keeps those that scripts and emoji need.
//!
//! | character | what becomes of it |
//! |---|---|
//! | U+202A–202E, U+2066–2069: embeddings, overrides, isolates | removed: they show text in another order |
//! | U+E0000–E0FFF: tags, which can spell a hidden text | removed, except in the flags of regions (UTS #51, ED-14a) |
//! | variation selectors | one after a character that can have it stays; others can spell a hidden text too |
//! | control characters | removed, except tab, line feed, carriage return and form feed |
//! | U+200B–200F, U+061C, U+00AD, U+034F, U+2060–206F, U+FEFF, fillers of Hangul, vowels of Khmer | kept |
//!
//! Those in the last row join and separate letters in Persian, Hindi, Khmer and other scripts, join emoji, and order
//! punctuation in Arabic and Hebrew. What they hide, they hide from searches only: the letters of a word remain in
//! their order. The search for mentions does not skip them, so a name that is broken by U+200B stays broken.

/// The treatment of characters that can mislead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Remove,
    /// Controls are written as `⟨U+202E⟩`. Tags and variation selectors are removed: there may be very many.
    Show,
}

/// The numbers of characters that were removed, or written as their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changed {
    bidirectional: usize,
    controls: usize,
    tags: usize,
    selectors: usize,
}

impl Changed {
    /// Returns the note about removed characters; `None` if there are none.
    pub(super) fn note(self, from: &str) -> Option<String> {
        let all = [self.bidirectional(), self.controls(), self.tags(), self.selectors()];
        Some(format!("The service removed {} {from}.", listed(&all.into_iter().flatten().collect::<Vec<_>>())?))
    }

    /// Returns the note about characters of code; `None` if there are none.
    pub(super) fn note_of_code(self) -> Option<String> {
        let written: Vec<String> = [self.bidirectional(), self.controls()].into_iter().flatten().collect();
        let removed = Self { bidirectional: 0, controls: 0, ..self }.note("from it");
        let written = listed(&written)
            .map(|what| format!("In the part of the file, the service wrote {what} as numbers, such as ⟨U+202E⟩."));
        let notes: Vec<String> = written.into_iter().chain(removed).collect();
        (!notes.is_empty()).then(|| notes.join(" "))
    }

    fn bidirectional(self) -> Option<String> {
        counted(self.bidirectional, "bidirectional control character")
    }

    fn controls(self) -> Option<String> {
        counted(self.controls, "other control character")
    }

    fn tags(self) -> Option<String> {
        counted(self.tags, "invisible tag character")
    }

    fn selectors(self) -> Option<String> {
        counted(self.selectors, "stray variation selector")
    }
}

fn counted(count: usize, noun: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        _ => Some(format!("{count} {noun}s")),
    }
}

fn listed(all: &[String]) -> Option<String> {
    let (last, first) = all.split_last()?;
    Some(if first.is_empty() { last.clone() } else { format!("{} and {last}", first.join(", ")) })
}

/// Returns a text without the characters that can mislead, and their numbers.
pub(super) fn checked(text: &str, treatment: Treatment) -> (String, Changed) {
    let mut kept = String::with_capacity(text.len());
    let mut changed = Changed::default();
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let flag = flag(rest);
        if flag > 0 {
            kept.push_str(&rest[..flag]);
            (before, rest) = (Some(c), &rest[flag..]);
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let count = match c {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => &mut changed.bidirectional,
            _ if is_selector(c) && !can_have(before, c) => &mut changed.selectors,
            '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' => &mut changed.tags,
            '\t' | '\n' | '\r' | '\u{c}' => {
                kept.push(c);
                before = Some(c);
                continue;
            }
            _ if c.is_control() => &mut changed.controls,
            _ => {
                kept.push(c);
                before = Some(c);
                continue;
            }
        };
        *count += 1;
        let is_control = c.is_control() || !(is_selector(c) || c >= '\u{e0000}');
        if treatment == Treatment::Show && is_control {
            kept.push_str(&format!("⟨U+{:04X}⟩", u32::from(c)));
            before = None;
        }
    }
    (kept, changed)
}

/// Returns the length of the flag of a region at the beginning of a text, such as that of Scotland: a black flag, the
/// region in tags, and the tag that ends it.
fn flag(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\u{1f3f4}') else { return 0 };
    let mut region = String::new();
    for c in rest.chars().take(7) {
        match c {
            '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}' => {
                region.extend(char::from_u32(u32::from(c) - 0xe0000));
            }
            '\u{e007f}' if region.len() >= 3 && region.starts_with(|c: char| c.is_ascii_lowercase()) => {
                return '\u{1f3f4}'.len_utf8() * (region.len() + 2);
            }
            _ => return 0,
        }
    }
    0
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}')
}

/// Returns whether a character can have a variation: a Mongolian letter, an ideograph, or any sign beyond ASCII and the
/// digits and signs of keycaps.
fn can_have(base: Option<char>, selector: char) -> bool {
    let Some(base) = base.filter(|base| !is_selector(*base) && !base.is_whitespace()) else { return false };
    match selector {
        '\u{180b}'..='\u{180f}' => matches!(base, '\u{1800}'..='\u{18af}' | '\u{11660}'..='\u{1167f}'),
        '\u{e0100}'..='\u{e01ef}' => matches!(base,
            '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'),
        _ => !base.is_ascii() || base.is_ascii_digit() || base == '#' || base == '*',
    }
}
