//! Resolves the names of hosts to addresses.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Resolves the name of a host.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a host, the preferred ones first.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names with the machine's resolver, as other programs on the machine do.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}
