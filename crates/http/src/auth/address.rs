//! The address of the client that sent a request.
//!
//! Each proxy appends the address of its own client to `X-Forwarded-For`. Only the entries from trusted proxies are
//! reliable, so the list is read from its end, past the trusted proxies, to the first address that is not trusted.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use ipnet::IpNet;

/// Returns the client's address, or `None` if it cannot be determined.
pub(super) fn of(parts: &Parts, trusted: &[IpNet]) -> Option<IpAddr> {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>()?.0.ip().to_canonical();
    behind(peer, &parts.headers, trusted)
}

/// The header fields that proxies add to the requests that they pass on.
const FORWARDED: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// Returns whether a request comes from this machine itself: the peer has a loopback address, and no proxy has passed the
/// request on. A proxy on this machine that adds none of the usual header fields is not noticed.
pub(super) fn is_local(parts: &Parts) -> bool {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback())
        && !FORWARDED.iter().any(|name| parts.headers.contains_key(*name))
}

fn behind(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    if !is_trusted(&peer) {
        return Some(peer);
    }
    let mut chain = Vec::new();
    for value in headers.get_all("x-forwarded-for") {
        // A header line that is not text makes the whole list unreliable.
        chain.extend(value.to_str().ok()?.split(',').map(str::trim));
    }
    let mut farthest = peer;
    for entry in chain.iter().rev() {
        farthest = address(entry)?;
        if !is_trusted(&farthest) {
            break;
        }
    }
    Some(farthest)
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let address = plain.or_else(|| text.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_from_trusted_proxies_are_used() {
        let proxies: Vec<IpNet> = vec!["10.0.0.0/8".parse().expect("a network")];
        let cases: &[(&str, &[&str], Option<&str>)] = &[
            ("192.0.2.1", &[], Some("192.0.2.1")),
            ("192.0.2.1", &["203.0.113.9"], Some("192.0.2.1")),
            ("10.0.0.1", &[], Some("10.0.0.1")),
            ("10.0.0.1", &["203.0.113.9"], Some("203.0.113.9")),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9"], Some("203.0.113.9")),
            ("10.0.0.1", &["203.0.113.9, 10.0.0.2"], Some("203.0.113.9")),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.9"], Some("203.0.113.9")),
            ("10.0.0.1", &["203.0.113.9:4711"], Some("203.0.113.9")),
            ("10.0.0.1", &["[2001:db8::1]:80"], Some("2001:db8::1")),
            ("10.0.0.1", &["unknown"], None),
            ("10.0.0.1", &["203.0.113.9, "], None),
        ];
        for (peer, lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append("x-forwarded-for", line.parse().expect("a header value"));
            }
            let found = behind(peer.parse().expect("an address"), &headers, &proxies);
            assert_eq!(found, expected.map(|text| text.parse().expect("an address")), "{peer} {lines:?}");
        }
    }
}
