//! The destinations that programs in a sandbox may reach: exact names and ports, at public addresses.

mod address;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

pub use address::is_public;

/// A host name and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    host: String,
    port: u16,
}

/// An error for a text that is not a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "use name:port; the name may contain a-z, 0-9, '-' and '.', must not be an IP address, and must not end with a dot"
)]
pub struct InvalidDestination;

impl Destination {
    /// Returns the name, in lower case.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Destination {
    type Err = InvalidDestination;

    /// Parses strictly: rejects names that a resolver might interpret as an address or as another name.
    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let (host, port) = text.split_once(':').ok_or(InvalidDestination)?;
        let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port != 0).ok_or(InvalidDestination)?;
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(good)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A host whose last label is a number, decimal or hexadecimal, is one of the many forms of an IPv4 address.
        let is_name = host.split('.').next_back().is_some_and(|last| last.bytes().any(|b| b.is_ascii_lowercase()))
            && !host.split('.').next_back().is_some_and(|last| last.starts_with("0x"));
        if host.len() > 253 || !host.split('.').all(is_label) || !is_name {
            return Err(InvalidDestination);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The package registries that a project can allow by name, with the hosts that the languages' own tools use.
pub const PRESETS: &[(&str, &[&str])] = &[
    ("cargo", &["index.crates.io:443", "static.crates.io:443", "crates.io:443"]),
    ("composer", &["packagist.org:443", "repo.packagist.org:443"]),
    ("debian", &["deb.debian.org:443", "security.debian.org:443"]),
    ("go", &["proxy.golang.org:443", "sum.golang.org:443"]),
    ("hex", &["hex.pm:443", "repo.hex.pm:443", "builds.hex.pm:443"]),
    (
        "maven",
        &["repo.maven.apache.org:443", "repo1.maven.org:443", "plugins.gradle.org:443", "services.gradle.org:443"],
    ),
    ("npm", &["registry.npmjs.org:443", "registry.yarnpkg.com:443"]),
    ("nuget", &["api.nuget.org:443", "globalcdn.nuget.org:443"]),
    ("pub", &["pub.dev:443"]),
    ("pypi", &["pypi.org:443", "files.pythonhosted.org:443"]),
    ("rubygems", &["rubygems.org:443", "index.rubygems.org:443"]),
];

/// The destinations that programs may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist(BTreeSet<Destination>);

impl Allowlist {
    /// Parses entries, each of which is a destination or the name of a preset.
    ///
    /// # Errors
    /// Returns the first entry that is neither.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a String>) -> Result<Self, String> {
        let mut all = BTreeSet::new();
        for entry in entries {
            match PRESETS.iter().find(|(name, _)| name == entry) {
                Some((_, hosts)) => all.extend(hosts.iter().filter_map(|host| host.parse().ok())),
                None => {
                    all.insert(entry.parse().map_err(|_| entry.clone())?);
                }
            }
        }
        Ok(Self(all))
    }

    /// Returns whether the list contains a destination.
    #[must_use]
    pub fn has(&self, destination: &Destination) -> bool {
        self.0.contains(destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_has_one_form() {
        for good in ["registry.npmjs.org:443", "a:1", "xn--bcher-kva.example:65535", "1a.2b:80", "localhost:8080"] {
            assert_eq!(good.parse::<Destination>().map(|one| one.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            ":443",
            "a",
            "a:",
            "a:0",
            "a:65536",
            "a:+80",
            "a:080000",
            "A:80",
            "a.:80",
            ".a:80",
            "a..b:80",
            "-a:80",
            "a-:80",
            "a_b:80",
            "a b:80",
            "a\0b:80",
            "a:80:80",
            "user@a:80",
            "127.0.0.1:80",
            "2130706433:80",
            "0x7f000001:80",
            "0x7f.1:80",
            "[::1]:80",
            "::1:80",
            "a/b:80",
            "ä:80",
            "a:８０",
            "*.a:80",
            "a%2eb:80",
        ] {
            assert_eq!(bad.parse::<Destination>(), Err(InvalidDestination), "{bad:?}");
        }
    }

    #[test]
    fn entries_are_destinations_and_presets() {
        let read = |entries: &[&str]| Allowlist::read(&entries.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        let list = read(&["npm", "intern.example:8443"]).expect("a list");
        for (destination, is_in) in [
            ("registry.npmjs.org:443", true),
            ("registry.npmjs.org:80", false),
            ("evil.registry.npmjs.org:443", false),
            ("registry.npmjs.org.evil.example:443", false),
            ("intern.example:8443", true),
            ("pypi.org:443", false),
        ] {
            assert_eq!(list.has(&destination.parse().expect("a destination")), is_in, "{destination}");
        }
        assert_eq!(read(&["npm", "npn"]), Err("npn".to_owned()));
        for (name, hosts) in PRESETS {
            assert!(hosts.iter().all(|host| host.parse::<Destination>().is_ok()), "{name}");
        }
    }
}
