//! `journeyman credential`: a credential helper of git, which gives it the key for repositories of the built-in code
//! host.
//!
//! The protocol is that of `git help git-credential`. The helper answers only for addresses below `/git/` of a server
//! for which it has a key, over the scheme with which the key was stored.

use std::io::Read;
use std::process::ExitCode;

use clap::Args;
use url::Url;

use super::connection::{Connection, all};
use super::contexts::base;
use super::store::write_out;
use super::working_tree::configure;
use crate::config::client_environment;

/// The maximum size of a request of git, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The user name that git gets if it asks for one. The server ignores it.
const USER: &str = "journeyman";

#[derive(Debug, Args)]
#[command(
    after_help = "`journeyman login` sets it up. By hand: git config --global credential.URL/git.helper '!journeyman \
                  credential' and git config --global credential.URL/git.useHttpPath true, where URL is that of the \
                  server."
)]
pub(crate) struct CredentialArgs {
    /// Action of git: get answers the request on stdin; store, erase and all others do nothing, because `journeyman
    /// login` stores keys and `journeyman logout` removes them
    action: String,
}

/// Answers a request of git.
pub(crate) fn run(arguments: &CredentialArgs) -> anyhow::Result<ExitCode> {
    if arguments.action == "get" {
        let mut request = String::new();
        std::io::stdin().take(MAX_BYTES).read_to_string(&mut request)?;
        write_out(answer(&request, &all(&client_environment())?).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the answer to a request; empty if there is no key for its address.
fn answer(request: &str, connections: &[Connection]) -> String {
    let attribute = |name: &str| {
        let lines = request.lines().take_while(|line| !line.is_empty());
        lines.filter_map(|line| line.split_once('=')).filter(|(key, _)| *key == name).map(|(_, value)| value).last()
    };
    let (Some(protocol), Some(host)) = (attribute("protocol"), attribute("host")) else { return String::new() };
    // In URLs, a backslash ends the host as a slash does, and tabs are ignored.
    if host.contains(['\\', '\t', '/', '?', '#', '@', '%']) {
        return String::new();
    }
    let Ok(address) = Url::parse(&format!("{protocol}://{host}/{}", attribute("path").unwrap_or_default())) else {
        return String::new();
    };
    let Some(found) = connections.iter().find(|connection| is_below(&address, &connection.url)) else {
        return String::new();
    };
    // A line break would add an attribute.
    if found.key.contains(['\n', '\r', '\0']) {
        return String::new();
    }
    format!("username={}\npassword={}\n", attribute("username").unwrap_or(USER), found.key)
}

/// Returns whether an address is that of a repository on the built-in code host of the server at `url`.
fn is_below(address: &Url, url: &str) -> bool {
    let Some(base) = base(url) else { return false };
    let is_plain = address.username().is_empty() && address.password().is_none();
    is_plain
        && matches!(base.scheme(), "http" | "https")
        && address.scheme() == base.scheme()
        && address.host() == base.host()
        && address.port_or_known_default() == base.port_or_known_default()
        && address.path().starts_with(&format!("{}git/", base.path()))
}

/// Returns the settings with which git asks this helper, and no other, for the credentials of a server.
pub(super) fn settings(url: &Url, program: &str) -> [(String, String); 3] {
    let section = section(url);
    [
        (format!("{section}.helper"), String::new()),
        (format!("{section}.helper"), format!("!{program} credential")),
        (format!("{section}.useHttpPath"), "true".to_owned()),
    ]
}

fn section(url: &Url) -> String {
    format!("credential.{url}git")
}

/// Sets up git to ask this helper for the credentials of a server.
///
/// # Errors
/// Git fails.
pub(super) fn set_up(url: &Url, program: &str) -> anyhow::Result<()> {
    remove(url)?;
    let settings = settings(url, program);
    configure(&settings.each_ref().map(|(name, value)| (name.clone(), Some(value.as_str()))))
}

/// Removes the settings of [`set_up`].
///
/// # Errors
/// Git fails.
pub(super) fn remove(url: &Url) -> anyhow::Result<()> {
    let section = section(url);
    configure(&[(format!("{section}.helper"), None), (format!("{section}.useHttpPath"), None)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(url: &str, key: &str) -> Connection {
        Connection { url: url.to_owned(), key: key.to_owned(), project: None }
    }

    fn given() -> Vec<Connection> {
        vec![connection("http://127.0.0.1:8080", "local-key"), connection("https://h.example/jm/", "work-key")]
    }

    #[test]
    fn a_repository_of_a_known_server_gets_its_key() {
        for (request, expected) in [
            ("protocol=http\nhost=127.0.0.1:8080\npath=git/shop.git\n\n", "username=journeyman\npassword=local-key\n"),
            (
                "protocol=https\nhost=h.example\nusername=ada\npath=jm/git/shop.git/info/refs\nwwwauth[]=Basic\n",
                "username=ada\npassword=work-key\n",
            ),
            ("protocol=https\nhost=H.EXAMPLE:443\npath=jm/git/a.git\n", "username=journeyman\npassword=work-key\n"),
        ] {
            assert_eq!(answer(request, &given()), expected, "{request:?}");
        }
    }

    #[test]
    fn other_addresses_get_no_answer() {
        for request in [
            "",
            "protocol=https\n",
            "protocol=https\nhost=github.com\npath=git/shop.git\n",
            // Without the path, it is not known what asks.
            "protocol=http\nhost=127.0.0.1:8080\n",
            "protocol=http\nhost=127.0.0.1:8080\npath=other/shop.git\n",
            "protocol=http\nhost=127.0.0.1:8080\npath=gitx/shop.git\n",
            "protocol=http\nhost=127.0.0.1:8080\npath=git/../v2/keys\n",
            "protocol=http\nhost=127.0.0.1:8080\npath=git/%2e%2e/x\n",
            // Another scheme, port, or prefix than the key was stored for.
            "protocol=https\nhost=127.0.0.1:8080\npath=git/shop.git\n",
            "protocol=http\nhost=h.example\npath=jm/git/shop.git\n",
            "protocol=http\nhost=127.0.0.1:8081\npath=git/shop.git\n",
            "protocol=https\nhost=h.example\npath=git/shop.git\n",
            "protocol=http\nhost=127.0.0.1:8080@evil.example\npath=git/shop.git\n",
            "protocol=http\nhost=evil.example/x?127.0.0.1:8080\npath=git/shop.git\n",
            // What follows the empty line is not part of the request.
            "protocol=http\nhost=127.0.0.1:8080\n\npath=git/shop.git\n",
        ] {
            assert_eq!(answer(request, &given()), "", "{request:?}");
        }
        let broken = [connection("http://h", "a\nhost=evil"), connection("nonsense", "x")];
        assert_eq!(answer("protocol=http\nhost=h\npath=git/shop.git\n", &broken), "");
    }

    #[test]
    fn the_first_connection_of_a_server_answers() {
        let both = [connection("http://h", "environment"), connection("http://h/", "context")];
        let answer = answer("protocol=http\nhost=h\npath=git/shop.git\n", &both);
        assert_eq!(answer, "username=journeyman\npassword=environment\n");
    }

    #[test]
    fn settings_of_git_name_no_key() {
        let url = Url::parse("http://127.0.0.1:8080/").unwrap();
        let [reset, helper, path] = settings(&url, "journeyman");
        assert_eq!(reset, ("credential.http://127.0.0.1:8080/git.helper".to_owned(), String::new()));
        assert_eq!(helper.1, "!journeyman credential");
        assert_eq!(path, ("credential.http://127.0.0.1:8080/git.useHttpPath".to_owned(), "true".to_owned()));
    }
}
