//! Tests of the calls of tools, also on files in other encodings and with other line breaks.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// A file of a table: its name, the text that read_file shows, a word to search, and an edit.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// Lines that read_file shows.
    shown: &'static [&'static str],
    /// A part of the note about the encoding.
    note: &'static str,
    /// A pattern, and the line with it.
    search: (&'static str, &'static str),
    /// The texts of an edit, and the bytes that replace those before.
    edit: (&'static str, &'static str, Vec<u8>, Vec<u8>),
    /// A character that the encoding does not have.
    refused: Option<&'static str>,
}

fn units(text: &str, bytes_of: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes_of).collect()
}

fn cases() -> Vec<Case> {
    let (le, be) = (u16::to_le_bytes, u16::to_be_bytes);
    let german = "Größe = 1\r\nStraße = 2\r\n";
    let german_lines: &[&str] = &["Größe = 1", "Straße = 2"];
    let utf16 = |name, bytes, note, bytes_of: fn(u16) -> [u8; 2]| Case {
        name,
        bytes,
        shown: german_lines,
        note,
        search: ("Stra.e", "2: Straße = 2"),
        edit: ("1\nStraße", "1 🦀\n日本", units("1\r\nStraße", bytes_of), units("1 🦀\r\n日本", bytes_of)),
        refused: None,
    };
    vec![
        utf16("utf-16le with a mark", units(&format!("\u{feff}{german}"), le), "UTF-16LE with a byte order mark", le),
        utf16("utf-16be with a mark", units(&format!("\u{feff}{german}"), be), "UTF-16BE with a byte order mark", be),
        utf16("utf-16le", units(german, le), "UTF-16LE (guessed", le),
        utf16("utf-16be", units(german, be), "UTF-16BE (guessed", be),
        Case {
            name: "windows-1252",
            bytes: b"// Gr\xf6\xdfe in \x80\nint x = 1;\n".to_vec(),
            shown: &["// Größe in €", "int x = 1;"],
            note: "windows-1252 (guessed",
            search: ("größe|Größe", "1: // Größe in €"),
            edit: ("in €", "in £ à", b"in \x80".to_vec(), b"in \xa3 \xe0".to_vec()),
            refused: Some("→"),
        },
        Case {
            name: "shift_jis",
            bytes: b"# \x82\xb1\x82\xcc\x95\\\x8e\xa6\r\nx = 1\r\n".to_vec(),
            shown: &["# この表示", "x = 1"],
            note: "Shift_JIS (guessed",
            search: ("表示", "1: # この表示"),
            edit: ("の表示\nx", "の能\ny", b"\x82\xcc\x95\\\x8e\xa6\r\nx".to_vec(), b"\x82\xcc\x94\\\r\ny".to_vec()),
            refused: Some("é"),
        },
        Case {
            name: "gbk",
            bytes: b"# \xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7\nx = 1\n".to_vec(),
            shown: &["# 你好，世界", "x = 1"],
            note: "GBK (guessed",
            search: ("世界", "1: # 你好，世界"),
            edit: ("世界", "中国", b"\xca\xc0\xbd\xe7".to_vec(), b"\xd6\xd0\xb9\xfa".to_vec()),
            refused: Some("🦀"),
        },
        Case {
            name: "utf-8 with a mark",
            bytes: "\u{feff}Größe = 1\n".into(),
            shown: &["Größe = 1"],
            note: "UTF-8 with a byte order mark",
            search: ("^Größe", "1: Größe = 1"),
            edit: ("Größe", "Breite", "Größe".into(), "Breite".into()),
            refused: None,
        },
        Case {
            name: "mixed",
            bytes: b"Gr\xc3\xb6\xc3\x9fe \xff\xfe\nend \xe9".to_vec(),
            shown: &["Größe \\xff\\xfe", "end \\xe9"],
            note: "are shown as \\xNN (3 here)",
            search: ("Größe", "1: Größe \\xff\\xfe"),
            edit: ("end", "Ende ü", b"end".to_vec(), "Ende ü".into()),
            refused: None,
        },
        Case {
            name: "nul",
            bytes: b"a text with one \0 byte\nx = 1\n".to_vec(),
            shown: &["a text with one \\x00 byte", "x = 1"],
            note: "",
            search: ("x = .", "2: x = 1"),
            edit: ("x = 1", "x = 2", b"x = 1".to_vec(), b"x = 2".to_vec()),
            refused: None,
        },
    ]
}

async fn call(root: &Path, name: &str, arguments: Value) -> Result<String, String> {
    let workspace = Workspace::open(root).unwrap();
    let cancel = CancellationToken::new();
    let context = Context { workspace: &workspace, cancel: &cancel };
    let request = ToolRequest::parse(name, &arguments)?;
    request.run(&context).await.map(|output| output.text).map_err(|error| error.to_string())
}

/// Replaces the only occurrence of bytes.
fn replaced(content: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = content.windows(from.len()).position(|window| window == from).unwrap();
    [&content[..at], to, &content[at + from.len()..]].concat()
}

#[tokio::test]
async fn files_in_other_encodings_are_read_searched_and_edited() {
    for Case { name, bytes, shown, note, search, edit, refused } in cases() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("f"), &bytes).unwrap();

        let text = call(root, "read_file", json!({"path": "f"})).await.unwrap();
        assert_eq!(text.lines().take(shown.len()).collect::<Vec<_>>(), shown, "{name}");
        assert!(text.contains(note), "{name}: {text}");
        assert_eq!(text.contains("CRLF"), bytes.contains(&b'\r'), "{name}: {text}");

        let text = call(root, "search", json!({"pattern": search.0})).await.unwrap();
        assert_eq!(text, format!("f:{}", search.1), "{name}");

        let change = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
        if let Some(character) = refused {
            let error = call(root, "edit_file", change(edit.0, character)).await.unwrap_err();
            assert!(
                error.contains(&format!("`{character}`")) && error.contains("nothing was changed"),
                "{name}: {error}"
            );
            assert_eq!(fs::read(root.join("f")).unwrap(), bytes, "{name}");
        }
        call(root, "edit_file", change(edit.0, edit.1)).await.unwrap();
        assert_eq!(fs::read(root.join("f")).unwrap(), replaced(&bytes, &edit.2, &edit.3), "{name}");
        // The edit back restores every byte.
        call(root, "edit_file", change(edit.1, edit.0)).await.unwrap();
        assert_eq!(fs::read(root.join("f")).unwrap(), bytes, "{name}");
    }
}

#[tokio::test]
async fn numbers_and_truth_values_may_be_strings_in_every_tool() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    fs::write(root.join("f"), "a\na\n").unwrap();
    let read = call(root, "read_file", json!({"path": "f", "offset": "2", "limit": "1"})).await;
    assert_eq!(read.as_deref(), Ok("a\n"));
    let edit = json!({"path": "f", "old_text": "a", "new_text": "b", "replace_all": "true"});
    assert_eq!(call(root, "edit_file", edit).await.as_deref(), Ok("Edited f. 2 occurrences were replaced."));
    assert!(call(root, "run_command", json!({"command": "true", "timeout_seconds": "9"})).await.is_ok());
    for (tool, arguments) in [
        ("read_file", json!({"path": "f", "offset": "first"})),
        ("run_command", json!({"command": "true", "timeout_seconds": "soon"})),
    ] {
        let error = call(root, tool, arguments).await.unwrap_err();
        assert!(error.contains("is not a whole number"), "{tool}: {error}");
    }
}

#[test]
fn every_defined_tool_is_parsed() {
    let arguments = json!({
        "path": "a", "content": "", "old_text": "a", "new_text": "b", "pattern": "x", "command": "true",
        "entries": [],
    });
    for tool in definitions() {
        let name = tool.name.as_str();
        let request = ToolRequest::parse(name, &arguments);
        assert!(request.is_ok_and(|request| request.name() == name), "{name}");
    }
}

#[test]
fn invalid_calls_are_explained() {
    let unknown = ToolRequest::parse("fly", &json!({})).err().unwrap_or_default();
    assert!(unknown.contains("fly"), "{unknown}");
    let missing = ToolRequest::parse("read_file", &json!({})).err().unwrap_or_default();
    assert!(missing.contains("path"), "{missing}");
}
