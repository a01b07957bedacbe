//! The proxies of the operator, and the hosts for which they are used.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use url::Url;

/// The destination of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name, or the address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The proxies in the environment variables of the service. `Debug` does not show their URLs, which may have passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    /// The hosts that are reached without a proxy, as `NO_PROXY` lists them.
    exceptions: Vec<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxies {{ http: {}, https: {} }}", self.http.is_some(), self.https.is_some())
    }
}

impl Proxies {
    /// Reads the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`.
    #[must_use]
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut proxies, mut all) = (Self::default(), None);
        for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
            match name {
                "http_proxy" => proxies.http = Some(value.to_owned()),
                "https_proxy" => proxies.https = Some(value.to_owned()),
                "all_proxy" => all = Some(value.to_owned()),
                "no_proxy" => {
                    let words = value.split(|c: char| c == ',' || c.is_whitespace());
                    let words = words.map(|word| word.trim_start_matches("*.").trim_matches('.').to_lowercase());
                    proxies.exceptions = words.filter(|word| !word.is_empty()).collect();
                }
                _ => {}
            }
        }
        proxies.http = proxies.http.or_else(|| all.clone());
        proxies.https = proxies.https.or(all);
        proxies
    }

    /// Returns the URL of the proxy for a scheme and a destination; `None` if the service connects to it itself.
    #[must_use]
    pub fn of(&self, scheme: &str, target: &Target) -> Option<&str> {
        let proxy = match scheme {
            "http" => self.http.as_deref(),
            "https" => self.https.as_deref(),
            _ => None,
        };
        proxy.filter(|_| !self.exceptions.iter().any(|exception| is_except(exception, target)))
    }

    /// Returns the names of the proxies' hosts.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let of = |url: &String| {
            let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            Some(Url::parse(&url).ok()?.host_str()?.to_lowercase())
        };
        [&self.http, &self.https].into_iter().flatten().filter_map(of).collect()
    }
}

/// Returns whether an entry of `NO_PROXY` names a host: by its name or a domain above it, an address, or a network.
fn is_except(exception: &str, target: &Target) -> bool {
    let host = target.host.trim_end_matches('.').to_lowercase();
    if exception == "*" || exception == host || exception == target.to_string().to_lowercase() {
        return true;
    }
    match (host.parse::<IpAddr>(), exception.parse::<IpNet>()) {
        (Ok(address), Ok(network)) => network.contains(&address),
        (Ok(_), Err(_)) => false,
        (Err(_), _) => host.strip_suffix(exception).is_some_and(|rest| rest.ends_with('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_used_for_its_scheme_except_for_the_hosts_of_no_proxy() {
        let proxies = Proxies::new([
            ("http_proxy", "http://p:1"),
            ("https_proxy", ""),
            ("all_proxy", "http://me:pw@all:2"),
            ("no_proxy", "a.example, .b.example *.c.example,10.0.0.0/8,d.example:81"),
        ]);
        for (scheme, host, port, expected) in [
            ("http", "x.example", 80, Some("http://p:1")),
            ("https", "x.example", 443, Some("http://me:pw@all:2")),
            ("ssh", "x.example", 22, None),
            ("https", "A.example", 443, None),
            ("https", "x.a.example", 443, None),
            ("https", "xa.example", 443, Some("http://me:pw@all:2")),
            ("https", "x.b.example", 443, None),
            ("https", "x.c.example", 443, None),
            ("http", "10.1.2.3", 80, None),
            ("http", "11.1.2.3", 80, Some("http://p:1")),
            ("http", "d.example", 81, None),
            ("http", "d.example", 82, Some("http://p:1")),
        ] {
            assert_eq!(proxies.of(scheme, &Target { host: host.to_owned(), port }), expected, "{scheme} {host} {port}");
        }
        assert!(!format!("{proxies:?}").contains("pw"));
        assert_eq!(proxies.hosts(), ["p", "all"]);
        let none = Proxies::new([("https_proxy", "http://p"), ("no_proxy", "*")]);
        assert_eq!(none.of("https", &Target { host: "x".to_owned(), port: 443 }), None);
    }
}
