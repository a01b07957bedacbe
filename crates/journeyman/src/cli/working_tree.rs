//! Git in the working tree of the user, with the user's own settings and credentials. The service itself starts git
//! only through the crate `journeyman-git`, which isolates it from them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The working tree around the current folder.
#[derive(Debug)]
pub(super) struct WorkingTree {
    top: PathBuf,
}

/// A branch of a repository that commands fetch.
#[derive(Debug)]
pub(super) struct RemoteBranch<'a> {
    /// The URLs of the repository, the preferred one first.
    pub(super) urls: &'a [String],
    /// The name of the branch.
    pub(super) branch: &'a str,
    /// Settings for git, as `name=value`, with which it finds the credential.
    pub(super) settings: &'a [String],
}

impl WorkingTree {
    /// Finds the working tree.
    ///
    /// # Errors
    /// The current folder is not in a working tree, or git is not installed.
    pub(super) fn find() -> anyhow::Result<Self> {
        let here = Path::new(".");
        let top = text(git(here).args(["rev-parse", "--show-toplevel"]))
            .context("this command works in a clone of the repository: change to one, or create it with git clone")?;
        Ok(Self { top: PathBuf::from(top) })
    }

    /// Applies a diff to the working tree and the index. If it conflicts, the conflicts are marked in the files.
    ///
    /// # Errors
    /// The diff cannot be applied.
    pub(super) fn apply(&self, diff: &[u8]) -> anyhow::Result<()> {
        let mut child = git(&self.top)
            .args(["apply", "--3way", "-"])
            .stdin(Stdio::piped())
            // The output of this program is not that of git.
            .stdout(Stdio::null())
            .spawn()
            .context("git could not be started")?;
        let written = child.stdin.take().map(|mut input| input.write_all(diff));
        let status = child.wait().context("git did not end")?;
        if !status.success() {
            bail!(
                "git could not apply the changes cleanly (see above); resolve the conflicts that `git status` lists, or \
                 discard them with `git reset --merge`"
            );
        }
        written.transpose().context("git did not read the changes")?;
        Ok(())
    }

    /// Fetches a branch, and switches to a local branch of the same name, which follows it.
    ///
    /// # Errors
    /// The branch cannot be fetched, or the working tree has changes in the way.
    pub(super) fn switch_to(&self, from: &RemoteBranch<'_>) -> anyhow::Result<()> {
        let branch = from.branch;
        let is_valid = git(&self.top)
            .args(["check-ref-format", "--branch", branch])
            .output()
            .is_ok_and(|done| done.status.success() && !branch.starts_with(['-', '@']));
        if !is_valid {
            bail!("the branch of the job has a name that git does not accept");
        }
        let remote = self.remote(from.urls)?;
        let tracking = format!("refs/remotes/{}/{branch}", remote.as_deref().unwrap_or("journeyman"));
        let source = match &remote {
            Some(remote) => remote.as_str(),
            None => from.urls.iter().map(String::as_str).find(|url| is_fetchable(url)).with_context(|| {
                format!("no remote of this clone is the repository of the project ({})", from.urls.join(", "))
            })?,
        };
        let settings = from.settings.iter().flat_map(|setting| ["-c", setting.as_str()]);
        let refspec = format!("+refs/heads/{branch}:{tracking}");
        self.carry_out(git(&self.top).args(settings).args(["fetch", "--quiet", source, &refspec]))?;
        let local = format!("refs/heads/{branch}");
        if git(&self.top)
            .args(["rev-parse", "--verify", "--quiet", &local])
            .output()
            .is_ok_and(|done| done.status.success())
        {
            self.carry_out(git(&self.top).args(["switch", "--quiet", branch]))?;
            return self.carry_out(git(&self.top).args(["merge", "--quiet", "--ff-only", &tracking])).with_context(
                || {
                    format!(
                        "the local branch {branch} has commits that the job does not have; merge or rename it first"
                    )
                },
            );
        }
        self.carry_out(git(&self.top).args(["switch", "--quiet", "--no-track", "--create", branch, &tracking]))?;
        // `git pull` and `git push` then use the repository, also if it is no named remote.
        for (name, value) in [("remote", source), ("merge", local.as_str())] {
            self.carry_out(git(&self.top).args(["config", &format!("branch.{branch}.{name}"), value]))?;
        }
        Ok(())
    }

    /// Returns the name of the remote that is one of these URLs.
    fn remote(&self, urls: &[String]) -> anyhow::Result<Option<String>> {
        let listed = text(git(&self.top).args(["remote", "--verbose"]))?;
        Ok(named(&listed, urls))
    }

    fn carry_out(&self, command: &mut Command) -> anyhow::Result<()> {
        let status = command.stdout(Stdio::null()).status().context("git could not be started")?;
        if !status.success() {
            bail!("git failed ({status})");
        }
        Ok(())
    }
}

/// Sets values in the configuration of git for the user. `None` removes a setting.
///
/// # Errors
/// Git fails.
pub(super) fn configure(changes: &[(String, Option<&str>)]) -> anyhow::Result<()> {
    let here = Path::new("/");
    for (name, value) in changes {
        let mut command = git(here);
        command.args(["config", "--global"]);
        match value {
            Some(value) => command.args(["--add", name.as_str(), *value]),
            None => command.args(["--unset-all", name.as_str()]),
        };
        let done = command.output().context("git could not be started")?;
        // 5: the setting to remove does not exist.
        if !(done.status.success() || value.is_none() && done.status.code() == Some(5)) {
            bail!("git config --global {name}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
    }
    Ok(())
}

/// Returns the name of the remote, in the output of `git remote --verbose`, that is one of these URLs.
fn named(listed: &str, urls: &[String]) -> Option<String> {
    let remotes = || listed.lines().filter_map(|line| line.split_once('\t'));
    let is_at = |line: &str, url: &str| normal(line.split_whitespace().next().unwrap_or_default()) == normal(url);
    urls.iter().find_map(|url| remotes().find(|(_, line)| is_at(line, url)).map(|(name, _)| name.to_owned()))
}

/// Returns an address in the form in which addresses are compared: without a user, `.git` and a final slash.
fn normal(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    format!("{scheme}://{host}/{path}")
}

/// Returns whether git can fetch an address that a server has named without running a program that it names.
fn is_fetchable(url: &str) -> bool {
    ["https://", "http://", "ssh://"].iter().any(|scheme| url.starts_with(scheme))
}

fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Returns the first line of the output of git.
fn text(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().context("git could not be started; install git")?;
    if !done.status.success() {
        bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_found_by_its_normalized_address() {
        let listed = "fork\tgit@h:me/shop.git (fetch)\norigin\thttps://me@H.example/git/shop.git (fetch)\n";
        for (urls, name) in [
            (vec!["https://h.example/git/shop"], Some("origin")),
            (vec!["local:shop", "https://h.example/git/shop.git/"], Some("origin")),
            (vec!["git@h:me/shop"], Some("fork")),
            (vec!["https://h.example/git/shop2"], None),
            (vec![], None),
        ] {
            let urls: Vec<String> = urls.into_iter().map(str::to_owned).collect();
            assert_eq!(named(listed, &urls).as_deref(), name, "{urls:?}");
        }
    }

    #[test]
    fn an_address_that_starts_a_program_is_not_fetched() {
        for (url, expected) in [
            ("https://h/x", true),
            ("ssh://h/x", true),
            ("ext::sh -c touch% x", false),
            ("--upload-pack=touch x", false),
            ("/etc", false),
        ] {
            assert_eq!(is_fetchable(url), expected, "{url}");
        }
    }
}
