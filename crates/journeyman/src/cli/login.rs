//! `journeyman login` and `journeyman logout`: stored keys of servers.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use url::{Host, Url};

use super::complete::contexts::contexts;
use super::connection::DEFAULT_URL;
use super::contexts::{Context, ContextFile, base};
use super::exit::{Exit, Failure};
use super::paint::ColorWhen;
use super::session::{Session, run as run_with_exit};
use super::store::print;
use super::{credential, program};
use crate::config::{ClientEnvironment, client_environment};

/// The maximum size of a key on stdin, in bytes.
const MAX_KEY_BYTES: u64 = 4096;

#[derive(Debug, Args)]
#[command(
    after_help = "The key is stored in contexts.json in the folder journeyman below XDG_CONFIG_HOME (~/.config), which \
                  only you can read. JOURNEYMAN_URL and JOURNEYMAN_KEY take precedence over the current context."
)]
pub(crate) struct LoginArgs {
    /// URL of the server [default: asks for it]
    url: Option<String>,

    /// Read the key from the first line of stdin instead of asking for it
    #[arg(long)]
    key_stdin: bool,

    /// Name of the context [default: the host of the server]
    #[arg(long)]
    name: Option<String>,

    /// Project of commands that name none
    #[arg(short, long, value_name = "PROJECT")]
    project: Option<String>,

    /// Do not set up git to use the key for repositories on the server
    #[arg(long)]
    no_git: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Name of the context [default: the current one]
    #[arg(add = ArgValueCandidates::new(contexts))]
    name: Option<String>,
}

/// Asks for a server and a key, verifies the key, and stores both.
pub(crate) fn login(arguments: LoginArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    run_with_exit(false, log_in(arguments, color))
}

async fn log_in(arguments: LoginArgs, color: ColorWhen) -> Result<Exit, Failure> {
    let environment = client_environment();
    let file = ContextFile::of(&environment)?;
    // A file that is refused is reported before the key is typed.
    file.read()?;
    let url = server(arguments.url, arguments.key_stdin)?;
    let key = if arguments.key_stdin { read_key()? } else { ask_for_key(&url)? };
    let session = Session::new(&url, &key, false, color)?;
    if is_readable_on_the_way(session.client.url()) {
        writeln!(std::io::stderr(), "warning: {url} is not encrypted: others on the network can read the key")?;
    }
    let me = session.client.me().await?;
    if let Some(project) = &arguments.project {
        session.client.projects().get(project).await?;
    }
    let url = session.client.url().to_string();
    let name = arguments.name.unwrap_or_else(|| default_name(&url));
    let context = Context { url, key, key_name: me.key.name.clone(), project: arguments.project };
    file.change(|contexts| {
        contexts.put(&name, context);
        Ok(())
    })?;
    let (paint, url) = (session.look.paint, session.client.url());
    let who = super::look::plain(&me.key.name);
    print(&paint.good(&format!("Logged in to {url} with the key {who}.")))?;
    print(&format!("The context {name} is now the current one; it is stored in {}.", file.path().display()))?;
    if !arguments.no_git {
        let set = program::anywhere(&environment.path).and_then(|program| credential::set_up(url, &program));
        match set {
            Ok(()) => print(&format!("git uses the key for repositories below {url}git/ (git config --global)."))?,
            // The login is stored, and works without git.
            Err(error) => writeln!(std::io::stderr(), "warning: git could not be set up: {error:#}")?,
        }
    }
    Ok(Exit::Done)
}

/// Removes a context with its key.
pub(crate) fn logout(arguments: LogoutArgs) -> anyhow::Result<ExitCode> {
    run_with_exit(false, async {
        remove(&client_environment(), arguments.name)?;
        Ok(Exit::Done)
    })
}

/// Removes a context, by default the current one, and the settings of git for its server if no other context needs them.
pub(super) fn remove(environment: &ClientEnvironment, name: Option<String>) -> Result<(), Failure> {
    let file = ContextFile::of(environment)?;
    let before = file.read()?;
    let name = name.or_else(|| before.current.clone());
    let name = name.ok_or_else(|| Failure::Usage("there is no current context; name one".to_owned()))?;
    if !before.contexts.contains_key(&name) {
        return Err(Failure::Usage(before.unknown(&name)));
    }
    let (removed, is_needed) = file.change(|contexts| {
        let removed = contexts.remove(&name);
        let is_needed = removed.as_ref().is_some_and(|gone| contexts.contexts.values().any(|one| one.is_at(&gone.url)));
        Ok((removed, is_needed))
    })?;
    if let Some(url) = removed.as_ref().and_then(|removed| base(&removed.url))
        && !is_needed
        && let Err(error) = credential::remove(&url)
    {
        writeln!(std::io::stderr(), "warning: the settings of git could not be removed: {error:#}")?;
    }
    let key = removed.map(|removed| removed.key_name).unwrap_or_default();
    print(&format!(
        "The context {name} was removed. The key {} still works; revoke it on the server if it is no longer needed.",
        super::look::plain(&key)
    ))?;
    Ok(())
}

/// Returns whether a key would be sent to another machine without encryption.
fn is_readable_on_the_way(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "http" && !is_here
}

/// Returns the name of a context for a server.
fn default_name(url: &str) -> String {
    let Some(url) = base(url) else { return "server".to_owned() };
    let host = url.host_str().unwrap_or("server");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the URL of the server, and asks for it if none is given.
fn server(given: Option<String>, key_stdin: bool) -> Result<String, Failure> {
    if let Some(url) = given {
        return Ok(url);
    }
    if key_stdin || !std::io::stdin().is_terminal() {
        return Err(Failure::Usage("the URL of the server is missing: journeyman login URL".to_owned()));
    }
    let mut error = std::io::stderr();
    write!(error, "URL of the server [{DEFAULT_URL}]: ")?;
    error.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let line = line.trim();
    Ok(if line.is_empty() { DEFAULT_URL.to_owned() } else { line.to_owned() })
}

/// Reads the key from stdin.
fn read_key() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().take(MAX_KEY_BYTES).read_to_string(&mut text).context("the key cannot be read from stdin")?;
    let key = text.lines().next().unwrap_or_default().trim().to_owned();
    if key.is_empty() {
        bail!("the key is missing: pass it on stdin");
    }
    Ok(key)
}

/// Asks for the key, which the terminal does not show.
fn ask_for_key(url: &str) -> Result<String, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::Usage("the key is missing: pass it on stdin with --key-stdin".to_owned()));
    }
    let mut error = std::io::stderr();
    write!(error, "API key for {url} (from `journeyman key create`, or the page API keys): ")?;
    error.flush()?;
    let mut line = String::new();
    let read = {
        let _silence =
            Silence::begin().context("the terminal cannot hide the key; pass it on stdin with --key-stdin")?;
        input.lock().read_line(&mut line)
    };
    read?;
    let key = line.trim().to_owned();
    if key.is_empty() {
        return Err(Failure::Usage("the key is missing".to_owned()));
    }
    Ok(key)
}

/// Turns the echo of the terminal off until it is dropped.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> rustix::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_others_can_read_on_the_way_is_noticed() {
        for (url, expected) in [
            ("http://journeyman.example.com", true),
            ("http://192.0.2.1:8080", true),
            ("https://journeyman.example.com", false),
            ("http://localhost:8080", false),
            ("http://127.0.0.1", false),
            ("http://[::1]:8080", false),
        ] {
            assert_eq!(is_readable_on_the_way(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn a_context_has_the_name_of_its_host() {
        for (url, name) in [
            ("https://journeyman.example.com/jm", "journeyman.example.com"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("nonsense", "server"),
        ] {
            assert_eq!(default_name(url), name, "{url}");
        }
    }
}
