//! Tests of the tokens of highlighted text.

use super::*;

/// Returns the token of the first span with this text.
fn token_of(spans: &[Vec<Span<'_>>], text: &str) -> Option<Token> {
    let span = spans.iter().flatten().find(|span| span.text.trim() == text);
    span.unwrap_or_else(|| panic!("{text} is not a span of {spans:?}")).token
}

fn joined(spans: &[Vec<Span<'_>>]) -> Vec<String> {
    spans.iter().map(|line| line.iter().map(|span| span.text).collect()).collect()
}

#[test]
fn the_file_name_determines_the_language() {
    let highlighter = Highlighter::new();
    for (path, line, text, token) in [
        ("src/main.rs", "fn main() {}", "main", Token::Function),
        ("src/main.rs", "    // why", "// why", Token::Comment),
        ("src/main.rs", "let x = 42;", "42", Token::Number),
        ("a/b.py", "x = 'text'", "'text'", Token::String),
        ("Cargo.TOML", "# why", "# why", Token::Comment),
        ("deep/Makefile", "# why", "# why", Token::Comment),
        ("app.ts", "const x = 1;", "1", Token::Number),
    ] {
        let spans = highlighter.file(path, &[line], &mut Budget::without_deadline(10));
        assert_eq!(token_of(&spans, text), Some(token), "{path}: {line}");
    }
}

#[test]
fn no_text_is_lost_or_changed() {
    let highlighter = Highlighter::new();
    let lines =
        ["fn ä(x: &str) -> \"日本\" {", "", "\t<script>alert(1)</script>\r", "/* open", "still */ \u{202e}", "}"];
    for path in ["x.rs", "x.html", "x.php", "x.js", "x.yaml", "x.sh", "x.md", "x.unknown", "", "/", "...", "x."] {
        let spans = highlighter.file(path, &lines, &mut Budget::without_deadline(100));
        assert_eq!(joined(&spans), lines, "{path}");
        assert!(spans.iter().flatten().all(|span| !span.text.is_empty()), "{path}: {spans:?}");
    }
}

#[test]
fn a_comment_can_span_several_lines() {
    let spans = Highlighter::new().file("x.rs", &["/* one", "two */ fn"], &mut Budget::without_deadline(10));
    assert_eq!(token_of(&spans, "two */"), Some(Token::Comment));
    assert_eq!(token_of(&spans, "fn"), Some(Token::Keyword));
}

#[test]
fn long_lines_and_lines_beyond_the_budget_are_not_highlighted() {
    let long = format!("let x = \"{}\";", "a".repeat(LONGEST_LINE));
    let highlighter = Highlighter::new();
    let spans =
        highlighter.file("x.rs", &["let a = 1;", &long, "let b = 2;", "let c = 3;"], &mut Budget::without_deadline(2));
    let highlighted: Vec<bool> = spans.iter().map(|line| line.iter().any(|span| span.token.is_some())).collect();
    assert_eq!(highlighted, [true, false, true, false]);

    let mut late = Budget::new(100, Duration::ZERO);
    let spans = highlighter.file("x.rs", &["let a = 1;"], &mut late);
    assert_eq!(spans, [[Span { token: None, text: "let a = 1;" }]]);
}

#[test]
fn all_texts_of_a_page_share_one_budget() {
    let highlighter = Highlighter::new();
    let mut budget = Budget::without_deadline(3);
    let highlighted = |spans: Vec<Vec<Span<'_>>>| spans.iter().flatten().any(|span| span.token.is_some());
    assert!(highlighted(highlighter.file("x.rs", &["let a = 1;", "let b = 2;"], &mut budget)));
    assert!(highlighted(highlighter.block("rust", "let c = 3;", &mut budget)));
    assert!(!highlighted(highlighter.block("rust", "let d = 4;", &mut budget)));
}

#[test]
fn the_info_string_determines_the_language_of_a_block() {
    let highlighter = Highlighter::new();
    for (info, code, text) in [
        ("rust", "let x = 42;", "42"),
        ("rs", "let x = 42;", "42"),
        ("rust,no_run", "let x = 42;", "42"),
        ("Python title=\"x\"", "x = 42", "42"),
        ("javascript", "let x = 42;", "42"),
        ("typescript", "let x = 42;", "42"),
        ("golang", "x := 42", "42"),
    ] {
        let spans = highlighter.block(info, code, &mut Budget::without_deadline(10));
        assert_eq!(token_of(&spans, text), Some(Token::Number), "{info}");
    }
    for info in ["", " ", "no such language", "js\"onclick=alert(1)", "\u{0}"] {
        let spans = highlighter.block(info, "let x = 42;\n\nlast", &mut Budget::without_deadline(10));
        assert_eq!(joined(&spans), ["let x = 42;", "", "last"], "{info}");
        assert!(spans.iter().flatten().all(|span| span.token.is_none()), "{info}");
    }
}

#[test]
fn grammars_handle_unusual_text() {
    let highlighter = Highlighter::new();
    let lines = ["<<'E(OF' <<\"[\" {{{ ((( [[[ \"' `\\", "%w( =begin #!/ @\"[a-", "<?php <script> --- +++ @@", "E(OF"];
    for name in ["x.sh", "x.rb", "x.pl", "x.php", "x.md", "x.html", "x.sql", "x.cpp", "x.hs", "x.tex", "x.lua"] {
        let spans = highlighter.file(name, &lines, &mut Budget::without_deadline(100));
        assert_eq!(joined(&spans), lines, "{name}");
    }
}
