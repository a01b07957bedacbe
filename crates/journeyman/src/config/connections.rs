//! The settings of client connections.

use std::time::Duration;

use anyhow::bail;

use super::layer::Layer;
use super::span::Span;
use crate::connections::Timeouts;

/// The minimum of `max-connections`, so that health checks can connect in addition to clients.
const FEWEST: usize = 4;

/// The limits and timeouts of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    /// The maximum number of open connections; `None` for the default, or fewer if the machine allows fewer.
    pub(crate) most: Option<usize>,
    /// The maximum number of open connections from one address; `None` for a fraction of the total.
    pub(crate) most_per_address: Option<usize>,
    pub(crate) timeouts: Timeouts,
}

pub(super) fn resolve(layer: &Layer) -> anyhow::Result<ConnectionSettings> {
    if layer.max_connections.is_some_and(|most| most < FEWEST) {
        bail!("max-connections must be at least {FEWEST}");
    }
    if layer.max_connections_per_address == Some(0) {
        bail!("max-connections-per-address must be at least 1");
    }
    let timeouts = Timeouts {
        header: timeout("header-timeout", layer.header_timeout, 15)?,
        idle: timeout("idle-timeout", layer.idle_timeout, 75)?,
        request: timeout("request-timeout", layer.request_timeout, 60)?,
        write: timeout("write-timeout", layer.write_timeout, 30)?,
    };
    Ok(ConnectionSettings {
        most: layer.max_connections,
        most_per_address: layer.max_connections_per_address,
        timeouts,
    })
}

fn timeout(name: &str, given: Option<Span>, seconds: u64) -> anyhow::Result<Duration> {
    match given {
        Some(Span(time)) if time < Duration::from_millis(100) => bail!("{name} must be at least 100ms"),
        Some(Span(time)) => Ok(time),
        None => Ok(Duration::from_secs(seconds)),
    }
}
