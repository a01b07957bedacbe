//! Opens connections to the servers of remotes.

use journeyman_core::ports::Remote;
use journeyman_core::project::{Host, repository_host};
use journeyman_net::{Policy, Target};
use url::Url;

use super::relay::{Relay, Speaks};
use super::{Connection, ssh};
use crate::command::Git;
use crate::failure::GitError;

/// A URL of a remote on a server, split as far as a connection needs it.
struct Server<'a> {
    protocol: &'static str,
    /// The host in lower case.
    host: Host,
    /// The user and the separator `@`, or nothing.
    user: &'a str,
    port: Option<u16>,
    /// Everything after the authority.
    path: &'a str,
}

impl<'a> Server<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        let host = repository_host(url)?;
        let (scheme, rest) = url.split_once("://").map_or(("ssh", None), |(scheme, rest)| (scheme, Some(rest)));
        let protocol = match scheme {
            "http" => "http",
            "https" => "https",
            "git" => "git",
            "ssh" => "ssh",
            _ => return None,
        };
        let (authority, path) = match rest {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            // The short form of ssh has a port only in brackets: [user@host:port]:path.
            None => match url.strip_prefix('[').and_then(|url| url.split_once("]:")) {
                Some((inside, path)) => (inside, path),
                None => (url.split_once(':').map_or(url, |(user, _)| user), ""),
            },
        };
        let (user, host_and_port) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        let after = host_and_port.rsplit_once(']').map_or(host_and_port, |(_, after)| after);
        let port = match after.matches(':').count() {
            1 => after.split_once(':').map(|(_, port)| port).filter(|port| !port.is_empty()),
            _ => None,
        };
        let port = match port {
            Some(port) => Some(port.parse().ok()?),
            None => None,
        };
        Some(Self { protocol, host, user, port, path })
    }

    fn name(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }
}

/// Returns the refusal of a URL that the service cannot take apart: what it cannot check, it does not connect to.
fn unknown(url: &str) -> GitError {
    GitError::NotUsed(format!("The service cannot use the address {url}: its host or its port is not valid."))
}

impl Git {
    /// Opens the way to the server of a remote. Returns it with the address to pass to git.
    pub(crate) async fn connection(&self, remote: &Remote) -> Result<(Connection, String), GitError> {
        let server = Server::parse(&remote.url).ok_or_else(|| unknown(&remote.url))?;
        let policy = self.outbound.policy(remote.reach, &server.host);
        match server.protocol {
            "http" | "https" => self.over_http(remote, server.protocol, policy).await,
            "git" => self.over_git(&server, policy).await,
            _ => self.over_ssh(remote, &server, policy).await,
        }
    }

    async fn over_http(
        &self,
        remote: &Remote,
        protocol: &'static str,
        policy: Policy,
    ) -> Result<(Connection, String), GitError> {
        let url = Url::parse(&remote.url).map_err(|_| unknown(&remote.url))?;
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(unknown(&remote.url));
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_owned();
        let target = Target { host: host.clone(), port };
        let (relay, proxy) = match self.outbound.proxies.of(protocol, &target) {
            Some(proxy) => {
                let checked = self.outbound.check_proxied(&policy, &host).await;
                checked.map_err(|error| GitError::NotReached { host: host.clone(), error })?;
                self.reached.add(format!("{host} (through the proxy of the service)"));
                (None, proxy.to_owned())
            }
            None => {
                let relay = Relay::start(self.outbound.clone(), policy, target, Speaks::Socks, &self.reached);
                let relay = relay.await.map_err(|error| not_started(&error))?;
                let proxy = format!("socks5h://127.0.0.1:{}", relay.port);
                (Some(relay), proxy)
            }
        };
        // The proxy may have a password, which must not be in an argument. Git reads the variable, as curl does.
        let environment = vec![("http_proxy".to_owned(), proxy.clone()), ("https_proxy".to_owned(), proxy)];
        let connection = Connection { host, protocol, settings: Vec::new(), environment, relay };
        Ok((connection, remote.url.clone()))
    }

    async fn over_git(&self, server: &Server<'_>, policy: Policy) -> Result<(Connection, String), GitError> {
        let (host, port) = (server.name(), server.port.unwrap_or(9418));
        let target = Target { host: host.clone(), port };
        let relay = Relay::start(self.outbound.clone(), policy, target, Speaks::Nothing, &self.reached);
        let relay = relay.await.map_err(|error| not_started(&error))?;
        let address = format!("git://127.0.0.1:{}{}", relay.port, server.path);
        let named = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let named = server.port.map_or(named.clone(), |port| format!("{named}:{port}"));
        let environment = vec![("GIT_OVERRIDE_VIRTUAL_HOST".to_owned(), named)];
        let relay = Some(relay);
        Ok((Connection { host, protocol: "git", settings: Vec::new(), environment, relay }, address))
    }

    async fn over_ssh(
        &self,
        remote: &Remote,
        server: &Server<'_>,
        policy: Policy,
    ) -> Result<(Connection, String), GitError> {
        let host = server.name();
        let settings = ssh::settings(self, server.user.trim_end_matches('@'), &host, server.port).await;
        let connection = |settings, relay| Connection {
            host: host.clone(),
            protocol: "ssh",
            settings,
            environment: Vec::new(),
            relay,
        };
        if settings.is_proxied {
            self.reached.add(format!("{host} (through the configuration of ssh)"));
            return Ok((connection(Vec::new(), None), remote.url.clone()));
        }
        // The user of the service has configured another name for the host.
        let policy = if settings.target.host == host { policy } else { Policy::CodeHosts };
        let target = settings.target.clone();
        let relay = Relay::start(self.outbound.clone(), policy, target, Speaks::Nothing, &self.reached);
        let relay = relay.await.map_err(|error| not_started(&error))?;
        let command = settings.command(relay.port);
        let settings = vec![("core.sshCommand".to_owned(), command)];
        Ok((connection(settings, Some(relay)), remote.url.clone()))
    }
}

fn not_started(error: &std::io::Error) -> GitError {
    GitError::NotStarted(format!("its relay could not be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_taken_apart_is_not_used() {
        for (url, expected) in [
            ("ssh://a@b:22/x", Some(("a@", "b", Some(22), "/x"))),
            ("ssh://a@[::1]:22/x", Some(("a@", "::1", Some(22), "/x"))),
            ("ssh://b/x", Some(("", "b", None, "/x"))),
            ("a@b:x/y", Some(("a@", "b", None, ""))),
            ("[a@b:22]:x", Some(("a@", "b", Some(22), "x"))),
            ("git://B.example:9419/x", Some(("", "b.example", Some(9419), "/x"))),
            ("git://[::1]/x", Some(("", "::1", None, "/x"))),
            ("ssh://a@b:no/x", None),
            ("ssh://a@b:70000/x", None),
            ("ftp://b/x", None),
        ] {
            let found = Server::parse(url);
            let found = found.as_ref().map(|found| (found.user, found.name(), found.port, found.path));
            assert_eq!(found, expected.map(|(user, host, port, path)| (user, host.to_owned(), port, path)), "{url}");
        }
    }
}
