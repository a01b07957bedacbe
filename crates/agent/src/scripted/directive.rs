//! The directives of the test model, written in a prompt as `[[name text]]`.
//!
//! Invariant: every `[[…]]` outside of quoted lines becomes exactly one directive, in order; an invalid one becomes
//! [`Directive::Unknown`]. The text of a directive ends at the first `]]`.

use std::time::Duration;

/// The syntax of all directives, for the message about an unknown directive.
pub(crate) const KNOWN: &str = "[[write path|text]], [[append path|text]], [[run command]], [[say text]], [[sleep seconds]], \
                         [[hold]], [[ask text]], [[fail text]], [[die]]";

/// An instruction in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Writes a file.
    Write {
        /// The file.
        path: String,
        /// The text of the file, with a newline at the end.
        text: String,
    },
    /// Appends to a file.
    Append {
        /// The file.
        path: String,
        /// The text to append, with a newline at the end.
        text: String,
    },
    /// Runs a shell command.
    Run(String),
    /// Sends a message of the agent.
    Say(String),
    /// Waits for a duration.
    Sleep(Duration),
    /// Waits for a file in the home directory.
    Hold,
    /// Asks the user for permission.
    Ask(String),
    /// Fails the prompt with this text.
    Fail(String),
    /// Ends the process.
    Die,
    /// A directive with an unknown name, or with text that the directive does not accept.
    Unknown(String),
}

/// Returns the directives in `prompt`. Lines that begin with `> ` are quotations; directives in them are ignored.
pub(crate) fn parse(prompt: &str) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut rest = prompt;
    while let Some((_, after)) = rest.split_once("[[") {
        // A quoted line repeats an earlier request.
        if prompt[..prompt.len() - after.len()].rsplit('\n').next().is_some_and(|line| line.starts_with("> ")) {
            rest = after.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let Some((body, after)) = after.split_once("]]") else { break };
        directives.push(directive(body));
        rest = after;
    }
    directives
}

fn directive(body: &str) -> Directive {
    let trimmed = body.trim();
    let (name, text) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let text = text.trim();
    let known = match name {
        "write" => file_text(text).map(|(path, text)| Directive::Write { path, text }),
        "append" => file_text(text).map(|(path, text)| Directive::Append { path, text }),
        "run" if !text.is_empty() => Some(Directive::Run(text.to_owned())),
        "say" => Some(Directive::Say(text.to_owned())),
        "sleep" => seconds(text).map(Directive::Sleep),
        "hold" if text.is_empty() => Some(Directive::Hold),
        "ask" => Some(Directive::Ask(text.to_owned())),
        "fail" => Some(Directive::Fail(text.to_owned())),
        "die" => Some(Directive::Die),
        _ => None,
    };
    known.unwrap_or_else(|| Directive::Unknown(body.to_owned()))
}

/// Splits `path|text`, decodes the escapes in the text, and ends the text with a newline.
fn file_text(text: &str) -> Option<(String, String)> {
    let (path, text) = text.split_once('|')?;
    let path = path.trim();
    if path.is_empty() {
        return None;
    }
    let mut text = unescape(text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Some((path.to_owned(), text))
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// Decodes `\n`, `\t` and `\\`; leaves any other backslash unchanged.
fn unescape(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(plain) = chars.next() {
        if plain != '\\' {
            decoded.push(plain);
            continue;
        }
        match chars.next() {
            Some('n') => decoded.push('\n'),
            Some('t') => decoded.push('\t'),
            Some('\\') => decoded.push('\\'),
            Some(other) => decoded.extend(['\\', other]),
            None => decoded.push('\\'),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_is_parsed() {
        let write = |path: &str, text: &str| Directive::Write { path: path.to_owned(), text: text.to_owned() };
        let append = |path: &str, text: &str| Directive::Append { path: path.to_owned(), text: text.to_owned() };
        let unknown = |text: &str| Directive::Unknown(text.to_owned());
        for (prompt, expected) in [
            ("[[write a.txt|hello]]", write("a.txt", "hello\n")),
            ("[[write a b.txt | x|y ]]", write("a b.txt", " x|y\n")),
            ("[[write a|one\\ntwo\\n]]", write("a", "one\ntwo\n")),
            ("[[write a|a\\tb\\\\n\\x]]", write("a", "a\tb\\n\\x\n")),
            ("[[write a|]]", write("a", "\n")),
            ("[[append a|x]]", append("a", "x\n")),
            ("[[run echo a; ls]]", Directive::Run("echo a; ls".to_owned())),
            ("[[say hi there]]", Directive::Say("hi there".to_owned())),
            ("[[sleep 1.5]]", Directive::Sleep(Duration::from_millis(1500))),
            ("[[sleep 0]]", Directive::Sleep(Duration::ZERO)),
            ("[[hold]]", Directive::Hold),
            ("[[ask may I?]]", Directive::Ask("may I?".to_owned())),
            ("[[fail broken]]", Directive::Fail("broken".to_owned())),
            ("[[die]]", Directive::Die),
            ("[[foo bar]]", unknown("foo bar")),
            ("[[]]", unknown("")),
            ("[[write no-bar]]", unknown("write no-bar")),
            ("[[write |x]]", unknown("write |x")),
            ("[[run]]", unknown("run")),
            ("[[hold on]]", unknown("hold on")),
            ("[[sleep soon]]", unknown("sleep soon")),
            ("[[sleep -1]]", unknown("sleep -1")),
        ] {
            assert_eq!(parse(prompt), [expected], "{prompt}");
        }
    }

    #[test]
    fn directives_are_found_in_order_between_other_text() {
        let prompt = "First [[say a]] then\n[[say b]] and ]] an [open] [[end";
        let said = ["a", "b"].map(|text| Directive::Say(text.to_owned()));
        assert_eq!(parse(prompt), said);
        assert!(parse("no directive").is_empty());
    }

    #[test]
    fn the_text_ends_at_the_first_end_mark() {
        assert_eq!(parse("[[say a [[b]] c]]"), [Directive::Say("a [[b".to_owned())]);
    }

    #[test]
    fn directives_in_quoted_lines_are_ignored() {
        let prompt = "Before:\n> [[die]] and\n> [[fail x]]\nnow: [[write a|> [[b]]\n[[say c]]";
        let file = Directive::Write { path: "a".into(), text: "> [[b\n".into() };
        assert_eq!(parse(prompt), [file, Directive::Say("c".into())]);
    }
}
