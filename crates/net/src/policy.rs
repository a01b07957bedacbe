//! The addresses that a connection may go to.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use journeyman_core::egress::is_public;
use journeyman_core::project::Host;
use url::Url;

use crate::{Error, Resolver};

/// The time limit for resolving a name.
const RESOLVE_TIME: Duration = Duration::from_secs(15);

/// The addresses that a connection may go to.
#[derive(Debug, Clone, Default)]
pub enum Policy {
    /// Any address, because the operator chose the URL.
    #[default]
    Any,
    /// Any address except link-local ones and those of metadata services, because a project named the URL of its code
    /// host. Git has the same rule.
    CodeHosts,
    /// Loopback addresses, for the name `localhost`.
    Loopback,
    /// Public addresses, and addresses in networks that the operator has allowed.
    Public(Arc<[IpNet]>),
    /// As [`Policy::Public`], but a proxy in the environment of the service is used, if there is one. The proxy resolves
    /// the name. A name that this machine can resolve too must have a permitted address.
    PublicOrProxied(Arc<[IpNet]>),
}

impl Policy {
    /// Returns whether a connection may go to the address.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::CodeHosts => Host::Address(address).restricted().is_none(),
            Self::Loopback => address.to_canonical().is_loopback(),
            Self::Public(also) | Self::PublicOrProxied(also) => {
                is_public(address) || also.iter().any(|net| net.contains(&address))
            }
        }
    }

    /// Returns the addresses that a connection may go to.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub(crate) fn filter(&self, host: &str, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Error> {
        let permitted: Vec<IpAddr> = addresses.into_iter().filter(|address| self.permits(*address)).collect();
        if permitted.is_empty() { Err(Error::NotPermitted(host.to_owned())) } else { Ok(permitted) }
    }

    /// Checks the addresses of a host to which a proxy connects, as far as this machine can resolve its name.
    pub(crate) async fn check_proxied(&self, resolver: &dyn Resolver, host: &str) -> Result<(), Error> {
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let found = match literal {
            Some(address) => vec![address],
            None => match tokio::time::timeout(RESOLVE_TIME, resolver.resolve(host)).await {
                Ok(Ok(found)) if !found.is_empty() => found,
                _ => return Ok(()),
            },
        };
        self.filter(host, found).map(drop)
    }

    /// Checks a URL whose host is an address. Clients connect to such a host without resolving a name.
    pub(crate) fn check_literal(&self, url: &Url) -> Result<(), Error> {
        let address = match url.host() {
            Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
            Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
            Some(url::Host::Domain(_)) | None => return Ok(()),
        };
        self.filter(&address.to_string(), vec![address]).map(drop)
    }
}

/// Returns true for a loopback IP address and for the name `localhost`. Does not resolve other names.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_permitted_only_if_the_operator_allows_their_network() {
        let public = Policy::Public(Arc::from(["10.1.0.0/16".parse::<IpNet>().unwrap()]));
        for (address, expected) in [
            ("8.8.8.8", true),
            ("10.1.2.3", true),
            ("10.2.2.3", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("fd00::1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(public.permits(address), expected, "{address}");
            assert!(Policy::Any.permits(address), "{address}");
            let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
            let url = format!("http://{host}/").parse().unwrap();
            assert_eq!(public.check_literal(&url).is_ok(), expected, "{url}");
        }
    }

    #[test]
    fn code_hosts_of_projects_may_be_private_but_not_link_local() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("10.1.2.3", true),
            ("127.0.0.1", true),
            ("169.254.169.254", false),
            ("::ffff:169.254.1.1", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
        ] {
            assert_eq!(Policy::CodeHosts.permits(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn unusual_forms_of_an_address_are_checked_too() {
        let public = Policy::Public(Arc::default());
        for url in ["http://127.1/", "http://0x7f000001/", "http://2130706433/", "http://[::ffff:7f00:1]/"] {
            assert!(public.check_literal(&url.parse().unwrap()).is_err(), "{url}");
        }
    }
}
