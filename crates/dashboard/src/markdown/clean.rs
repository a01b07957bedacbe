//! The allowed HTML of rendered Markdown.

use std::collections::{HashMap, HashSet};

use ammonia::{Builder, UrlRelative};

use crate::highlight::Token;

/// The class of the checkbox of a task.
pub(super) const TASK: &str = "task";

/// The allowed elements. Headings above `h4` are missing because the page itself has them. There are no elements that
/// load anything, and no form controls.
const TAGS: [&str; 23] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

/// Removes everything that is not allowed. Every class, attribute and scheme is listed here, so that new features of
/// HTML are not allowed automatically.
pub(super) fn clean(html: &str) -> String {
    rules().clean(html).to_string()
}

/// Removes everything that is not allowed in an article of this project: in addition, its headings have IDs, and its
/// links lead to other pages.
pub(super) fn clean_article(html: &str) -> String {
    let mut rules = rules();
    rules.add_tags(["h2", "h3"]).url_relative(UrlRelative::PassThrough).link_rel(None);
    for heading in ["h2", "h3", "h4"] {
        rules.add_tag_attributes(heading, ["id"]);
    }
    rules.clean(html).to_string()
}

fn rules() -> Builder<'static> {
    let alignments = || HashMap::from([("align", HashSet::from(["center", "left", "right"]))]);
    let tabindex = || HashMap::from([("tabindex", HashSet::from(["0"]))]);
    let classes = Token::ALL.into_iter().map(Token::class).chain([TASK]).collect();
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(TAGS))
        .clean_content_tags(HashSet::from(["script", "style"]))
        .tag_attributes(HashMap::from([("a", HashSet::from(["href"])), ("ol", HashSet::from(["start"]))]))
        // `tabindex` makes wide code and tables scrollable with the keyboard.
        .tag_attribute_values(HashMap::from([
            ("td", alignments()),
            ("th", alignments()),
            ("pre", tabindex()),
            ("table", tabindex()),
        ]))
        .generic_attributes(HashSet::new())
        .allowed_classes(HashMap::from([("span", classes)]))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        // A relative URL would lead to a page of the dashboard.
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow ugc"))
        .strip_comments(true);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the sanitizer alone, as if the writer escaped nothing.
    #[test]
    fn only_listed_elements_and_attributes_pass() {
        for (html, expected) in [
            ("<script>alert(1)</script>a", "a"),
            ("<style>*{}</style>a", "a"),
            ("<img src=x onerror=alert(1)>a", "a"),
            ("<p onclick=alert(1) style=color:red id=x title=x data-x=y>a</p>", "<p>a</p>"),
            ("<h1>a</h1><iframe src=//x></iframe>", "a"),
            ("<a href=\"javascript:alert(1)\">a</a>", "<a rel=\"noopener noreferrer nofollow ugc\">a</a>"),
            ("<a href=\"/projects\" target=_top>a</a>", "<a rel=\"noopener noreferrer nofollow ugc\">a</a>"),
            ("<a href=\"//x.y\" rel=opener>a</a>", "<a rel=\"noopener noreferrer nofollow ugc\">a</a>"),
            ("<span class=\"hl-keyword badge task\">a</span>", "<span class=\"hl-keyword task\">a</span>"),
            ("<p class=\"task\" tabindex=0>a</p>", "<p>a</p>"),
            ("<pre tabindex=5>a</pre>", "<pre>a</pre>"),
            ("<table tabindex=5></table>", "<table></table>"),
            ("<input value=x><form action=/x><button>a</button></form>", "a"),
            ("<!-- a --><p>b", "<p>b</p>"),
        ] {
            assert_eq!(clean(html), expected, "{html}");
        }
    }

    #[test]
    fn articles_have_sections_and_links_to_other_pages_and_nothing_else() {
        for (html, expected) in [
            ("<h2 id=\"a\" class=\"b\">a</h2>", "<h2 id=\"a\">a</h2>"),
            ("<p id=\"a\">a</p>", "<p>a</p>"),
            ("<a href=\"/docs/guides/errors#a\">a</a>", "<a href=\"/docs/guides/errors#a\">a</a>"),
            ("<a href=\"javascript:alert(1)\">a</a>", "<a>a</a>"),
            ("<img src=x><script>alert(1)</script>a", "a"),
        ] {
            assert_eq!(clean_article(html), expected, "{html}");
        }
    }

    #[test]
    fn mutation_xss_payloads_are_harmless() {
        for html in [
            "<svg onload=alert(1)><a xlink:href=\"javascript:alert(1)\">a</a></svg>",
            "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
            "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
            "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
            "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
            "<table><td><script>alert(1)</script></td></table>",
            "<template><img src=x onerror=alert(1)></template>",
            "<p title='`<img src=x onerror=alert(1)>'>",
        ] {
            let cleaned = clean(html);
            for markup in ["<img", "<svg", "<math", "<script", "<style", "<form", "onerror=\"", "onload", "href"] {
                assert!(!cleaned.contains(markup), "{markup} is in {cleaned}, made of {html}");
            }
        }
    }

    #[test]
    fn the_classes_of_all_tokens_pass() {
        for token in Token::ALL {
            let html = format!("<span class=\"{}\">a</span>", token.class());
            assert_eq!(clean(&html), html);
        }
    }
}
