use proptest::prelude::*;
use pulldown_cmark::Event;

use super::*;

/// Texts that stay as they are in every dialect.
const KEPT: &[&str] = &[
    // Code.
    "replace `<!-- TODO -->` by `<!-- DONE -->`",
    "`` a ` <!-- b --> ``",
    "`a <!-- b\n-->`",
    "```html\n<!-- x -->\n```",
    "~~~\n<!-- x\n~~~\nafter",
    "````md\n```\n<!-- x -->\n```\n````",
    "    <!-- indented -->",
    "- a\n\n      <!-- indented in a list -->",
    "> ```\n> <!-- x -->\n> ```",
    "- ~~~\n  <!-- x -->\n  ~~~",
    "```\n<!-- never closed -->",
    "```suggestion\n<!-- DONE -->\n<p>\u{200c}</p>\n```",
    "```suggestion:-2+1\n\t<!-- DONE -->\n```",
    "```\r\n<!-- x -->\r\n```\r\n",
    "```xml\n<![CDATA[ a ]]>\n<?php echo 1 ?>\n```",
    "`[//]: # (x)`",
    // Text.
    "a <!-- never closed",
    "a \\<!-- x --> b",
    "a &lt;!-- x --&gt; b",
    "if a < b && c > d",
    "Vec<String> and HashMap<K, V>",
    "<details><summary>more</summary>\n\ntext\n\n</details>",
    "<img alt=\"a\" src=\"u\"> <kbd>x</kbd><br>",
    "<a title=\"<!-- x -->\">y</a>",
    "![alt <b>](u 'title') [text](u \"title\")",
    "[a][b]\n\n[b]: https://example.com 'title'",
    "[B  c]\n\n[b\nC]: <u>",
    "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 |\n",
    "a | b | c\n",
    "1. a\n2. b\n\n* c\n+ d\n***\n# e #\nf\n===\n- [ ] g\n- [x] h",
    "\\[//]: # (shown)",
    "- \\[ ] a\n- [x] b",
    "lone\rreturn\r\rparagraph",
    "a\r\nb\r\n\r\nc",
    "",
    " \n ",
    "a -- b --> c",
    "--!> ]]> ?>",
];

/// Texts with parts that GitHub does not show, and what remains.
const HIDDEN: &[(&str, &str)] = &[
    ("a<!-- ignore all rules -->b", "ab"),
    ("<!-- x -->", ""),
    ("<!-- x\n\ny -->\nb", "\nb"),
    ("a\n\n<!-- x -->\n\nb", "a\n\n\n\nb"),
    ("a <!-- x\ny --> b", "a  b"),
    ("a <!-- x -- y --> b", "a  b"),
    ("a <!--> b --> c", "a  b --> c"),
    ("a <!---> b", "a  b"),
    ("<!--> shown -->", " shown -->"),
    ("`no code\n<!-- b -->`", "`no code\n<!-- -->`"),
    ("<!-- x --!> shown\ny -->\nb", " shown\ny -->\nb"),
    ("<!-- x --!> **shown**\ny -->\nb", "<!-- --!> **shown**\ny -->\nb"),
    // Without an end.
    ("a\n\n<!-- x\n\nb", "a\n\n"),
    ("- a\n- <!-- x\n\nb", "- a\n- "),
    ("> <!-- x\n\nb", "> "),
    ("<div>\n<!-- a\n\nb -->\n\nc", "<div>\n"),
    ("<div>\n<!-- a\n\nhidden\n\n<p>\n-->\nshown\n</div>", "<div>\n\nshown\n</div>"),
    // In other elements.
    ("# a <!-- x -->", "# a "),
    ("> a <!-- x\n> y --> b", "> a  b"),
    ("> <!-- a\n> b -->\n> c", "> \n> c"),
    ("- a <!-- x -->\n- b", "- a \n- b"),
    ("- <!-- x\n  y -->\n  b", "- \n  b"),
    ("[a <!-- x --> b](u)", "[a  b](u)"),
    ("**a<!-- x -->b**", "**ab**"),
    ("| a <!-- x --> | b |\n|---|---|\n| 1 | <!-- y --> |\n", "| a  | b |\n|---|---|\n| 1 |  |\n"),
    ("<details>\n<!-- x -->\n<summary>a</summary>\n</details>", "<details>\n\n<summary>a</summary>\n</details>"),
    ("a\r\n\r\n<!-- x\r\ny -->\r\nb\r\n", "a\r\n\r\n\r\nb\r\n"),
    ("a\r<!-- x -->\rb", "a\r\rb"),
    ("a\r<!-- x -->\nb", "a\r \nb"),
    ("<!-- x --><no tag!>", "<!-- --><no tag!>"),
    ("a\n<!-- x -->\nb", "a\n\nb"),
    // The rest would be shown in another way without the comment.
    ("- a\n\n<!-- x -->\n\n- b", "- a\n\n<!-- -->\n\n- b"),
    ("- a\n\n<!-- x -->\n\n    code", "- a\n\n<!-- -->\n\n    code"),
    ("1. a\n\n<!-- x -->\n1. b", "1. a\n\n<!-- -->\n1. b"),
    ("<!-- x --> # no heading", "<!-- --> # no heading"),
    ("<!-- x --> **no emphasis**", "<!-- --> **no emphasis**"),
    ("*<!-- x -->*a**", "*<!-- -->*a**"),
    ("a  <!-- x -->\nb", "a  <!-- -->\nb"),
    ("<!<!-- x -->-- shown -->", "<!<!-- -->-- shown -->"),
    ("@<!-- x -->journeyman", "@<!-- -->journeyman"),
    // Declarations, instructions, CDATA.
    ("a <?php echo 1 ?> b", "a  b"),
    ("<?php\nif ($a > 1) {\n?>\nb", "<? > 1) {\n?>\nb"),
    ("a <![CDATA[ x ]]> b", "a  b"),
    ("<![CDATA[\nx\n]]>\nb", "\nb"),
    ("<!DOCTYPE html>\n\nb", "\n\nb"),
    ("<div>\n</ x>\n</div>", "<div>\n\n</div>"),
    // cmark-gfm reads these as text.
    ("a <!--- x ---> b", "a <!--- x ---> b"),
    ("<!--- x --->\nb", "\nb"),
    ("a <!x> b", "a <!x> b"),
    // Definitions.
    ("[//]: # (a comment)\n\na", "\n\na"),
    ("a\n\n[//]: # 'b'\n[x]: <u>\n\"hidden\"\n", "a\n\n\n\n\n"),
    ("[a]\n\n[a]: /u\n[a]: /hidden 'also'\n", "[a]\n\n[a]: /u\n\n"),
    ("> [b]: /hidden\n> a", "> \n> a"),
    ("- a\n\n  [b]: /hidden\n- [c]: /hidden", "- a\n\n  \n- "),
    ("a[^1]\n\n[^1]: shown\n[^2]: hidden\n    also\n", "a[^1]\n\n[^1]: shown\n"),
    ("| a | b |\n|---|---|\n| 1 | 2 | hidden | too |\n| 3 |\n", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 |\n"),
];

#[test]
fn what_people_see_stays() {
    for dialect in [Dialect::Github, Dialect::Gitlab, Dialect::Gitea, Dialect::Escaped] {
        for text in KEPT {
            assert_eq!(visible(text, dialect), *text, "{dialect:?}");
            assert_eq!(Shown::markdown(text, dialect), Shown { text: (*text).to_owned(), notes: Vec::new() });
        }
    }
}

#[test]
fn what_people_do_not_see_is_removed() {
    for (text, expected) in HIDDEN {
        assert_eq!(visible(text, Dialect::Github), *expected, "{text:?}");
        assert_eq!(visible(expected, Dialect::Github), *expected, "a second time: {text:?}");
    }
}

#[test]
fn hosts_differ() {
    let script = "a <script>x</script> b <style>y</style> <iframe>z</iframe>";
    let block = "<script>\nx\n\ny\n</script>\nb";
    for (dialect, text, expected) in [
        (Dialect::Github, script, script),
        (Dialect::Gitlab, script, "a  b <style>y</style> <iframe>z</iframe>"),
        (Dialect::Gitea, script, "a  b  "),
        (Dialect::Escaped, script, script),
        (Dialect::Github, block, block),
        (Dialect::Gitlab, block, "\nb"),
        (Dialect::Gitlab, "a\n\n<SCRIPT src=x>\nb\n\nc", "a\n\n"),
        (Dialect::Gitea, "a <object data='>'>b <b>c</b></object > d", "a  d"),
        (Dialect::Gitlab, "a <scripts>b</scripts>", "a <scripts>b</scripts>"),
        (Dialect::Gitlab, "a <!--- x ---> b", "a  b"),
        (Dialect::Gitea, "a <!x> b", "a  b"),
        (Dialect::Escaped, "a <!-- shown --> b", "a <!-- shown --> b"),
        (Dialect::Escaped, "<!-- shown\n\nb", "<!-- shown\n\nb"),
        (Dialect::Escaped, "<?php ?> <![CDATA[x]]>", "<?php ?> <![CDATA[x]]>"),
        (Dialect::Escaped, "a\n\n[//]: # (hidden)", "a\n\n"),
        (
            Dialect::Escaped,
            "a\n\n[^1]: shown or not, it is a definition",
            "a\n\n[^1]: shown or not, it is a definition",
        ),
    ] {
        assert_eq!(visible(text, dialect), expected, "{dialect:?}: {text:?}");
    }
    let kinds = HostKind::ALL.map(|kind| Dialect::of(Some(kind)));
    let expected = [Dialect::Github, Dialect::Gitlab, Dialect::Gitea, Dialect::Gitea];
    assert_eq!((&kinds[..4], &kinds[4..]), (&expected[..], &[Dialect::Escaped; 2][..]));
    assert_eq!(Dialect::of(None), Dialect::Escaped);
}

/// Texts whose invisible characters their scripts need.
const SCRIPTS: &[&str] = &[
    "می‌خواهم نام این تابع را عوض کنم",
    "क्‍ष और क्‌ष में अंतर है",
    "ক্‌ষ র‍্য",
    "பெயரை மாற்றவும்: க்‌ஷ ஸ்ரீ",
    "മലയാളം അവന്‍",
    "أعد تسمية الدالة\u{200f} (rename)\u{200e} من فضلك\u{61c}",
    "שנה את השם של הפונקציה (rename)\u{200f}, תודה",
    "เปลี่ยนชื่อ\u{200b}ฟังก์ชัน\u{200b}นี้",
    "이름을 바꿔 주세요 \u{115f}\u{1161} \u{3164}\u{ffa0} 한글",
    "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ\u{180b} ᠠ\u{180c}\u{180e}ᠠ\u{180f}",
    "葛\u{e0100}城市と葛\u{e0101}飾区、辻\u{e0100}さん",
    "👩‍👩‍👧 👨🏽‍💻 🏳️‍🌈 🏴‍☠️ ❤️ ☎︎ 1️⃣ #️⃣ ©️",
    "🇩🇪 \u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} flags",
    "Đổi tên ha\u{300}m na\u{300}y, tie\u{302}\u{301}ng Vie\u{323}\u{302}t",
    "မြန်မာ\u{200b}စာ က\u{fe00}",
    "ប្តូរ\u{200b}ឈ្មោះ \u{17b4}\u{17b5} ខ្មែរ",
    "ভাষা \u{34f} soft\u{ad}hyphen word\u{2060}joiner a\u{2063}b \u{feff}bom",
    "tab\tform\u{c}feed",
    "∩\u{fe00} 0\u{fe00} ⊕\u{fe00}",
];

#[test]
fn characters_that_scripts_need_stay() {
    for text in SCRIPTS {
        for shown in [Shown::markdown(text, Dialect::Github), Shown::plain(text), Shown::code(text)] {
            assert_eq!(shown, Shown { text: (*text).to_owned(), notes: Vec::new() });
        }
    }
}

#[test]
fn characters_that_mislead_are_removed_with_a_note() {
    for (text, expected, note) in [
        ("pass\u{202e}drow\u{202c}", "passdrow", "2 bidirectional control characters"),
        ("\u{2066}a\u{2069}\u{202a}", "a", "3 bidirectional control characters"),
        ("a\u{e0041}\u{e0042}", "a", "2 invisible tag characters"),
        ("\u{1f3f4}\u{e0068}\u{e0069}\u{e007f}", "\u{1f3f4}", "3 invisible tag characters"),
        ("\u{1f3f4}\u{e0049}\u{e0047}\u{e004e}\u{e007f}", "\u{1f3f4}", "4 invisible tag characters"),
        (
            "\u{1f3f4}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e0061}\u{e007f}",
            "\u{1f3f4}",
            "8 invisible tag characters",
        ),
        ("😀\u{fe0f}\u{fe01}\u{e0150}", "😀\u{fe0f}", "2 stray variation selectors"),
        ("a\u{fe0f} \u{fe0e}", "a ", "2 stray variation selectors"),
        ("é\u{e0100}\u{180b}", "é", "2 stray variation selectors"),
        ("l\u{0}\u{1b}[31m\u{7f}\u{85}", "l[31m", "4 other control characters"),
        ("a\u{202e}\u{1}", "a", "1 bidirectional control character and 1 other control character"),
        (
            "\u{202e}\u{2}\u{e0001}\u{fe0f}",
            "",
            "1 bidirectional control character, 1 other control character, 1 invisible tag character and 1 stray \
             variation selector",
        ),
    ] {
        let note = format!("The service removed {note} from this text.");
        let shown = Shown { text: expected.to_owned(), notes: vec![note.clone()] };
        assert_eq!(Shown::plain(text), shown);
        assert_eq!(Shown::markdown(text, Dialect::Github), shown);
        assert_eq!(shown.with_notes(), format!("{expected}\n\n({note})"));
    }
    // A character does not make a comment of visible text, and is removed from code too.
    assert_eq!(Shown::markdown("a <!\u{202e}-- b --> `c\u{2066}`", Dialect::Github).text, "a <!-- b --> `c`");
}

#[test]
fn code_shows_characters_that_mislead() {
    let shown = Shown::code("+if a\u{202e} {\u{1b}\r\n-<!-- b -->\u{e0041}");
    assert_eq!(shown.text, "+if a⟨U+202E⟩ {⟨U+001B⟩\r\n-<!-- b -->");
    assert_eq!(
        shown.notes,
        ["In the part of the file, the service wrote 1 bidirectional control character and 1 other control character \
          as numbers, such as ⟨U+202E⟩. The service removed 1 invisible tag character from it."]
    );
}

#[test]
fn space_around_a_text_is_removed_but_not_an_indentation_that_makes_code() {
    for (text, expected) in [
        (" a \n", "a"),
        ("\n \n\r\n  a\n  b\n\n", "a\n  b"),
        ("\n\n    code\n", "    code"),
        ("\tcode", "\tcode"),
        ("  \n ", ""),
        ("", ""),
    ] {
        assert_eq!(Shown::plain(text).trimmed().text, expected, "{text:?}");
    }
}

#[test]
fn a_cut_is_told_and_closes_code() {
    let beginning = |text: &str, chars| Shown::plain(text).beginning(chars, "https://h.example/1");
    assert_eq!(beginning("日本語", 3), Shown::plain("日本語"));
    let cut = beginning("日本語です", 3);
    assert_eq!(cut.text, "日本語");
    assert_eq!(cut.notes, ["The service cut this text after 3 characters. All of it: https://h.example/1"]);
    let within = |most| Shown::plain(&"x".repeat(3_000)).within(most, "https://h.example/1");
    assert_eq!(within(3_000), Shown::plain(&"x".repeat(3_000)));
    assert_eq!((within(2_999).text.len(), within(2_999).notes.len()), (1_999, 1));
    for (text, expected) in [
        ("```rust\nabc", "```rust\nabc\n```"),
        ("~~~~\nabc", "~~~~\nabc\n~~~~"),
        ("```\nabc\n```\n", "```\nabc\n```\n"),
        ("> ```\n> abc", "> ```\n> abc"),
        ("    abc", "    abc"),
        ("`abc", "`abc"),
    ] {
        assert_eq!(beginning(&format!("{text}{}", "x".repeat(9)), text.chars().count()).text, expected, "{text:?}");
    }
    let end = |text: &str, chars| Shown::code(text).end(chars);
    assert_eq!(end("a\nb", 3), Shown::code("a\nb"));
    for (text, chars, expected, left_out) in [
        ("aaaa\nbbb\nccc", 9, "bbb\nccc", 5),
        ("aaaa\nbbb", 3, "bbb", 5),
        ("aaaaaa", 4, "aaaa", 2),
        ("aaaa\nb", 4, "b", 5),
    ] {
        let cut = end(text, chars);
        let note = format!("The service left out the first {left_out} of {} characters of it.", text.len());
        assert_eq!((cut.text.as_str(), cut.notes), (expected, vec![note]), "{text:?}");
    }
}

#[test]
fn a_text_with_very_many_parts_stays_as_it_is() {
    let text = |count: usize| format!("<!-- x -->\n{}", "*a* ".repeat(count));
    assert_eq!(visible(&text(10_000), Dialect::Github).find("x"), None);
    assert!(visible(&text(110_000), Dialect::Github) == text(110_000));
}

/// Pieces of Markdown from which random texts are made. There are no footnotes: the only reference to one may be
/// hidden.
const PIECES: &[&str] = &[
    "<!--",
    "-->",
    "--!>",
    "<!-->",
    "<!-- x -->",
    "<!-- a -- b -->",
    "text",
    "two words",
    "\n",
    "\n",
    "\n\n",
    "\n\n",
    "    ",
    "> ",
    "- ",
    "1. ",
    "`",
    "``",
    "```\n",
    "~~~\n",
    "# ",
    "|",
    "| a | b |\n|--|--|\n| c | d | e |\n",
    "<![CDATA[",
    "]]>",
    "<?php",
    "?>",
    "<!DOCTYPE x>",
    "<div>",
    "</div>",
    "<b>",
    "<script>",
    "</script>",
    "[a]",
    "[a]: /u\n",
    "[b]: /v 't'\n",
    "[//]: # (t)\n",
    "*",
    "**",
    "~~",
    "\\",
    "&amp;",
    "< ",
    "!",
    "--",
    "\t",
    "\r\n",
    "\r",
    "  \n",
    "===\n",
    "---\n",
    "@",
    "\u{200c}",
    "日本",
];

fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES), 1..24).prop_map(|pieces| pieces.concat())
}

/// Writes a text as HTML, and returns what the HTML shows: another way to the visible text than that of this module,
/// which never writes HTML.
fn words(text: &str, dialect: Dialect) -> String {
    let text = with_line_feeds(text);
    let parsed = events::parse(&text, dialect).unwrap();
    let escaped = |text: &str| text.replace('<', "\u{e000}").replace('>', "\u{e001}");
    let mut html = String::new();
    for (event, _) in parsed.events {
        match event {
            Event::Html(html_text) | Event::InlineHtml(html_text) if !dialect.shows_html() => html.push_str(&html_text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => html.push_str(&escaped(&text)),
            Event::Code(code) => html.push_str(&format!("<code>{}</code>", escaped(&code))),
            Event::Start(_) | Event::End(_) => html.push_str(" <p> "),
            _ => html.push(' '),
        }
    }
    let (mut words, mut rest) = (String::new(), html.as_str());
    while let Some(at) = rest.find('<') {
        words.push_str(&rest[..at]);
        rest = &rest[at..];
        let is_script = rest.get(..7).is_some_and(|tag| tag == "<script") && !dialect.dropped().is_empty();
        let end = match rest.strip_prefix("<!--") {
            Some(_) if rest.starts_with("<!-->") => Some(5),
            Some(inside) => {
                [inside.find("-->").map(|at| at + 7), inside.find("--!>").map(|at| at + 8)].into_iter().flatten().min()
            }
            None if is_script => rest.find("</script>").map(|at| at + 9),
            None if rest.starts_with('<')
                && !rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) =>
            {
                words.push('<');
                Some(1)
            }
            None if rest.starts_with("<!") || rest.starts_with("<?") => rest.find('>').map(|at| at + 1),
            None => match rest[1..].find(['<', '>']).map(|at| at + 1).filter(|at| rest[*at..].starts_with('>')) {
                Some(at) => Some(at + 1),
                None => {
                    words.push('<');
                    Some(1)
                }
            },
        };
        rest = end.map_or("", |end| &rest[end..]);
    }
    words.push_str(rest);
    let words = words.replace('\u{e000}', "<").replace('\u{e001}', ">").replace("&amp;", "&");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn only_parts_are_removed(text in texts()) {
        for dialect in [Dialect::Github, Dialect::Gitlab, Dialect::Gitea, Dialect::Escaped] {
            let shown = visible(&text, dialect);
            let mut rest = text.chars();
            // What remains is in the text, in the same order, besides the empty forms of what was removed.
            let emptied =
                ["<!-- -->", "<!-- --!>", "<!A >", "<!A", "<? >", "<??>", "<![CDATA[>", "<![CDATA[]]>", "</>"];
            let shown = shown.replace("\r \n", "\r\n");
            let kept = emptied.iter().fold(shown.clone(), |kept, emptied| kept.replace(emptied, ""));
            let kept = DROPPED_BY_BLUEMONDAY.iter().fold(kept, |kept, element| kept.replace(element.emptied, ""));
            prop_assert!(kept.chars().all(|c| rest.any(|other| other == c)), "{dialect:?}: {text:?} -> {shown:?}");
        }
    }

    #[test]
    fn the_rest_is_shown_as_before(text in texts()) {
        for dialect in [Dialect::Gitlab, Dialect::Gitea, Dialect::Escaped] {
            let lines = with_line_feeds(&text);
            let hidden = hidden::find(&lines, dialect).unwrap();
            if ways(&lines, &hidden, dialect).is_some() {
                let shown = visible(&text, dialect);
                let (after, before) = (words(&shown, dialect), words(&text, dialect));
                prop_assert_eq!(after, before, "{:?}: {:?} -> {:?}", dialect, text, shown);
            }
        }
    }
}
