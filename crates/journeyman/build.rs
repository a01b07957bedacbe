//! Names the commit in the version of the program, such as `0.9.0 (1a2b3c4d5e 2026-11-26)`.
//!
//! The commit is the one that the environment variable `JOURNEYMAN_COMMIT` names, for builds without a checkout, and
//! otherwise that of the checkout. Without both, the version names no commit. Uncommitted changes are not shown, because
//! cargo does not run this script again for each of them.

use std::path::Path;
use std::process::Command;

/// The variable that names the commit and its date.
const VARIABLE: &str = "JOURNEYMAN_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let version = match given().or_else(checkout) {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    };
    println!("cargo:rustc-env=JOURNEYMAN_VERSION={version}");
}

/// Returns the commit that the environment names.
#[expect(clippy::disallowed_methods, reason = "a build script has no configuration but the environment")]
fn given() -> Option<String> {
    let commit = std::env::var(VARIABLE).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '.');
    assert!(commit.chars().all(is_plain), "{VARIABLE} must have only letters, digits, spaces, hyphens and periods");
    (!commit.is_empty()).then_some(commit)
}

/// Returns the commit of the checkout and its date, and asks cargo to run this script again after the next commit.
fn checkout() -> Option<String> {
    // Ignore the repository of another project that contains an unpacked archive of this one.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    let mut watched: Vec<String> = log.into_iter().filter(|path| Path::new(path).exists()).collect();
    if watched.is_empty() {
        // A repository without a log: the branch is in a file of its own, or in the file of packed branches.
        let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
        let names = ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
        watched.extend(names.filter_map(|name| git(&["rev-parse", "--git-path", name])));
    }
    // Cargo would run this script each time if a file did not exist.
    for path in watched.iter().filter(|path| Path::new(path).exists()) {
        println!("cargo:rerun-if-changed={path}");
    }
    git(&["log", "--max-count=1", "--no-show-signature", "--abbrev=10", "--format=%h %cs"])
}

/// Returns the first line of the output of a git command, or `None` if the command fails or git is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.lines().next()?.to_owned())
}
