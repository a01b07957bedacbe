//! Tests of rendered Markdown, and of attacks on it.

use std::sync::mpsc::channel;
use std::thread;

use askama::Template;
use journeyman_testkit::PATIENCE;

use super::*;
use crate::highlight::Token;

/// The `rel` attribute of every link.
const REL: &str = "rel=\"noopener noreferrer nofollow ugc\"";

fn rendered(text: &str) -> String {
    rendered_by(&Highlighter::new(), text)
}

/// Renders with an existing highlighter, so that tests with many texts load the grammars once.
fn rendered_by(highlighter: &Highlighter, text: &str) -> String {
    html_within(text, highlighter, &mut Budget::without_deadline(1_000)).to_string()
}

/// Renders without newlines, which have no meaning between elements.
fn compact(text: &str) -> String {
    rendered(text).replace('\n', "")
}

#[test]
fn markdown_is_converted_to_html() {
    for (text, expected) in [
        ("", String::new()),
        ("a *b* **c** ~~d~~ `e`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>".into()),
        ("# a\n\n## b\n\n### c\n\n###### d", "<h4>a</h4><h5>b</h5><h6>c</h6><h6>d</h6>".into()),
        ("- a\n- b\n  1. c", "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>".into()),
        ("3. a", "<ol start=\"3\"><li>a</li></ol>".into()),
        ("> a", "<blockquote><p>a</p></blockquote>".into()),
        ("a  \nb\n\n---", "<p>a<br>b</p><hr>".into()),
        (
            "- [x] a\n- [ ] b",
            "<ul><li><span class=\"task\">☑</span> a</li><li><span class=\"task\">☐</span> b</li></ul>".into(),
        ),
        (
            "|a|b|\n|:-:|--|\n|c|d|",
            "<table tabindex=\"0\"><thead><tr><th align=\"center\">a</th><th>b</th></tr></thead>\
             <tbody><tr><td align=\"center\">c</td><td>d</td></tr></tbody></table>"
                .into(),
        ),
        ("[a](https://x.y)", format!("<p><a href=\"https://x.y\" {REL}>a</a></p>")),
        ("[a][r]\n\n[r]: https://x.y 'title'", format!("<p><a href=\"https://x.y\" {REL}>a</a></p>")),
        ("<https://x.y>", format!("<p><a href=\"https://x.y\" {REL}>https://x.y</a></p>")),
        ("see https://x.y/a_b.", format!("<p>see <a href=\"https://x.y/a_b\" {REL}>https://x.y/a_b</a>.</p>")),
        ("[https://x.y](https://z.y)", format!("<p><a href=\"https://z.y\" {REL}>https://x.y</a></p>")),
        ("`https://x.y`", "<p><code>https://x.y</code></p>".into()),
        ("<a@b.cd>", format!("<p><a href=\"mailto:a@b.cd\" {REL}>a@b.cd</a></p>")),
        ("![a *b*](https://x.y/z.png)", format!("<p><a href=\"https://x.y/z.png\" {REL}>a <em>b</em></a></p>")),
        ("![](https://x.y/z.png)", format!("<p><a href=\"https://x.y/z.png\" {REL}>image</a></p>")),
        ("![](z.png)", "<p>image</p>".into()),
        ("[![a](https://x.y/z.png)](https://x.y)", format!("<p><a href=\"https://x.y\" {REL}>a</a></p>")),
        ("[main.rs](src/main.rs)", "<p>main.rs</p>".into()),
        ("a[^1]\n\n[^1]: b", "<p>a^1</p>".into()),
    ] {
        assert_eq!(compact(text), expected, "{text}");
    }
}

#[test]
fn code_is_highlighted_and_its_text_is_unchanged() {
    let html = rendered("```rust\nlet x = \"<b>\";\n\n    // why\n```");
    assert!(html.starts_with("<pre tabindex=\"0\"><code><span class=\"hl-keyword\">let</span>"), "{html}");
    assert!(html.contains("<span class=\"hl-string\">\"&lt;b&gt;\"</span>"), "{html}");
    assert!(html.contains(";\n\n    <span class=\"hl-comment\">// why") || html.contains("// why</span>"), "{html}");
    assert_eq!(rendered("    indented <b>\n"), "<pre tabindex=\"0\"><code>indented &lt;b&gt;\n</code></pre>");
    assert_eq!(rendered("```\nplain &amp;\n```"), "<pre tabindex=\"0\"><code>plain &amp;amp;\n</code></pre>");
}

#[test]
fn all_texts_of_a_page_share_one_highlighting_budget() {
    let (highlighter, mut budget) = (Highlighter::new(), Budget::without_deadline(1));
    let mut shown = || html_within("```rust\nlet x = 1;\n```", &highlighter, &mut budget).to_string();
    assert!(shown().contains("hl-keyword"));
    assert_eq!(shown(), "<pre tabindex=\"0\"><code>let x = 1;\n</code></pre>");
}

#[test]
fn html_is_shown_as_text() {
    for (text, expected) in [
        ("<script>alert(1)</script>", "<pre tabindex=\"0\"><code>&lt;script&gt;alert(1)&lt;/script&gt;</code></pre>"),
        ("a <b onclick=x>b</b>", "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>"),
        ("a <!-- b -->", "<p>a &lt;!-- b --&gt;</p>"),
        ("<!-- hidden -->", "<pre tabindex=\"0\"><code>&lt;!-- hidden --&gt;</code></pre>"),
        ("&lt;script&gt;", "<p>&lt;script&gt;</p>"),
    ] {
        assert_eq!(compact(text), expected, "{text}");
    }
}

/// Payloads that have become markup in other programs.
const ATTACKS: &[&str] = &[
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//x.y></SCRIPT>",
    "<img src=x onerror=alert(1)>",
    "a <img src=x onerror=alert(1)> b",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<style>@import '//x.y';</style>",
    "<link rel=stylesheet href=//x.y>",
    "<base href=//x.y>",
    "<meta http-equiv=refresh content='0;url=//x.y'>",
    "<form action=//x.y><input name=a><button>b</button></form>",
    "<div style='position:fixed' class=badge id=main>",
    "</main></body><script>alert(1)</script>",
    "<!-- --!><img src=x onerror=alert(1)>-->",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?php echo '<img src=x onerror=alert(1)>' ?>",
    "<!DOCTYPE html [<!ENTITY x '<img src=x onerror=alert(1)>'>]>",
    "<p title=\"</p><img src=x onerror=alert(1)>\">",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<a href=javascript:alert(1)>a</a>",
    "<b unclosed",
    "<img src=x onerror=alert(1)//",
    "&lt;img src=x onerror=alert(1)&gt;",
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](javascript&colon;alert(1))",
    "[a](&#106;avascript:alert(1))",
    "[a](&#x6A&#x61vascript:alert(1))",
    "[a](java&Tab;script:alert(1))",
    "[a](java&NewLine;script:alert(1))",
    "[a](<java\tscript:alert(1)>)",
    "[a](\u{1}javascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=)",
    "[a](vbscript:msgbox)",
    "[a](file:///etc/passwd)",
    "[a](//x.y)",
    "[a](/projects/shop/pulls/1/merge)",
    "[a](#main)",
    "[a](?view=split)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "[a][r]\n\n[r]: javascript:alert(1)",
    "[r]\n\n[r]: <javascript:alert(1)> \"title\"",
    "![a](javascript:alert(1))",
    "![a](data:image/svg+xml,<svg/onload=alert(1)>)",
    "[^1]\n\n[^1]: <img src=x onerror=alert(1)>",
    "[a](x 'b\" onclick=alert(1) \"')",
    "![a\" onerror=\"alert(1)](x)",
    "```js\" onclick=\"alert(1)\n<img src=x onerror=alert(1)>\n```",
    "``` \"><img src=x onerror=alert(1)>\na\n```",
    "~~~<script>\n</code></pre><script>alert(1)</script>\n~~~",
    "`</code><img src=x onerror=alert(1)>`",
    "# <img src=x onerror=alert(1)> {#main .badge onclick=alert(1)}",
    "|<img src=x onerror=alert(1)>|\n|-|\n|</td></table><script>alert(1)</script>|",
    "- [ ] <input onfocus=alert(1) autofocus>",
    "1. <li onclick=alert(1)>",
    "> </blockquote><script>alert(1)</script>",
    "*<b onclick=alert(1)>*",
    "$$<img src=x onerror=alert(1)>$$",
    "---\ntitle: <script>alert(1)</script>\n---",
];

/// Asserts that the markup has only tags that this module writes, with exactly their attributes.
fn assert_harmless(html: &str, text: &str) {
    for (at, _) in html.match_indices('<') {
        let tag = html[at + 1..].split('>').next().unwrap();
        let (name, attributes) =
            tag.trim_start_matches('/').split_once(' ').unwrap_or((tag.trim_start_matches('/'), ""));
        let is_known = match name {
            "a" if tag == "/a" => true,
            "a" => {
                let address = attributes.strip_suffix(REL).unwrap_or_default().trim_end();
                let address = address.strip_prefix("href=\"").and_then(|rest| rest.strip_suffix('"'));
                address.is_some_and(|address| !address.contains('"') && link::is_allowed(address))
            }
            "span" if tag == "/span" => true,
            "span" => {
                let class = attributes.strip_prefix("class=\"").and_then(|rest| rest.strip_suffix('"'));
                class.is_some_and(|class| Token::ALL.iter().any(|token| token.class() == class) || class == "task")
            }
            "pre" | "table" if attributes == "tabindex=\"0\"" => true,
            "p" | "h4" | "h5" | "h6" | "ul" | "ol" | "li" | "blockquote" | "pre" | "code" | "em" | "strong" | "del"
            | "br" | "hr" | "table" | "thead" | "tbody" | "tr" | "th" | "td" => attributes.is_empty(),
            _ => false,
        };
        assert!(is_known, "<{tag}> is in {html}, made of {text}");
    }
}

#[test]
fn no_attack_becomes_markup() {
    let highlighter = Highlighter::new();
    for attack in ATTACKS {
        for text in [
            (*attack).to_owned(),
            format!("a {attack} b"),
            format!("> - {attack}"),
            format!("*a* [b {attack} c](https://x.y) {attack}"),
            format!("# {attack}"),
            format!("|a|\n|-|\n|{attack}|"),
            format!("    {attack}"),
            format!("```html\n{attack}\n```"),
            format!("![{attack}](https://x.y/{attack} \"{attack}\")"),
            format!("<https://x.y/{attack}> https://x.y/{attack}"),
            format!("[a]: https://x.y \"{attack}\"\n\n[a] [{attack}][a]"),
        ] {
            assert_harmless(&rendered_by(&highlighter, &text), &text);
        }
    }
}

#[test]
fn hidden_characters_are_shown_in_every_notation() {
    for text in [
        "a\u{202e}b",
        "a&#x202e;b",
        "a&#8238;b",
        "a&rlm;\u{202e}b",
        "`\u{202e}`",
        "```\n\u{202e}\n```",
        "```rust\n// \u{202e}\n```",
        "[\u{202e}](https://x.y/&#x202e;)",
        "https://x.y/\u{202e}",
        "![&#x202e;](https://x.y)",
        "<b\u{202e}>",
    ] {
        let html = rendered(text);
        assert!(!html.contains(['\u{202e}', '\u{200f}']) && html.contains("⟨U+202E⟩"), "{text} became {html}");
        assert_harmless(&html, text);
    }
}

#[test]
fn a_template_inserts_markup_unescaped_and_text_escaped() {
    #[derive(Template)]
    #[template(source = "{{ markup }}{{ text }}", ext = "html")]
    struct Page<'a> {
        markup: Markup,
        text: &'a str,
    }

    let markup = html("*a* <b>", &Highlighter::new());
    let page = Page { markup, text: "<b>" }.render().unwrap();
    assert_eq!(page.replace('\n', ""), "<p><em>a</em> &lt;b&gt;</p>&#60;b&#62;");
}

#[test]
fn text_that_is_too_long_is_shown_without_formatting() {
    let long = format!("*a* <b>\n{}", "x".repeat(LONGEST_TEXT));
    let html = rendered(&long);
    assert!(html.starts_with("<pre tabindex=\"0\"><code>*a* &lt;b&gt;\nxxx") && html.ends_with("xxx</code></pre>"));
    assert!(rendered(&"x ".repeat(LONGEST_TEXT / 2)).starts_with("<p>x x "));
}

#[test]
fn malicious_nesting_does_not_hang_and_yields_neither_long_nor_deep_html() {
    let nested = |part: &str, count: usize| part.repeat(count);
    for (name, text) in [
        ("quotes", nested(">", 10_000)),
        ("quotes on lines", (0..180).map(|depth| format!("{}a\n", ">".repeat(depth))).collect()),
        ("lists", nested("- ", 10_000)),
        ("lists by indentation", (0..400).map(|depth| format!("{}- a\n", " ".repeat(depth * 2))).collect()),
        ("quotes with blank lines", format!("{}a\n{}", "> ".repeat(90), "\n".repeat(100_000))),
        ("lists with blank lines", format!("{}a\n{}", "- ".repeat(90), "\n".repeat(100_000))),
        ("brackets", nested("[", 100_000)),
        ("images", nested("![", 50_000)),
        ("links", nested("[a](", 40_000)),
        ("nested links", format!("{}a{}", nested("[", 10_000), nested("](b)", 10_000))),
        ("references", format!("[a]: https://x.y/{}\n\n{}", "b".repeat(60_000), nested("[a] ", 40_000))),
        ("emphasis", format!("{}{}", nested("*a ", 30_000), nested("a* ", 30_000))),
        ("strong", nested("**a", 60_000)),
        ("underscores", nested("_a__b_", 30_000)),
        ("tildes", nested("~~a ", 50_000)),
        ("backticks", (1..600).map(|count| format!("a{}", "`".repeat(count))).collect()),
        ("angles", nested("<", 100_000)),
        ("comments", nested("<!--", 50_000)),
        ("tags", nested("<a ", 60_000)),
        ("tags at line begins", nested("<div>\n", 40_000)),
        ("instructions", nested("a <?", 50_000)),
        ("sections", nested("a <![CDATA[", 20_000)),
        ("entities", nested("&#x202e;", 30_000)),
        ("addresses", nested("http://.", 30_000)),
        ("parentheses", format!("http://a{}", nested(")", 200_000))),
        ("tables", format!("{}\n{}\n{}", nested("|a", 20_000), nested("|-", 20_000), nested("|a\n", 50_000))),
        ("definitions", (0..10_000).map(|number| format!("[{number}]: https://x.y\n")).collect()),
        ("fences", nested("```\n", 60_000)),
        ("headings", nested("a\n=\n", 50_000)),
    ] {
        let length = text.len();
        let (sender, receiver) = channel();
        thread::spawn(move || sender.send(rendered(&text)));
        let html = receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(html.len() < 100 * length, "{name}: {length} bytes become {}", html.len());
        let deepest = html.split('<').scan(0_i32, |depth, tag| {
            *depth += if tag.starts_with('/') {
                -1
            } else {
                i32::from(!tag.is_empty() && !tag.starts_with("br>") && !tag.starts_with("hr>"))
            };
            Some(*depth)
        });
        assert!(deepest.max().unwrap_or_default() < 200, "{name}");
    }
}
