//! Connections to the servers of repositories, whose addresses projects, repositories and other servers name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use journeyman_core::ports::Reach;
use journeyman_core::project::{Host, repository_host};

use crate::{Client, Error, Policy, Proxies, Resolver, Settings, SystemResolver, Target, connect};

/// The time limit for resolving a name, and for each attempt to connect.
const CONNECT_TIME: Duration = Duration::from_secs(15);

/// The settings for connections to the servers of repositories. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    /// Resolves names.
    pub resolver: Arc<dyn Resolver>,
    /// The private networks that the operator has allowed for such servers.
    pub networks: Arc<[IpNet]>,
    /// The proxies of the operator.
    pub proxies: Arc<Proxies>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver), networks: Arc::default(), proxies: Arc::default() }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("networks", &self.networks).finish_non_exhaustive()
    }
}

/// Returns the addresses that a host may have if an administrator has entered its name or address. Only a configured
/// code host may have a private one behind its name, because the owner of a name can change its address at any time.
#[must_use]
pub fn reach_of_entered(host: &Host, is_configured: bool) -> Reach {
    match host {
        Host::Address(_) => Reach::Private,
        Host::Name(name) if name == "localhost" => Reach::Private,
        Host::Name(_) if is_configured => Reach::Private,
        Host::Name(_) => Reach::Public,
    }
}

impl Outbound {
    /// Returns the rule for connections to a host.
    #[must_use]
    pub fn policy(&self, reach: Reach, host: &Host) -> Policy {
        match (reach, host) {
            // The address itself was checked when it was entered, and nothing resolves it.
            (Reach::Private, Host::Address(_)) => Policy::Any,
            (Reach::Private, Host::Name(name)) if name == "localhost" => Policy::Loopback,
            (Reach::Private, Host::Name(_)) => Policy::CodeHosts,
            (Reach::Public, _) => Policy::PublicOrProxied(Arc::clone(&self.networks)),
        }
    }

    /// Returns the rule for connections to the host of a repository's URL, and only to this host.
    #[must_use]
    pub fn policy_of_url(&self, reach: Reach, url: &str) -> Policy {
        match repository_host(url) {
            Some(host) => self.policy(reach, &host),
            None => self.public(),
        }
    }

    /// Returns the rule for connections to servers that a repository or another server has named.
    #[must_use]
    pub fn public(&self) -> Policy {
        Policy::PublicOrProxied(Arc::clone(&self.networks))
    }

    /// Returns an HTTP client with a rule.
    #[must_use]
    pub fn client(&self, policy: Policy) -> Client {
        let (resolver, proxies) = (Arc::clone(&self.resolver), Arc::clone(&self.proxies));
        Client::new(Settings { policy, resolver, proxies, ..Settings::default() })
    }

    /// Resolves a host once, checks its addresses, and connects to the first permitted one that answers. The name and the
    /// address are checked and used in the same step, so a later answer of the resolver changes nothing.
    ///
    /// # Errors
    /// The name cannot be resolved, no address is permitted, or none answers.
    pub async fn dial(&self, policy: &Policy, target: &Target) -> Result<tokio::net::TcpStream, Error> {
        connect(&*self.resolver, policy, &target.host, target.port, CONNECT_TIME).await
    }

    /// Checks the addresses of a host to which a proxy of the operator connects. A name that only the proxy can resolve
    /// is permitted.
    ///
    /// # Errors
    /// The name can be resolved, and no address is permitted.
    pub async fn check_proxied(&self, policy: &Policy, host: &str) -> Result<(), Error> {
        policy.check_proxied(&*self.resolver, host).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(url: &str) -> Host {
        repository_host(url).unwrap()
    }

    #[test]
    fn only_configured_hosts_and_entered_addresses_are_private() {
        for (url, is_configured, expected) in [
            ("https://git.example/x", false, Reach::Public),
            ("https://git.example/x", true, Reach::Private),
            ("http://127.0.0.1:3000/x", false, Reach::Private),
            ("http://0x7f.1/x", false, Reach::Private),
            ("http://localhost:3000/x", false, Reach::Private),
            ("http://a.localhost:3000/x", false, Reach::Public),
        ] {
            assert_eq!(reach_of_entered(&host(url), is_configured), expected, "{url}");
        }
    }

    #[test]
    fn the_rule_for_a_host_depends_on_its_reach() {
        let networks = ["10.1.0.0/16".parse::<IpNet>().unwrap()];
        let outbound = Outbound { networks: networks.into(), ..Outbound::default() };
        for (url, reach, permitted, refused) in [
            ("https://git.example/x", Reach::Public, vec!["8.8.8.8", "10.1.2.3"], vec!["10.2.0.1", "127.0.0.1"]),
            ("https://git.example/x", Reach::Private, vec!["10.2.0.1", "127.0.0.1"], vec!["169.254.169.254"]),
            ("http://169.254.169.254/x", Reach::Private, vec!["169.254.169.254"], vec![]),
            ("http://169.254.169.254/x", Reach::Public, vec![], vec!["169.254.169.254"]),
            ("http://localhost/x", Reach::Private, vec!["127.0.0.1", "::1"], vec!["10.2.0.1", "169.254.169.254"]),
        ] {
            let policy = outbound.policy_of_url(reach, url);
            let permits = |address: &&str| policy.permits(address.parse().unwrap());
            assert!(permitted.iter().all(permits) && !refused.iter().any(permits), "{url} {reach:?} {policy:?}");
        }
    }
}
