use proptest::prelude::*;

use super::*;

fn replaced(content: &str, old: &str, new: &str, all: bool) -> Result<String, SpliceError> {
    let replacement = Replacement { old, new, all };
    replace(content.as_bytes(), Encoding::Utf8, replacement).map(|(bytes, _)| String::from_utf8(bytes).unwrap())
}

#[test]
fn only_a_unique_text_is_replaced() {
    assert_eq!(replaced("a b c", "b", "x", false).unwrap(), "a x c");
    assert_eq!(replaced("ünder", "ü", "", false).unwrap(), "nder");
    for (content, old, new, reason) in [
        ("a b c", "d", "x", "not in the file"),
        ("a b b", "b", "x", "more than once (2 times)"),
        ("aaa", "aa", "x", "more than once"),
        ("üüü", "üü", "x", "more than once"),
        ("abc", "", "x", "empty"),
        ("abc", "b", "b", "same"),
        ("a\nb\n", "a\r\nb", "x", "its lines end with LF"),
        ("a\r\nb", "a\nb", "a\r\nb", "the same in this file"),
    ] {
        let error = replaced(content, old, new, false).unwrap_err().to_string();
        assert!(error.contains(reason), "{content} {old}: {error}");
    }
}

#[test]
fn all_occurrences_are_replaced_if_that_is_asked() {
    let count = |content: &str, old| {
        replace(content.as_bytes(), Encoding::Utf8, Replacement { old, new: "x", all: true }).unwrap().1
    };
    assert_eq!(replaced("a b a", "a", "aa", true).unwrap(), "aa b aa");
    assert_eq!(replaced("aaa", "aa", "x", true).unwrap(), "xa", "occurrences that overlap are not counted twice");
    assert_eq!(replaced("üaüa", "üa", "", true).unwrap(), "");
    assert_eq!((count("a b a", "a"), count("b", "b")), (2, 1));
    assert!(matches!(replaced("b", "a", "x", true), Err(SpliceError::NotFound(_))));
}

#[test]
fn line_breaks_are_those_of_the_lines_around() {
    for (content, old, new, expected) in [
        // Several lines are found, and keep their ends.
        ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"),
        ("one\r\ntwo\r\nthree\r\n", "two", "two\ntwo and a half", "one\r\ntwo\r\ntwo and a half\r\nthree\r\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n", "one\n", "one\r\n"),
        ("one\r\ntwo\r\n", "one\n", "", "two\r\n"),
        ("one\r\ntwo\r\n", "\ntwo", "", "one\r\n"),
        ("one\r\ntwo\r\n", "\n", "", "refused"),
        ("one\r\ntwo", "\n", "; ", "one; two"),
        // A new text with CRLF gets no second CR.
        ("one\r\ntwo\r\n", "one\n", "1\r\n", "1\r\ntwo\r\n"),
        ("one\r\ntwo\r\n", "one\r\n", "1\r\n", "1\r\ntwo\r\n"),
        // A file without a line break at its end.
        ("one\r\ntwo", "two", "two\nthree", "one\r\ntwo\r\nthree"),
        ("one\ntwo", "two", "two\nthree\n", "one\ntwo\nthree\n"),
        ("one", "one", "one\ntwo", "one\ntwo"),
        // Lines of one file with different ends.
        ("one\r\ntwo\nthree\r\n", "one\ntwo\nthree\n", "one\n2\nthree\n", "one\r\n2\nthree\r\n"),
        ("one\r\ntwo\nthree\r\n", "two", "2\n2.5", "one\r\n2\n2.5\nthree\r\n"),
        ("one\ntwo\r\n", "two\n", "2\n3\n", "one\n2\r\n3\r\n"),
        ("a\n\r\nb", "a\n\nb", "a\nb", "refused or one break less"),
        // LF stays LF, and CR that a model writes is kept.
        ("one\ntwo\n", "one", "1\n1.5", "1\n1.5\ntwo\n"),
        ("one\ntwo\n", "one\n", "1\r\n", "1\r\ntwo\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "one\ntwo", "one\ntwo\r\n"),
        ("a\rb", "a\rb", "a\rc", "a\rc"),
    ] {
        match replaced(content, old, new, false) {
            Ok(result) if expected == "refused or one break less" => assert!(["a\nb", "a\r\nb"].contains(&&*result)),
            Ok(result) => assert_eq!(result, expected, "{content:?} {old:?} {new:?}"),
            Err(error) => assert_eq!((expected, error), ("refused", SpliceError::Several(2)), "{content:?}"),
        }
    }
    let many = replaced(&"a".repeat(1_000_000), "a", "b", false).unwrap_err().to_string();
    assert!(many.contains("(100 times or more)"), "{many}");
    assert_eq!(replaced(&"a".repeat(1_000_000), "a", "b", true).unwrap(), "b".repeat(1_000_000));
    assert_eq!(replaced("a\r\nb\r\na\r\n", "a", "a\nc", true).unwrap(), "a\r\nc\r\nb\r\na\r\nc\r\n");
}

#[test]
fn bytes_that_are_no_text_stay() {
    let content = b"caf\xe9 = 1\nx = 2\0\n\xff\xfe";
    let edit = |old, new| replace(content, Encoding::Utf8, Replacement { old, new, all: false });
    assert_eq!(edit("x = 2", "y = ü").unwrap().0, b"caf\xe9 = 1\ny = \xc3\xbc\0\n\xff\xfe");
    assert_eq!(edit(" = 1\nx", " = 1;\nx").unwrap().0, b"caf\xe9 = 1;\nx = 2\0\n\xff\xfe");
    // U+FFFD stands for an invalid byte only where it does not change.
    assert_eq!(edit("caf\u{fffd} = 1", "caf\u{fffd} = 3").unwrap().0, b"caf\xe9 = 3\nx = 2\0\n\xff\xfe");
    assert_eq!(edit("caf\u{fffd} = 1", "cafe = 1"), Err(SpliceError::Invalid("UTF-8")));
    let error = edit("caf\\xe9", "x").unwrap_err().to_string();
    assert!(error.contains("shows as \\xNN"), "{error}");
}

#[test]
fn inserted_text_has_the_encoding_of_the_file_or_is_refused() {
    for (name, content, old, new, refused) in [
        ("windows-1252", "Größe: 1 €\r\n", "1 €", "2 £", None),
        ("windows-1252", "Größe: 1 €\n", "1", "→", Some('→')),
        ("shift_jis", "表示ソ能\r\nabc\\\r\n", "ソ能", "日本", None),
        ("shift_jis", "日本\n", "本", "é", Some('é')),
        ("gbk", "你好\r\n世界\r\n", "你好\n", "您好\n", None),
        ("gbk", "你好\n", "好", "🦀", Some('🦀')),
        ("utf-16le", "größe\r\n日本🦀\r\n", "日本🦀", "🦀\nx", None),
        ("utf-16be", "größe\r\n日本\r\n", "größe", "Ø🦀", None),
    ] {
        let encoding = Encoding::from_name(name).unwrap();
        let bytes = encoding.encode(content).unwrap();
        let result = replace(&bytes, encoding, Replacement { old, new, all: false });
        let crlf = |text: &str| if content.contains('\r') { text.replace('\n', "\r\n") } else { text.to_owned() };
        match refused {
            None => {
                let expected = content.replace("\r\n", "\n").replacen(old, new, 1);
                assert_eq!(result.unwrap().0, encoding.encode(&crlf(&expected)).unwrap(), "{name}");
            }
            Some(character) => {
                let error = SpliceError::Unmappable { character, encoding: encoding.name() };
                assert_eq!(result, Err(error), "{name}");
            }
        }
    }
    // The second byte of a character, which looks like a backslash, is not found as one.
    let sjis = Encoding::from_name("shift_jis").unwrap();
    let bytes = sjis.encode("ソ\\").unwrap();
    assert_eq!(replace(&bytes, sjis, Replacement { old: "\\", new: "/", all: false }).unwrap().0, b"\x83\x5c/");
}

proptest! {
    #[test]
    fn bytes_around_an_edit_stay_as_they_are(
        before in proptest::collection::vec(any::<u8>(), 0..40),
        after in proptest::collection::vec(any::<u8>(), 0..40),
        name in proptest::sample::select(vec!["utf-8", "windows-1252", "big5"]),
    ) {
        let encoding = Encoding::from_name(name).unwrap();
        // Line breaks, so that no character reaches into the text between them.
        let content = [before.as_slice(), b"\nMARK\n", after.as_slice()].concat();
        if let Ok((result, 1)) = replace(&content, encoding, Replacement { old: "MARK", new: "OTHER", all: false }) {
            prop_assert_eq!(result, [before.as_slice(), b"\nOTHER\n", after.as_slice()].concat());
        }
    }
}
