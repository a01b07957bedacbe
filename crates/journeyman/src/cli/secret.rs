//! Secrets of commands, which come from files or stdin: other users can see command lines.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use journeyman_core::secret::SecretValue;

/// Reads the secrets whose files are given. A file can be `-` for stdin.
///
/// # Errors
/// A file cannot be read, or several secrets are to be read from stdin.
pub(super) fn read_all<K, const COUNT: usize>(
    files: [(K, &Option<PathBuf>); COUNT],
) -> anyhow::Result<impl Iterator<Item = (K, SecretValue)>> {
    let from_stdin = files.iter().filter(|(_, path)| path.as_deref().is_some_and(is_stdin)).count();
    if from_stdin > 1 {
        bail!("only one secret can be read from stdin; use files for the others");
    }
    let mut secrets = Vec::new();
    for (name, path) in files {
        if let Some(path) = path {
            secrets.push((name, SecretValue(read(path)?)));
        }
    }
    Ok(secrets.into_iter())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if is_stdin(path) {
        std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    }
    Ok(text.trim().to_owned())
}
