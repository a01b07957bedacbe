//! Opens connections to checked addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Error, Policy, Resolver};

/// Resolves `host` once, and connects to the first permitted address that answers. `limit` applies to resolving the
/// name, and to each attempt to connect.
///
/// # Errors
/// The name cannot be resolved, no address is permitted, or none answers.
pub async fn connect(
    resolver: &dyn Resolver,
    policy: &Policy,
    host: &str,
    port: u16,
    limit: Duration,
) -> Result<TcpStream, Error> {
    let resolved = match host.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => timeout(limit, resolver.resolve(host)).await.map_err(io::Error::from).and_then(|found| found),
    };
    let resolved = resolved.map_err(|error| Error::NotFound { host: host.to_owned(), cause: error.to_string() })?;
    let mut last = Error::Slow(limit);
    for address in policy.filter(host, resolved)? {
        match timeout(limit, TcpStream::connect(SocketAddr::new(address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = Error::Unreachable(error.to_string()),
            Err(_) => last = Error::Slow(limit),
        }
    }
    Err(last)
}
