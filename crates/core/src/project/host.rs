//! The host in a repository's address, and the hosts that only an administrator may name: link-local addresses, and the
//! metadata service of a cloud, which returns the machine's credentials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host in a repository's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An IP address, in any notation.
    Address(IpAddr),
    /// A name, in lower case and without a trailing dot.
    Name(String),
}

/// A repository host that only an administrator may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestrictedHost {
    /// The name, if the repository's address has one.
    pub name: Option<String>,
    /// The IP address, if that is the reason.
    pub address: Option<IpAddr>,
    /// The kind of address, for people: `a link-local address`.
    pub kind: &'static str,
}

impl fmt::Display for RestrictedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.address) {
            (Some(name), Some(address)) => write!(f, "{name}, which has the address {address}, {}", self.kind),
            (Some(name), None) => write!(f, "{name}, {}", self.kind),
            (None, Some(address)) => write!(f, "{address}, {}", self.kind),
            (None, None) => f.write_str(self.kind),
        }
    }
}

/// Names of Google Cloud's metadata service.
const METADATA_NAMES: [&str; 2] = ["metadata.google.internal", "metadata"];

const METADATA: &str = "a cloud metadata service";

const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(100, 100, 100, 200)];

const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl Host {
    /// Returns the reason why only an administrator may name this host, without resolving its name.
    #[must_use]
    pub fn restricted(&self) -> Option<RestrictedHost> {
        match self {
            Self::Address(address) => {
                restricted_kind(*address).map(|kind| RestrictedHost { name: None, address: Some(*address), kind })
            }
            Self::Name(name) if METADATA_NAMES.contains(&name.as_str()) => {
                Some(RestrictedHost { name: Some(name.clone()), address: None, kind: METADATA })
            }
            // Programs map such names to others; digits of other scripts can even become an IP address.
            Self::Name(name) if !name.is_ascii() => Some(RestrictedHost {
                name: Some(name.chars().take(100).collect()),
                address: None,
                kind: "a name with non-ASCII characters",
            }),
            Self::Name(_) => None,
        }
    }

    /// Returns the reason why only an administrator may name this host, given an address that its name resolves to.
    #[must_use]
    pub fn restricted_at(&self, address: IpAddr) -> Option<RestrictedHost> {
        let name = match self {
            Self::Name(name) => Some(name.clone()),
            Self::Address(_) => None,
        };
        restricted_kind(address).map(|kind| RestrictedHost { name, address: Some(address), kind })
    }
}

/// Returns the kind of an address that only an administrator may name.
fn restricted_kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) if METADATA_V4.contains(&address) => Some(METADATA),
        IpAddr::V4(address) => address.is_link_local().then_some("a link-local address"),
        IpAddr::V6(METADATA_V6) => Some(METADATA),
        IpAddr::V6(address) if address.is_unicast_link_local() => Some("a link-local address"),
        IpAddr::V6(address) => restricted_kind(IpAddr::V4(inner(address)?)),
    }
}

/// Returns the IPv4 address embedded in an IPv6 address: compatible, mapped, translated (RFC 6052), 6to4.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        [0x64, 0xff9b, 0 | 1, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Parses the host of a repository's address; `None` for a path and for the built-in code host.
#[must_use]
pub fn repository_host(repository: &str) -> Option<Host> {
    if repository.starts_with(['/', '.']) || repository.starts_with("local:") {
        return None;
    }
    let authority = match repository.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split(['/', '?', '#', '\\']).next().unwrap_or_default(),
        None => short_form(repository)?,
    };
    let authority = decoded(authority);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        // More than one colon means an IPv6 address without brackets.
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    // The text after % names a network interface of this machine.
    let host = host.split('%').next().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host).to_lowercase();
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Host::Address(address));
    }
    Some(loose_v4(&host).map_or(Host::Name(host), |address| Host::Address(IpAddr::V4(address))))
}

/// Returns the user and host of ssh's short form: `user@host:path`, `user@[host]:path`, `[user@host:port]:path`.
fn short_form(repository: &str) -> Option<&str> {
    if let Some(rest) = repository.strip_prefix('[') {
        return rest.split_once(']').map(|(inside, _)| inside);
    }
    match repository.split_once("@[") {
        Some((_, rest)) => rest.split_once(']').map(|(inside, _)| inside),
        None => repository.split_once(':').map(|(host, _)| host),
    }
}

/// Replaces each `%xx` by its byte.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match value {
            Some(value) if *byte == b'%' => {
                found.push(value);
                at += 3;
            }
            _ => {
                found.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

/// Parses an IPv4 address like `inet_aton`: one to four numbers, decimal, octal or hexadecimal; the last number fills
/// the remaining bytes.
fn loose_v4(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let (digits, radix) = match part.strip_prefix("0x") {
            Some("") => return Some(0),
            Some(digits) => (digits, 16),
            None if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
            None => (part, 10),
        };
        let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
        all_digits.then(|| u32::from_str_radix(digits, radix).ok()).flatten()
    };
    let parts: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    let left = 4usize.checked_sub(first.len()).filter(|left| *left > 0)?;
    let fits = left == 4 || u64::from(*last) < 1 << (8 * left);
    if !fits || first.iter().any(|part| *part > 255) {
        return None;
    }
    let high = first.iter().zip([24, 16, 8]).fold(0, |bits, (part, shift)| bits | part << shift);
    Some(Ipv4Addr::from_bits(high | last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::parse_address;

    #[test]
    fn link_local_and_metadata_addresses_are_restricted_in_every_notation() {
        for repository in [
            "http://169.254.169.254/latest/meta-data",
            "https://169.254.0.1/x.git",
            "http://169.254.169.254:80/x",
            "http://169.254.169.254./x",
            "http://2852039166/x",
            "http://0xa9fea9fe/x",
            "http://0xA9.0xFE.0xA9.0xFE/x",
            "http://0251.0376.0251.0376/x",
            "http://025177524776/x",
            "http://169.254.43518/x",
            "http://169.16689662/x",
            "http://[::ffff:169.254.169.254]/x",
            "http://[::ffff:a9fe:a9fe]/x",
            "http://[::a9fe:a9fe]/x",
            "http://[64:ff9b::a9fe:a9fe]/x",
            "http://[2002:a9fe:a9fe::]/x",
            "http://[fe80::1]/x",
            "http://[fe80::1%25eth0]:8080/x",
            "http://[FEBF::1]/x",
            "http://[fd00:ec2::254]/x",
            "http://[fd00:0ec2:0:0:0:0:0:0254]/x",
            "http://100.100.100.200/x",
            "http://metadata.google.internal/x",
            "http://METADATA.google.internal./x",
            "http://metadata/x",
            "http://%31%36%39.254.169.254/x",
            "http://１６９.254.169.254/x",
            "http://①69.254.169.254/x",
            "git://169.254.169.254/x",
            "ssh://git@169.254.169.254/x",
            "ssh://git@169.254.169.254:22/x",
            "ssh://a@b@169.254.169.254/x",
            "ssh://git@[fe80::1]:22/x",
            "git@169.254.169.254:x.git",
            "git@0xa9fea9fe:x.git",
            "git@metadata.google.internal:x.git",
            "git@[fe80:0::1]:x.git",
            "[git@169.254.169.254:22]:x.git",
        ] {
            assert!(parse_address(repository).is_ok(), "{repository} is not a valid address");
            let found = repository_host(repository).unwrap_or_else(|| panic!("{repository}"));
            assert!(found.restricted().is_some(), "{repository}: {found:?}");
        }
    }

    #[test]
    fn other_hosts_are_not_restricted() {
        for repository in [
            "https://github.com/a/b.git",
            "https://169.254.example.com/x",
            "https://10.0.0.1/x",
            "https://127.0.0.1:3000/x",
            "http://192.168.1.1/x",
            "http://[2606:4700::1111]/x",
            "http://[fd00:ec2::255]/x",
            "git@github.com:a/b.git",
            "ssh://git@gitea.internal:2222/a/b",
            "https://0x7f.1/x",
            "https://256.254.169.254/x",
        ] {
            let found = repository_host(repository).unwrap_or_else(|| panic!("{repository}"));
            assert_eq!(found.restricted(), None, "{repository}: {found:?}");
        }
        for none in ["local:shop", "/srv/git/shop.git", "file:///srv/git/shop.git"] {
            assert_eq!(repository_host(none), None, "{none}");
        }
    }

    #[test]
    fn a_restricted_host_is_described_for_people() {
        let host = repository_host("https://Git.example/x").unwrap();
        assert_eq!(host.restricted_at("1.1.1.1".parse().unwrap()), None);
        let found = host.restricted_at("169.254.7.7".parse().unwrap()).unwrap().to_string();
        assert_eq!(found, "git.example, which has the address 169.254.7.7, a link-local address");
        let found = repository_host("http://2852039166/x").unwrap().restricted().unwrap().to_string();
        assert_eq!(found, "169.254.169.254, a cloud metadata service");
    }
}
