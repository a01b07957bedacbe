//! Applies the patches of suggestions with git.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use journeyman_core::position::{DiffSide, LineRange, Position};
use journeyman_core::suggestion::{Replaces, suggestions};

fn git(folder: &Path, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "core.autocrlf=false", "-c", "user.name=a", "-c", "user.email=a@b.example"]);
    git.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap()
}

/// Returns the diff of a file between two texts, as git writes it, and a folder with the second text.
fn changed(path: &str, old: &str, new: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(path);
    assert!(git(folder.path(), &["init", "-q"]).status.success());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, old).unwrap();
    assert!(git(folder.path(), &["add", "."]).status.success());
    fs::write(&file, new).unwrap();
    let diff = String::from_utf8(git(folder.path(), &["diff"]).stdout).unwrap();
    (folder, diff)
}

/// Returns the diff up to the last line of a range of its new version, as GitHub gives it.
fn truncated(diff: &str, last: u64) -> String {
    let position = Position::lines(String::new(), LineRange::line(last), DiffSide::New);
    journeyman_core::suggestion::excerpt(diff, &position)
}

/// Applies the suggestion to lines of a file that has these lines, and returns the file. `is_whole` is true for hosts that
/// give the whole diff.
fn applied(path: &str, texts: [&str; 2], lines: (u64, u64), body: &str, is_whole: bool) -> String {
    let (folder, diff) = changed(path, texts[0], texts[1]);
    let diff = if is_whole { diff } else { truncated(&diff, lines.1) };
    let range = LineRange { start: lines.0, end: lines.1 };
    let position = Position::lines(path.to_owned(), range, DiffSide::New);
    let found = suggestions(body, Replaces::Range, &position, Some(&diff));
    let patch = found[0].patch.as_ref().unwrap_or_else(|| panic!("no patch of {body:?}: {diff}"));
    fs::write(folder.path().join("suggestion.patch"), &patch.text).unwrap();
    let plain = git(folder.path(), &["apply", "--check", "suggestion.patch"]);
    // Without the option, git refuses the patch unless the lines are the last ones of the file.
    assert!(patch.needs_unidiff_zero || plain.status.success(), "{}\n{}", patch.text, text(&plain));
    let mut arguments = vec!["apply"];
    arguments.extend(patch.needs_unidiff_zero.then_some("--unidiff-zero"));
    arguments.push("suggestion.patch");
    let done = git(folder.path(), &arguments);
    assert!(done.status.success(), "{}\n{}", patch.text, text(&done));
    fs::read_to_string(folder.path().join(path)).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn git_applies_the_patches_of_suggestions() {
    let lines = |from: u32, to: u32| (from..=to).map(|line| format!("line {line}\n")).collect::<String>();
    let old = lines(1, 30);
    let new = old.replace("line 15\n", "fifteen\n15.5\n");
    for (range, body, from, to) in [
        ((15, 15), "```suggestion\nXV\n```", "fifteen\n", "XV\n"),
        ((15, 16), "```suggestion\nXV\n```", "fifteen\n15.5\n", "XV\n"),
        (
            (14, 17),
            "```suggestion\nXIV\nXV\nXVI\nXVII\nmore\n```",
            "line 14\nfifteen\n15.5\nline 16\n",
            "XIV\nXV\nXVI\nXVII\nmore\n",
        ),
        ((15, 16), "```suggestion\n```", "fifteen\n15.5\n", ""),
        ((15, 15), "```suggestion\n\n```", "fifteen\n", "\n"),
        ((15, 15), "```suggestion\nfifteen\nbetween\n```", "fifteen\n", "fifteen\nbetween\n"),
        ((16, 16), "```suggestion\nbefore\n15.5\n```", "15.5\n", "before\n15.5\n"),
        ((15, 15), "`````suggestion\n````\ncode\n````\n`````", "fifteen\n", "````\ncode\n````\n"),
        ((15, 15), "```suggestion:-1+1\nall\n```", "line 14\nfifteen\n15.5\n", "all\n"),
        ((15, 15), "```suggestion:-0+0\nXV\n```", "fifteen\n", "XV\n"),
    ] {
        for is_whole in [true, false] {
            if body.contains("+1") && !is_whole {
                // The line after the commented one is not in the diff.
                continue;
            }
            let found = applied("src/a.rs", [&old, &new], range, body, is_whole);
            assert_eq!(found, new.replacen(from, to, 1), "{body:?} {is_whole}");
        }
    }
}

#[test]
fn git_applies_patches_at_the_ends_of_files_and_with_other_line_endings() {
    let body = "```suggestion\nX\nY\n```";
    for (path, old, new, range, expected) in [
        ("a", "one\n", "one\ntwo\n", (2, 2), "one\nX\nY\n"),
        ("a", "one\n", "one\ntwo", (2, 2), "one\nX\nY"),
        ("a", "one\n", "two\nthree\n", (1, 2), "X\nY\n"),
        ("a", "one\n", "two", (1, 1), "X\nY"),
        ("a", "one\r\ntwo\r\nthree\r\n", "one\r\n2\r\nthree\r\n", (2, 2), "one\r\nX\r\nY\r\nthree\r\n"),
        ("a", "one\r\n", "one\r\ntwo", (2, 2), "one\r\nX\r\nY"),
        ("a b/c d.txt", "one\ntwo\n", "one\n2\n", (2, 2), "one\nX\nY\n"),
        ("ä/\u{65e5}.txt", "one\ntwo\n", "one\n2\n", (2, 2), "one\nX\nY\n"),
        ("q\"b\\c\td", "one\ntwo\n", "one\n2\n", (2, 2), "one\nX\nY\n"),
    ] {
        for is_whole in [true, false] {
            assert_eq!(applied(path, [old, new], range, body, is_whole), expected, "{path} {new:?} {is_whole}");
        }
    }
    for (old, new, range, expected) in [("one\n", "one\ntwo", (2, 2), "one\n"), ("", "one\ntwo\n", (1, 2), "")] {
        assert_eq!(applied("a", [old, new], range, "```suggestion\n```", true), expected, "{new:?}");
    }
}
