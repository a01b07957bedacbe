//! The command that starts this program in a shell.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::config::{Settings, client_environment};

/// The circumstances in which this program was started.
struct Start<'a> {
    /// The path of the program.
    own: PathBuf,
    /// The first word of the command line.
    word: &'a str,
    /// The search path.
    path: &'a str,
    /// True if cargo has started a process above this one.
    is_below_cargo: bool,
    /// The current folder, if the command is for this folder only.
    folder: Option<PathBuf>,
}

/// Returns the command that starts this program in a shell, as its user can type it.
///
/// # Errors
/// The path of the program cannot be determined.
pub(super) fn typed(path: &str, is_below_cargo: bool) -> anyhow::Result<String> {
    let word = std::env::args_os().next().unwrap_or_default();
    let word = word.to_string_lossy();
    Ok(command(&Start { own: own()?, word: &word, path, is_below_cargo, folder: std::env::current_dir().ok() }))
}

/// Returns the command that starts this program in any folder.
///
/// # Errors
/// The path of the program cannot be determined.
pub(super) fn anywhere(path: &str) -> anyhow::Result<String> {
    Ok(command(&Start { own: own()?, word: "", path, is_below_cargo: false, folder: None }))
}

/// Returns a command of this program that works on the installation of `settings`, as its user can type it.
pub(super) fn on_installation(settings: &Settings, words: &str) -> String {
    let program = typed(&settings.path, client_environment().is_below_cargo);
    let program = program.unwrap_or_else(|_| "journeyman".to_owned());
    with_options(&program, words, &settings.options)
}

fn with_options(program: &str, words: &str, options: &[String]) -> String {
    let options: Vec<String> = options.iter().map(|option| quoted(option)).collect();
    // Without options, the command might use the server of a context.
    let options = if options.is_empty() { "--local".to_owned() } else { options.join(" ") };
    format!("{program} {words} {options}")
}

fn own() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the path of this program could not be determined")
}

fn command(start: &Start<'_>) -> String {
    let is_own = |path: &Path| {
        let there = path.canonicalize();
        there.is_ok_and(|there| start.own.canonicalize().is_ok_and(|own| own == there))
    };
    if std::env::split_paths(start.path).any(|folder| is_own(&folder.join("journeyman"))) {
        return "journeyman".to_owned();
    }
    let word = Path::new(start.word);
    if start.word.contains('/') && word.is_relative() && is_own(word) {
        // `cargo run` starts a program of the current folder by its relative path.
        return if start.is_below_cargo { "cargo run --quiet --".to_owned() } else { quoted(start.word) };
    }
    match start.folder.as_ref().and_then(|folder| start.own.strip_prefix(folder).ok()) {
        Some(relative) => quoted(&Path::new(".").join(relative).display().to_string()),
        None => quoted(&start.own.display().to_string()),
    }
}

/// Quotes a word for a shell, if it needs that.
pub(super) fn quoted(word: &str) -> String {
    let is_plain =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.+:".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_shortest_that_works() {
        let own = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&own, dir.path().join("journeyman")).unwrap();
        let with = dir.path().to_str().unwrap().to_owned();
        let absolute = own.display().to_string();
        let start = |word: &str, path: &str, is_below_cargo| {
            command(&Start { own: own.clone(), word, path, is_below_cargo, folder: None })
        };
        assert_eq!(start("journeyman", &with, false), "journeyman");
        assert_eq!(start(&absolute, "/nowhere", true), quoted(&absolute), "a test below cargo is not run by it");
        assert_eq!(start("other/journeyman", "/nowhere", false), quoted(&absolute), "the word is another program");
        assert_eq!(start("journeyman", "/nowhere", false), quoted(&absolute));
        // A path from the current folder to the program, through the root.
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let up = "../".repeat(here.components().count() - 1);
        let relative = format!("{up}{}", absolute.trim_start_matches('/'));
        assert_eq!(start(&relative, "/nowhere", false), quoted(&relative));
        assert_eq!(start(&relative, "/nowhere", true), "cargo run --quiet --");
    }

    #[test]
    fn a_program_below_the_current_folder_has_a_relative_path() {
        let own = std::env::current_exe().unwrap();
        let start = |folder: &Path| {
            let folder = Some(folder.to_owned());
            command(&Start { own: own.clone(), word: "/x", path: "/nowhere", is_below_cargo: false, folder })
        };
        let name = own.file_name().unwrap().to_str().unwrap();
        assert_eq!(start(own.parent().unwrap()), quoted(&format!("./{name}")));
        assert_eq!(start(Path::new("/nowhere")), quoted(&own.display().to_string()));
    }

    #[test]
    fn a_command_names_the_installation() {
        let options = ["--data-dir", "my data"].map(str::to_owned);
        assert_eq!(with_options("journeyman", "key list", &options), "journeyman key list --data-dir 'my data'");
        assert_eq!(with_options("./journeyman", "key list", &[]), "./journeyman key list --local");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!((quoted("a/b"), quoted("a b"), quoted("it's")), ("a/b".into(), "'a b'".into(), "'it'\\''s'".into()));
        assert_eq!(quoted(""), "''");
    }
}
