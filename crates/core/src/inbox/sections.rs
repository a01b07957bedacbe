//! What the agent says that it did for each comment of a message.

/// Returns the sentence of a prompt with `count` comments that asks for an answer in the form that [`read`] understands best.
/// The answer to a single comment needs no sections.
#[must_use]
pub const fn ask(count: usize) -> &'static str {
    match count {
        1 => "Say in your answer what you did.",
        _ => {
            "End with a message that has a section for each comment, under the headings `### Comment 1`, `### Comment 2` and so \
             on, which says what you did for the comment, or why you did nothing."
        }
    }
}

/// The maximum length of the title of a section that is not a heading, in characters.
const TITLE_CHARS: usize = 300;

/// An answer, with what it says about each comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections {
    /// The text outside of the sections.
    pub rest: String,
    /// The text about each comment, in the order of the comments; `None` if the answer has no section for it.
    pub of: Vec<Option<String>>,
}

/// The form in which a section begins, which decides where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A heading of a level. The section ends at the next heading of that level or above.
    Heading(usize),
    /// A line of a paragraph. The section ends at the next heading or thematic break.
    Line,
    /// An item of a list, whose marker is indented by so much. The section ends at the next line that is indented as much,
    /// unless it is blank.
    Item(usize),
}

/// The first line of a section.
struct Start<'a> {
    form: Form,
    /// The numbers of the comments, from 1.
    numbers: Vec<usize>,
    /// The text on the line after the title.
    text: &'a str,
}

/// Reads an answer to `count` comments. A section begins with a line that names one or more comments by their numbers: a
/// heading, bold text, an item of a list, or a line with a colon or a dash after the name. Lines of code do not count. Two
/// sections for a comment become one.
#[must_use]
pub fn read(answer: &str, count: usize) -> Sections {
    let mut rest: Vec<&str> = Vec::new();
    let mut of: Vec<Option<String>> = vec![None; count];
    let mut open: Option<(Form, Vec<usize>, Vec<&str>)> = None;
    let mut fence: Option<&str> = None;
    for line in answer.lines() {
        let is_code = fence.is_some();
        fence = next_fence(fence, line);
        if !is_code && fence.is_none() {
            if let Some(Start { form, numbers, text }) = start(line, count) {
                close(&mut of, open.replace((form, numbers, vec![text])));
                continue;
            }
            if open.as_ref().is_some_and(|(form, ..)| ends(*form, line)) {
                close(&mut of, open.take());
            }
        }
        match &mut open {
            Some((.., lines)) => lines.push(line),
            None => rest.push(line),
        }
    }
    close(&mut of, open);
    Sections { rest: rest.join("\n").trim().to_owned(), of }
}

/// Adds the lines of a section to the texts about its comments.
fn close(of: &mut [Option<String>], section: Option<(Form, Vec<usize>, Vec<&str>)>) {
    let Some((form, numbers, lines)) = section else { return };
    let text = match form {
        Form::Item(_) => unindented(&lines),
        Form::Heading(_) | Form::Line => lines.join("\n"),
    };
    let text = text.trim();
    for number in numbers {
        let Some(known) = number.checked_sub(1).and_then(|index| of.get_mut(index)).filter(|_| !text.is_empty()) else {
            continue;
        };
        match known {
            Some(known) => {
                known.push_str("\n\n");
                known.push_str(text);
            }
            None => *known = Some(text.to_owned()),
        }
    }
}

/// Removes the indentation that the lines of an item share. The first line is that of the marker.
fn unindented(lines: &[&str]) -> String {
    let (first, others) = lines.split_first().map_or(("", [].as_slice()), |(first, others)| (*first, others));
    let shared = others.iter().filter(|line| !line.trim().is_empty()).map(|line| indentation(line)).min();
    let others = others.iter().map(|line| line.get(shared.unwrap_or_default()..).unwrap_or_default());
    std::iter::once(first).chain(others).collect::<Vec<_>>().join("\n")
}

/// Returns the number of spaces and tabs before a text.
fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Returns the fence that is open after a line: the characters with which a block of code began.
fn next_fence<'a>(open: Option<&'a str>, line: &'a str) -> Option<&'a str> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'));
    let length = mark.map_or(0, |mark| text.len() - text.trim_start_matches(mark).len());
    match open {
        Some(fence) => {
            let closes = text.starts_with(fence) && text[length..].trim().is_empty();
            Some(fence).filter(|_| !closes)
        }
        None => text.get(..length).filter(|_| length >= 3),
    }
}

/// Returns the level of a heading, and its text.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start();
    let level = text.len() - text.trim_start_matches('#').len();
    let rest = &text[level..];
    ((1..=6).contains(&level) && rest.starts_with([' ', '\t'])).then(|| (level, rest.trim()))
}

/// Returns the text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+']),
        _ => text[digits..].strip_prefix(['.', ')']),
    };
    rest.filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim_start)
}

/// Returns whether a line outside of code ends a section.
fn ends(form: Form, line: &str) -> bool {
    match form {
        Form::Heading(level) => heading(line).is_some_and(|(next, _)| next <= level),
        Form::Line => heading(line).is_some() || matches!(line.trim(), "---" | "***" | "___"),
        Form::Item(indent) => !line.trim().is_empty() && indentation(line) <= indent,
    }
}

/// Reads the first line of a section.
fn start(line: &str, count: usize) -> Option<Start<'_>> {
    let (form, text) = match (heading(line), item(line)) {
        (Some((level, text)), _) => (Form::Heading(level), text),
        (None, Some(text)) => (Form::Item(indentation(line)), text),
        (None, None) => (Form::Line, line.trim()),
    };
    let marks = text.len() - text.trim_start_matches(['*', '_']).len();
    let (bold, named) = text.split_at(marks);
    let (numbers, after) = named_comments(named, count)?;
    let (title, text) = match form {
        // The rest of a heading repeats the position of the comment.
        Form::Heading(_) => return Some(Start { form, numbers, text: "" }),
        _ if !bold.is_empty() => after.split_once(bold)?,
        _ => {
            let end = after.find(['—', '–', ':']).or_else(|| after.find(" - ")).or_else(|| {
                let is_alone = after.trim().is_empty();
                is_alone.then_some(after.len())
            })?;
            (&after[..end], &after[end..])
        }
    };
    if title.chars().count() > TITLE_CHARS {
        return None;
    }
    let text = text.trim_start();
    let separator = [":", "—", "–", "- "].iter().find_map(|separator| text.strip_prefix(separator));
    Some(Start { form, numbers, text: separator.unwrap_or(text).trim_start() })
}

/// Reads the numbers of comments at the beginning of a text, such as "Comment 1" or "Comments 2, 3 and 5", and returns the
/// text after them.
fn named_comments(text: &str, count: usize) -> Option<(Vec<usize>, &str)> {
    let word = "comment";
    let begins = text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let mut rest = text.get(word.len()..).filter(|_| begins)?;
    rest = rest.strip_prefix(['s', 'S']).unwrap_or(rest);
    rest.starts_with([' ', '\t', '\u{a0}', '#']).then_some(())?;
    let mut numbers = Vec::new();
    loop {
        let number = rest.trim_start().trim_start_matches('#');
        let digits = number.len() - number.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let known = number[..digits].parse().ok().filter(|known| (1..=count).contains(known));
        let Some(known) = known.filter(|_| !number[digits..].starts_with(char::is_alphanumeric)) else { break };
        numbers.push(known);
        rest = &number[digits..];
        let next = rest.trim_start();
        let separators = [",", "&", "and ", "/"];
        let Some(next) = separators.iter().find_map(|separator| next.strip_prefix(separator)) else { break };
        let next = next.trim_start();
        let next = next.strip_prefix("and ").unwrap_or(next).trim_start();
        if !next.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        rest = next;
    }
    (!numbers.is_empty()).then_some((numbers, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answer: &str, count: usize) -> Vec<Option<String>> {
        read(answer, count).of
    }

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<Option<String>> {
        texts.into_iter().map(|text| (!text.is_empty()).then(|| text.to_owned())).collect()
    }

    #[test]
    fn the_sections_of_an_answer_are_read_in_each_form() {
        for (answer, expected) in [
            ("### Comment 1\n\nRenamed.\n\n### Comment 2\n\nAdded.", ["Renamed.", "Added."]),
            ("## Comment 1 on `a.rs`, line 3 (ada)\nRenamed.\n## Comment 2:\nAdded.", ["Renamed.", "Added."]),
            ("**Comment 1**\nRenamed.\n\n**Comment 2:** Added.", ["Renamed.", "Added."]),
            ("**Comment 1 (`a.rs`):** Renamed.\n__Comment 2__ – Added.", ["Renamed.", "Added."]),
            ("- Comment 1: Renamed.\n- Comment 2 — Added.", ["Renamed.", "Added."]),
            ("1. **Comment 1**: Renamed.\n2. **Comment 2**: Added.", ["Renamed.", "Added."]),
            ("* comment #1 (`a.rs`, line 3): Renamed.\n* COMMENT #2 - Added.", ["Renamed.", "Added."]),
            ("Comment 1: Renamed.\nComment 2:\nAdded.", ["Renamed.", "Added."]),
            ("Comment 1\nRenamed.\n\nComment 2\nAdded.", ["Renamed.", "Added."]),
            ("### Comments 1 and 2\nBoth done.", ["Both done.", "Both done."]),
            ("- Comments 1, 2: Both done.", ["Both done.", "Both done."]),
            ("### Comment 2\nAdded.", ["", "Added."]),
            ("### Comment 1\nA.\n### Comment 2\nB.\n### Comment 1\nC.", ["A.\n\nC.", "B."]),
            ("### Comment 1\n\n### Comment 2\nAdded.", ["", "Added."]),
        ] {
            assert_eq!(of(answer, 2), texts(expected), "{answer}");
        }
    }

    #[test]
    fn other_text_is_no_section() {
        for answer in [
            "Renamed it, and added a test.",
            "Comment 2 was wrong about the name, so I did nothing.",
            "### Comment 3\nThere is none.",
            "### Comment 0\nx",
            "### Comment 1a\nx",
            "### Comments\nx",
            "```\n### Comment 1\nx\n```",
            "~~~~\n```\n### Comment 1\n~~~\nComment 2: x\n~~~~",
            "- Comment 1 and others were easy",
            "",
        ] {
            let read = read(answer, 2);
            assert_eq!((read.of, read.rest.as_str()), (texts(["", ""]), answer), "{answer}");
        }
    }

    #[test]
    fn a_section_ends_where_its_form_ends() {
        let answer = "Summary first.\n\n### Comment 1\n\nRenamed:\n\n#### Details\n\n```rust\n## Comment 2\nlet x = 1;\n\
                      ```\n\n### Comment 2\nAdded.\n\n## Tests\n\nThey pass.";
        let found = read(answer, 2);
        let first = "Renamed:\n\n#### Details\n\n```rust\n## Comment 2\nlet x = 1;\n```";
        assert_eq!(found.of, texts([first, "Added."]));
        assert_eq!(found.rest, "Summary first.\n\n## Tests\n\nThey pass.");
        let answer =
            "- Comment 1: Renamed.\n\n  More:\n  - a\n    - b\n- Comment 2: Added.\n- All tests pass.\n\nThe end.";
        let found = read(answer, 2);
        assert_eq!(found.of, texts(["Renamed.\n\nMore:\n- a\n  - b", "Added."]));
        assert_eq!(found.rest, "- All tests pass.\n\nThe end.");
        let found = read("**Comment 1** Renamed.\n\nMore.\n\n---\n\nThe end.", 1);
        assert_eq!((found.of, found.rest.as_str()), (texts(["Renamed.\n\nMore."]), "---\n\nThe end."));
    }

    #[test]
    fn no_text_makes_it_fail() {
        let pieces =
            ["#", " ", "Comment", "1", "2,", "*", "_", "`", "~", "-", ":", "—", "ä", "\n", "\t", "and ", "𝕏", "\u{a0}"];
        let mut state = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let index = usize::try_from(state >> 33).unwrap() % pieces.len();
                text.push_str(pieces[index]);
            }
            assert_eq!(of(&text, 2).len(), 2, "{text:?}");
        }
    }
}
