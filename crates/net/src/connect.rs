//! Opens connections to checked addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::{Error, Policy, Resolver};

/// The time after which the next address is tried too, if the one before has not answered (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

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
    let attempt = |address| async move {
        match timeout(limit, TcpStream::connect(SocketAddr::new(address, port))).await {
            Ok(connected) => connected.map_err(|error| Error::Unreachable(error.to_string())),
            Err(_) => Err(Error::Slow(limit)),
        }
    };
    let mut addresses = policy.filter(host, resolved)?.into_iter();
    let mut attempts: FuturesUnordered<_> = addresses.next().map(attempt).into_iter().collect();
    loop {
        tokio::select! {
            ended = attempts.next() => {
                let error = match ended {
                    Some(Ok(stream)) => return Ok(stream),
                    Some(Err(error)) => error,
                    None => return Err(Error::Slow(limit)),
                };
                match addresses.next() {
                    Some(address) => attempts.push(attempt(address)),
                    None if attempts.is_empty() => return Err(error),
                    None => {}
                }
            }
            () = sleep(STAGGER), if addresses.len() > 0 => attempts.extend(addresses.next().map(attempt)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use async_trait::async_trait;
    use journeyman_testkit::{PATIENCE, within};
    use tokio::net::TcpListener;

    use super::*;

    struct Fixed(Vec<&'static str>);

    #[async_trait]
    impl Resolver for Fixed {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.iter().map(|address| address.parse().unwrap()).collect())
        }
    }

    #[tokio::test]
    async fn the_first_address_that_answers_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Nothing listens at the first address, and the second one is not permitted.
        let resolver = Fixed(vec!["127.0.0.2", "169.254.169.254", "127.0.0.1"]);
        let connected = connect(&resolver, &Policy::CodeHosts, "x.example", port, PATIENCE);
        let connected = within("a connection", connected).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap().to_string(), format!("127.0.0.1:{port}"));
        let resolver = Fixed(vec!["127.0.0.2", "127.0.0.3"]);
        let refused = connect(&resolver, &Policy::Any, "x.example", port, PATIENCE);
        assert!(matches!(within("an error", refused).await, Err(Error::Unreachable(_))));
        let refused = connect(&Fixed(vec!["169.254.1.1"]), &Policy::CodeHosts, "x.example", port, PATIENCE).await;
        assert_eq!(refused.unwrap_err(), Error::NotPermitted("x.example".to_owned()));
    }
}
