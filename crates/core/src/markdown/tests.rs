//! Tests on a corpus of constructs that act on hosts, and on random texts made of them.

use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::*;

/// A construct with the Markdown that is written for it. `{{202e}}` in the file is the character U+202E.
struct Case {
    name: &'static str,
    input: String,
    expected: &'static str,
}

fn corpus() -> Vec<Case> {
    let text = include_str!("corpus.txt");
    let case = |text: &'static str| {
        let (name, rest) = text.split_once('\n').unwrap();
        let (input, expected) = rest.split_once("\n%%%=\n").unwrap();
        Case { name, input: with_characters(input), expected: expected.trim_end_matches('\n') }
    };
    text.split("%%% ").skip(1).map(case).collect()
}

pub(super) fn with_characters(text: &str) -> String {
    let mut pieces = text.split("{{");
    let mut written = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let found = piece.split_once("}}").and_then(|(digits, rest)| {
            let c = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
            Some(format!("{c}{rest}"))
        });
        written.push_str(&found.unwrap_or_else(|| format!("{{{{{piece}")));
    }
    written
}

/// Checks Markdown for code hosts as a parser with all extensions reads it.
fn check_gfm(markdown: &str) -> Result<(), String> {
    check_source(markdown)?;
    let extensions = Options::all() & !(Options::ENABLE_SMART_PUNCTUATION | Options::ENABLE_OLD_FOOTNOTES);
    let mut events = Parser::new_ext(markdown, extensions).into_offset_iter();
    let (mut text, mut link) = (String::new(), None);
    let mut is_code = false;
    for (event, _) in events.by_ref() {
        match event {
            Event::Text(_) if is_code => {}
            Event::Text(part) => match &mut link {
                Some((_, label)) => String::push_str(label, &part),
                None => text.push_str(&part),
            },
            Event::Start(Tag::CodeBlock(kind)) => {
                is_code = true;
                if let CodeBlockKind::Fenced(info) = kind
                    && !info.is_empty()
                    && !gfm::LANGUAGES.contains(&&*info)
                {
                    return Err(format!("a block of code of the language {info:?}"));
                }
            }
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Start(Tag::Link { link_type: LinkType::Autolink, dest_url, .. }) => {
                link = Some((dest_url.into_string(), String::new()));
            }
            Event::End(TagEnd::Link) => {
                let (url, label) = link.take().unwrap();
                if url != label || !(url.starts_with("https://") || url.starts_with("http://")) {
                    return Err(format!("a link to {url:?} with the text {label:?}"));
                }
                text.push('\0');
            }
            Event::Start(
                tag @ (Tag::Image { .. }
                | Tag::Link { .. }
                | Tag::HtmlBlock
                | Tag::FootnoteDefinition(_)
                | Tag::MetadataBlock(_)
                | Tag::BlockQuote(Some(_))),
            ) => return Err(format!("{tag:?}")),
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => return Err(format!("{event:?}")),
            Event::SoftBreak | Event::HardBreak => text.push('\n'),
            Event::Code(_) | Event::Rule | Event::Start(_) | Event::End(_) => text.push('\0'),
        }
    }
    if events.reference_definitions().iter().next().is_some() {
        return Err("a definition".to_owned());
    }
    check_text(&text)
}

/// Checks the source, in which code is like text.
fn check_source(source: &str) -> Result<(), String> {
    let lower = source.to_lowercase();
    let words: Vec<&str> = lower.split([' ', '\n']).collect();
    for (at, word) in words.iter().enumerate() {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_closing = word.len() > 2 && active::CLOSING.contains(&word);
        let next = words.get(at + 1).copied().unwrap_or_default();
        let is_number =
            |sign: &str| next.strip_prefix(sign).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let is_key = next.split_once('-').is_some_and(|(key, number)| {
            key.len() > 1
                && key.bytes().all(|b| b.is_ascii_alphabetic())
                && number.starts_with(|c: char| c.is_ascii_digit())
        });
        if is_closing && (is_number("#") || is_key || next.starts_with("http://") || next.starts_with("https://")) {
            return Err(format!("the closing word {word:?} before {next:?}"));
        }
    }
    for found in ["<!--", "[skip ci]", "[ci skip]", "***no_ci***", "ab#1"] {
        let is_ours = found == "<!--" && !lower.contains("<!-- journeyman");
        if lower.contains(found) && !is_ours {
            return Err(format!("{found:?}"));
        }
    }
    for line in lower.lines() {
        let rest = line.trim_start();
        if rest.starts_with('/') && command_length(&rest[1..]) > 0 {
            return Err(format!("the command {line:?}"));
        }
        if ["signed-off-by:", "co-authored-by:", "release-as:"].iter().any(|key| rest.starts_with(key)) {
            return Err(format!("the trailer {line:?}"));
        }
    }
    check_characters(source)
}

fn command_length(rest: &str) -> usize {
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') { word.len() } else { 0 }
}

/// Checks that a reader sees all characters.
fn check_characters(text: &str) -> Result<(), String> {
    let is_hidden = |c: &char| {
        matches!(*c, '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e0fff}' | '\u{ad}')
            || (c.is_control() && !"\n\t".contains(*c))
    };
    text.chars().find(is_hidden).map_or(Ok(()), |c| Err(format!("the character U+{:04X}", u32::from(c))))
}

/// Checks the text outside of code, in which hosts search for names and numbers.
fn check_text(text: &str) -> Result<(), String> {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or_default();
        let acts = match c {
            '@' | '＠' => next.is_alphanumeric() || "_{\"".contains(next),
            '#' | '!' | '&' | '%' | '＃' => next.is_ascii_digit(),
            '$' => true,
            '~' => next.is_alphanumeric() || next == '"',
            _ => false,
        };
        if acts {
            return Err(format!("{c}{next} in {text:?}"));
        }
    }
    for word in text.to_uppercase().split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_') {
        let number = word.strip_prefix("GH-").or_else(|| word.strip_prefix("GL-"));
        // A letter after the digits makes another word of them.
        if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())) {
            return Err(format!("{word} in {text:?}"));
        }
    }
    Ok(())
}

/// Checks the notation of Slack: only links to http(s) begin with an angle bracket, and code ends.
fn check_slack(text: &str) -> Result<(), String> {
    for after in text.split('<').skip(1) {
        let inner = after.split_once('>').map(|(inner, _)| inner).unwrap_or_default();
        let is_link = (inner.starts_with("https://") || inner.starts_with("http://")) && !inner.contains('|');
        if !is_link {
            return Err(format!("<{after}"));
        }
    }
    if text.lines().filter(|line| line.contains("```")).count() % 2 == 1 {
        return Err("code that does not end".to_owned());
    }
    check_characters(text)
}

/// Checks a title, in which hosts know no code.
fn check_title(title: &str) -> Result<(), String> {
    if title.contains('\n') {
        return Err("a line break".to_owned());
    }
    check_source(title)?;
    let without_url = |word: &str| match word.find("http").filter(|at| word[*at..].contains("://")) {
        // An address separates what is around it.
        Some(at) => format!("{}x", &word[..at]),
        None => word.to_owned(),
    };
    let words: Vec<String> = title.split_inclusive([' ', '`']).map(without_url).collect();
    check_text(&words.concat().replace(['$', '~'], "\0"))
}

fn check_all(text: &str) -> Result<(), String> {
    check_gfm(&gfm(text, 100_000)).map_err(|found| format!("GFM: {found}\n{}", gfm(text, 100_000)))?;
    check_gfm(&gfm_line(text)).map_err(|found| format!("line: {found}\n{}", gfm_line(text)))?;
    let link = format!("[{}](https://example.com/)", gfm_link_text(text));
    let is_link = |event: &Event<'_>| matches!(event, Event::Start(Tag::Link { link_type: LinkType::Inline, .. }));
    if Parser::new(&link).filter(is_link).count() != 1 {
        return Err(format!("text of a link: {link}"));
    }
    let path = gfm_code(text);
    check_gfm(&path).map_err(|found| format!("code: {found}\n{path}"))?;
    check_title(&title(text)).map_err(|found| format!("title: {found}\n{}", title(text)))?;
    check_slack(&slack(text, 100_000)).map_err(|found| format!("Slack: {found}\n{}", slack(text, 100_000)))?;
    check_slack(&slack_line(text)).map_err(|found| format!("line of Slack: {found}"))?;
    check_characters(&discord_line(text))?;
    check_characters(&plain_line(text))
}

#[test]
fn the_corpus_is_written_as_expected() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{}", corpus.len());
    let wrong = |case: &Case| {
        let written = gfm(&case.input, 100_000);
        (written != case.expected)
            .then(|| format!("{}\n--- expected\n{}\n--- written\n{written}\n", case.name, case.expected))
    };
    let wrong: Vec<String> = corpus.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_of_the_corpus_acts_anywhere() {
    for case in corpus() {
        check_all(&case.input).unwrap_or_else(|found| panic!("{}: {found}", case.name));
        // The same in the middle of other text.
        let inside = format!("Fixes {}\n\n- {}", case.input, case.input.replace('\n', "\n  "));
        check_all(&inside).unwrap_or_else(|found| panic!("{} in other text: {found}", case.name));
    }
}

#[test]
fn the_checks_find_what_acts() {
    for text in [
        "![x](https://a.example/)",
        "<b>x</b>",
        "@ada",
        "Fixes #1",
        "fixes https://a.example/1",
        "/merge",
        "`Closes #1`",
        "[x](https://a.example/)",
        "[skip ci]",
        "$x$",
        "- [ ] a",
        "[^1]\n\n[^1]: a",
        "```mermaid\nx\n```",
        "a\u{202e}b",
        "> [!NOTE]\n> a",
        "[a]: https://a.example/",
        "!1",
        "Signed-off-by: a",
        "---\na: b\n---",
        "closes ENG-1",
    ] {
        assert!(check_gfm(text).is_err(), "{text}");
    }
    for text in ["<!channel>", "<@U1>", "<https://a.example/|x>", "```\nx", "a\u{200b}b"] {
        assert!(check_slack(text).is_err(), "{text}");
    }
    for text in ["@ada", "`@ada`", "Fixes #1", "a\nb", "[ci skip] x"] {
        assert!(check_title(text).is_err(), "{text}");
    }
}

#[test]
fn what_was_written_once_stays_as_it_is() {
    for case in corpus() {
        let once = gfm(&case.input, 100_000);
        assert_eq!(gfm(&once, 100_000), once, "{}", case.name);
    }
}

#[test]
fn titles_read_the_same() {
    for (text, expected) in [
        ("Fix the login", "Fix the login"),
        ("Fixes #1 for @ada", "Fixes #`1` for @`ada`"),
        ("Use `@Injectable` and `Option<T>`", "Use @`Injectable` and `Option<T>`"),
        ("`Fixes #1`", "Fixes #`1`"),
        ("ENG-12: use UTF-8", "ENG-12: use UTF-8"),
        ("Fixes ENG-12", "Fixes ENG-`12`"),
        ("docs: x [skip ci]", "docs: x [skip `ci`]"),
        ("feat!: a_b <c> & *d*", "feat!: a_b <c> & *d*"),
        (" a\n b\u{202e} ", "a b⟨U+202E⟩"),
        ("See https://example.com/a", "See https://example.com/a"),
        ("Close https://github.com/a/b/issues/1", "Close `https://github.com/a/b/issues/1`"),
        ("one ` backtick @ada", "one ` backtick @`ada`"),
        ("", ""),
    ] {
        assert_eq!(title(text), expected, "{text}");
    }
}

#[test]
fn lines_of_plain_text_become_markdown() {
    for (text, expected) in [
        ("# a *b* `c*`", "\\# a \\*b\\* `c*`"),
        ("journeyman/a-1_b", "journeyman/a-1_b"),
        ("feature/#12", "feature/#`12`"),
        ("a\nb", "a b"),
    ] {
        assert_eq!(gfm_line(text), expected, "{text}");
    }
    assert_eq!(gfm_link_text("[a](b) https://example.com/"), "\\[a\\](b) `https://example.com/`");
    assert_eq!(
        (gfm_code("a`b\n"), gfm_code("src/#1"), gfm_code("")),
        ("``a`b␊``".to_owned(), "`src/#1`".to_owned(), String::new())
    );
    assert_eq!(gfm_code("Fixes #1"), "Fixes #`1`");
}

#[test]
fn slack_and_discord_show_texts_as_they_are() {
    for (text, expected) in [
        ("# Title\n\n**bold**, *weak*, ~~gone~~", "*Title*\n\n*bold*, _weak_, ~gone~"),
        ("- one\n  - two\n\n1. a", "• one\n  • two\n\n1. a"),
        ("[page](https://a.example/x) here", "page (<https://a.example/x>) here"),
        ("[page](javascript:alert)", "page (`javascript:alert`)"),
        ("![x](https://a.example/x.png)", "image: x (`https://a.example/x.png`)"),
        ("`a < b` **c**", "`a &lt; b` *c*"),
        ("```rust\nif a < b {}\n```", "```\nif a &lt; b {}\n```"),
        ("````\n```\n````", "```\nˋˋˋ\n```"),
        ("<!channel> & <@U1>", "`&lt;!channel&gt; &amp; &lt;@U1&gt;`"),
        ("| a | b |\n|---|---|\n| 1 | *2* |", "```\na | b\n1 | 2\n```"),
        ("> a\n\n---", "> a\n\n———"),
        ("a<br>b", "a\nb"),
    ] {
        assert_eq!(slack(text, 4000), expected, "{text}");
    }
    assert_eq!(slack_line("<!here>\n& x"), "&lt;!here&gt; &amp; x");
    assert_eq!(slack_code("a`<b>\n"), "`aˋ&lt;b&gt;␊`");
    assert_eq!(discord_line("@here [a](b) <@1> \u{202e}"), "\\@here \\[a\\]\\(b\\) \\<\\@1\\> ⟨U\\+202E⟩");
}

#[test]
fn a_template_keeps_its_boxes_and_its_comments() {
    let template =
        "<!-- Describe it, @ada. Fixes #1 -->\n## Checklist\n\n- [ ] tested <!-- how -->\n- [x] small\n\n![l](x.png)";
    let expected = "<!-- Describe it, @ada. Fixes #\\1 -->\n\n## Checklist\n\n- [ ] tested <!-- how -->\n- [x] small\n\nimage: l (`x.png`)";
    assert_eq!(gfm_template(template, 1000), expected);
    for text in ["<!-- journeyman:end -->", "<!-- a --!> @ada -->", "a <!-- journeyman:begin -->", "<!--> @ada -->"] {
        let written = gfm_template(text, 1000);
        check_gfm(&written).unwrap_or_else(|found| panic!("{found}"));
    }
}

#[test]
fn a_long_text_is_cut_and_stays_whole() {
    for text in
        ["```rust\n".to_owned() + &"@ada\n".repeat(50_000), "`@ada` Fixes #1 ".repeat(9_000), "<".repeat(50_000)]
    {
        let written = gfm(&text, 3000);
        let length = written.chars().count();
        assert!((700..=3000).contains(&length), "{length}");
        assert!(written.contains('…'), "{written}");
        check_gfm(&written).unwrap_or_else(|found| panic!("{found}"));
    }
    assert_eq!((gfm("abc", 0), gfm("abc", 3), gfm("abcd", 3)), (String::new(), "abc".to_owned(), "ab…".to_owned()));
}

#[test]
fn texts_that_are_made_to_be_slow_are_written() {
    let wide = format!("|{}\n|{}\n{}", "a|".repeat(3000), "-|".repeat(3000), "|\n".repeat(9000));
    let nested = "> - ".repeat(20_000) + "@ada";
    let images = "![".repeat(20_000) + &"](x)".repeat(20_000);
    for text in [wide, nested, images, "*a ".repeat(30_000), "[".repeat(50_000), "<!--".repeat(20_000)] {
        let written = gfm(&text, 1_000_000);
        check_gfm(&written).unwrap_or_else(|found| panic!("{}: {found}", &text[..20]));
    }
}

/// Pieces of random texts.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "@",
        "ada",
        "#",
        "1",
        "Fixes ",
        "closes: ",
        "GH-",
        "AB",
        "/merge",
        "\n",
        "\n\n",
        " ",
        "  ",
        "\\",
        "`",
        "```",
        "~~~",
        "*",
        "**",
        "_",
        "~",
        "~~",
        "[",
        "]",
        "(",
        ")",
        "](",
        "![",
        "]:",
        "<",
        ">",
        "<!--",
        "-->",
        "<b>",
        "</b>",
        "<br>",
        "<img src=x>",
        "https://a.example/",
        "https://a.example/issues/1",
        "www.b.example",
        "://",
        "javascript:",
        "&",
        "&commat;",
        "&#64;",
        "&num;",
        "&lt;",
        "$",
        "$$",
        "%",
        "!",
        "^",
        "|",
        "---",
        "|-|",
        "- ",
        "1. ",
        "> ",
        "# ",
        "=",
        "===",
        "[ ] ",
        "[x] ",
        "[^1]",
        "{",
        "}",
        ":",
        ".",
        "é",
        "漢",
        "👩\u{200d}💻",
        "\u{200b}",
        "\u{202e}",
        "\u{e0041}",
        "\u{1b}",
        "\t",
        "    ",
        "\r\n",
        "[skip ci]",
        "NO_CI",
        "Signed-off-by: ",
        "journeyman:end",
        "mermaid\n",
        "rust\n",
        "x.png",
        "\"",
        "'",
        "+",
        "-",
        "＠",
        "ﬁ",
        "ENG-12",
        "a/b",
        "[vulnerability:1]",
        ": ",
        "::",
        "&nbsp;",
        "\u{a0}",
        "ada@a.example",
        "mailto:",
        "[[",
        "]]",
        "{{",
        "{#a .b}",
        "[^1]: ",
        "[a]: ",
        "<https://a.example/>",
        "<a href=\"https://a.example/\">",
        "https://a.example/#1",
        "\n---\n",
        "\n\n[",
    ];
    prop_oneof![4 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,3}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_texts_do_not_act(pieces in proptest::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        if let Err(found) = check_all(&text) {
            return Err(TestCaseError::fail(found));
        }
    }

    #[test]
    fn random_texts_are_cut(pieces in proptest::collection::vec(piece(), 0..60), most in 0_usize..80) {
        let text = pieces.concat();
        for written in [gfm(&text, most), slack(&text, most), gfm_template(&text, most)] {
            prop_assert!(written.chars().count() <= most, "{}", written);
        }
        let written = gfm(&text, most);
        if let Err(found) = check_gfm(&written) {
            return Err(TestCaseError::fail(format!("{found}\n{written}")));
        }
    }

    #[test]
    fn nothing_of_random_texts_is_dropped(pieces in proptest::collection::vec(piece(), 0..30)) {
        // No host shows cells beyond the head of a table, or repeated definitions.
        let pieces: Vec<String> = pieces.into_iter().filter(|piece| !piece.contains('|') && piece != "]:").collect();
        let text: String = pieces.iter().enumerate().map(|(index, piece)| format!("{piece}w{index}w")).collect();
        for written in [gfm(&text, 100_000), slack(&text, 100_000), title(&text), gfm_template(&text, 100_000)] {
            let read: String = written.chars().filter(|c| !"`\\".contains(*c)).collect();
            for index in 0..pieces.len() {
                prop_assert!(read.contains(&format!("w{index}w")), "w{index}w of {text:?} is not in\n{written}");
            }
        }
    }
}
