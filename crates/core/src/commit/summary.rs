//! The subject of a commit in an agent's answer: the first sentence that says what was done, in the imperative.

use super::kind::SUBJECT_CHARS;
use super::verbs::VERBS;

/// The words before the verb that say nothing, in lower case. The longer ones are first.
const FILLERS: &[&str] = &[
    "this commit",
    "this change",
    "the commit",
    "the change",
    "i have now",
    "i've now",
    "i have",
    "i've",
    "we have",
    "we've",
    "i also",
    "i just",
    "successfully",
    "all done",
    "done",
    "finished",
    "fixed it",
    "okay",
    "ok",
    "sure",
    "summary",
    "great",
    "perfect",
    "now",
    "then",
    "also",
    "i",
    "we",
    "it",
];

/// The number of paragraphs and list items that are searched.
const BLOCKS: usize = 12;

/// Returns the subject of a commit that an answer in Markdown gives: its first sentence that begins with a verb for a change,
/// such as "Rename a" for "I've renamed a. All tests pass."; `None` if there is none, as in other languages.
#[must_use]
pub fn subject_of_answer(answer: &str) -> Option<String> {
    blocks(answer)
        .into_iter()
        .take(BLOCKS)
        .find_map(|block| sentences(&block).find_map(|sentence| imperative(&sentence)))
}

/// Returns the texts of paragraphs, headings and list items, without code blocks, quotes and tables.
fn blocks(answer: &str) -> Vec<String> {
    let (mut blocks, mut current, mut fence) = (Vec::new(), String::new(), None::<&str>);
    for line in answer.lines() {
        let trimmed = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        if let Some(open) = fence {
            if mark == Some(open) {
                fence = None;
            }
            continue;
        }
        let item = item_of(trimmed);
        let is_other = mark.is_some() || trimmed.starts_with(['>', '|', '<', '!']);
        if trimmed.is_empty() || is_other || item.is_some() || trimmed.starts_with('#') {
            blocks.push(std::mem::take(&mut current));
        }
        fence = mark;
        if !is_other {
            current.push_str(item.unwrap_or_else(|| trimmed.trim_start_matches('#')).trim());
            current.push(' ');
        }
        if trimmed.starts_with('#') {
            blocks.push(std::mem::take(&mut current));
        }
    }
    blocks.push(current);
    blocks.retain(|block| !block.trim().is_empty());
    blocks
}

/// Returns the text of a list item; `None` if the line is none.
fn item_of(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (digits.len() < line.len()).then(|| digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")));
    ["- ", "* ", "+ "].into_iter().find_map(|mark| line.strip_prefix(mark)).or(numbered.flatten())
}

/// Splits a text into sentences, without the characters of Markdown. A period within a word or code ends none.
fn sentences(block: &str) -> impl Iterator<Item = String> {
    let (mut sentences, mut current, mut is_code) = (Vec::new(), String::new(), false);
    let mut chars = block.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '`' => is_code = !is_code,
            // Emphasis; a single sign may be part of a name.
            '*' if !is_code && chars.peek() == Some(&'*') => {
                chars.next();
            }
            '.' | '!' | '?' | '\u{2014}'
                if !is_code && chars.peek().is_none_or(|next| next.is_whitespace() || *next == '*') =>
            {
                sentences.push(std::mem::take(&mut current));
            }
            ':' | ';' if !is_code && chars.peek().is_none_or(|next| next.is_whitespace()) => {
                sentences.push(std::mem::take(&mut current));
            }
            c if c.is_control() => current.push(' '),
            c => current.push(c),
        }
    }
    sentences.push(current);
    sentences.into_iter()
}

/// Returns a sentence in the imperative, as a subject; `None` if it does not begin with a verb for a change, or has nothing
/// else.
fn imperative(sentence: &str) -> Option<String> {
    let mut rest = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    loop {
        let is_followed = |filler: &&&str| {
            rest.get(..filler.len()).is_some_and(|start| start.replace('\u{2019}', "'").eq_ignore_ascii_case(filler))
                && rest[filler.len()..].chars().next().is_none_or(|next| !next.is_alphanumeric())
        };
        let straight = rest.replace('\u{2019}', "'");
        if straight.len() != rest.len() && straight.to_lowercase().starts_with("i've") {
            return imperative(&straight);
        }
        let Some(filler) = FILLERS.iter().find(is_followed) else { break };
        rest = rest[filler.len()..].trim_start_matches(|c: char| !c.is_alphanumeric());
    }
    let (first, object) = rest.split_once(char::is_whitespace)?;
    let first = first.trim_end_matches(',').to_lowercase();
    let third =
        |base: &str| first.strip_suffix('s').is_some_and(|stem| stem == base || stem.strip_suffix('e') == Some(base));
    let (base, ..) = VERBS.iter().find(|(base, past, _)| first == *base || first == *past || third(base))?;
    let words: Vec<&str> = object.split_whitespace().collect();
    // "Update:" or "Fixed it" say nothing.
    if words.is_empty() || matches!(words.as_slice(), ["it" | "this" | "that" | "everything" | "them"]) {
        return None;
    }
    let mut subject = String::new();
    let mut letters = base.chars();
    subject.extend(letters.next().map(|c| c.to_ascii_uppercase()));
    subject.extend(letters);
    Some(shortened(&subject, &words))
}

/// The words before which a long subject is ended.
const ENDS: &[&str] = &[
    "so",
    "which",
    "because",
    "by",
    "to",
    "and",
    "with",
    "including",
    "instead",
    "when",
    "while",
    "in",
    "for",
    "using",
];

/// Returns a verb and its object in at most [`SUBJECT_CHARS`] characters, ended before a word that begins a part of the
/// sentence if possible, and between words otherwise.
fn shortened(verb: &str, words: &[&str]) -> String {
    let (mut subject, mut at_part) = (verb.to_owned(), None);
    for (number, word) in words.iter().enumerate() {
        if number > 1 && ENDS.contains(&word.to_lowercase().as_str()) {
            at_part = Some(subject.clone());
        }
        let has_comma = subject.ends_with(',');
        if has_comma && number > 1 {
            at_part = Some(subject.trim_end_matches(',').to_owned());
        }
        if subject.chars().count() + 1 + word.chars().count() > SUBJECT_CHARS {
            let end = at_part.unwrap_or_else(|| format!("{subject}…"));
            return end.trim_end_matches([',', ' ']).to_owned();
        }
        subject.push(' ');
        subject.push_str(word);
    }
    subject.trim_end_matches([',', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_about_a_change_becomes_the_subject() {
        for (answer, expected) in [
            ("Renamed `a` to `b`.", Some("Rename a to b")),
            ("I've renamed `a` to `b`. All tests pass.", Some("Rename a to b")),
            ("I\u{2019}ve added a test for the empty list.", Some("Add a test for the empty list")),
            ("Done! I have fixed the rounding of totals.", Some("Fix the rounding of totals")),
            ("✅ Done. Updated the README.", Some("Update the README")),
            (
                "All done.\n\n**Fixed** the crash in `Cart::total()` on empty carts.",
                Some("Fix the crash in Cart::total() on empty carts"),
            ),
            ("This change adds a retry.", Some("Add a retry")),
            ("This commit fixes the build.", Some("Fix the build")),
            ("## Summary\n\n- Removed the old parser\n- Added a new one", Some("Remove the old parser")),
            ("1. Simplified the loop", Some("Simplify the loop")),
            ("The tests failed because of a typo. Corrected it in `main.rs`.", Some("Correct it in main.rs")),
            ("Here is what I changed:\n\n```\nAdded nothing\n```\n\nImplemented paging.", Some("Implement paging")),
            ("Successfully upgraded serde to 1.0.219.", Some("Upgrade serde to 1.0.219")),
            ("Add a note", Some("Add a note")),
            ("Rewrote the parser\nby hand.", Some("Rewrite the parser by hand")),
            ("Fixed it.", None),
            ("Done.", None),
            ("Updated:", None),
            ("The file is as it was; there is nothing to change.", None),
            ("Ich habe die Datei umbenannt.", None),
            ("ファイル名を変更しました。", None),
            ("> Added a quote", None),
            ("| Added | table |", None),
            ("", None),
        ] {
            assert_eq!(subject_of_answer(answer).as_deref(), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_long_sentence_ends_between_parts_or_words() {
        for (answer, expected) in [
            (
                "Added validation of the quantity field to the order form, which refuses negative numbers and zero.",
                "Add validation of the quantity field to the order form",
            ),
            (
                "Renamed the functions alpha, beta, gamma, delta, epsilon, zeta, eta, theta, iota, kappa, lambda.",
                "Rename the functions alpha, beta, gamma, delta, epsilon, zeta, eta",
            ),
            (
                "Removed aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbb cccccccccccccccccc",
                "Remove aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbb…",
            ),
        ] {
            let subject = subject_of_answer(answer).unwrap();
            assert_eq!(subject, expected);
            assert!(subject.chars().count() <= SUBJECT_CHARS + 1, "{subject}");
        }
    }
}
