//! Metrics of the server's connections.

use std::fmt;
use std::sync::Arc;

use journeyman_core::ports::ConnectionMeter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the counts at each scrape of the metrics.
pub(super) struct ConnectionCounts(pub(super) Arc<dyn ConnectionMeter>);

impl fmt::Debug for ConnectionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionCounts")
    }
}

impl Collector for ConnectionCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let totals = self.0.connection_totals();
        let help = "Maximum number of open connections (max-connections)";
        let family = encoder.encode_descriptor("connections_limit", help, None, MetricType::Gauge)?;
        ConstGauge::new(totals.limit).encode(family)?;
        let help = "Open connections, by whether a request on them was authenticated";
        let mut family = encoder.encode_descriptor("connections_open", help, None, MetricType::Gauge)?;
        for (label, count) in [("true", totals.authenticated), ("false", totals.unauthenticated)] {
            ConstGauge::new(count).encode(family.encode_family(&[("authenticated", label)])?)?;
        }
        let help = "Connections accepted";
        let family = encoder.encode_descriptor("connections_accepted", help, None, MetricType::Counter)?;
        ConstCounter::new(totals.accepted).encode(family)?;
        let by_cause = [
            ("connections_refused", "Connections refused, by cause", totals.refused),
            ("connections_closed", "Connections that the server closed, by cause", totals.closed),
        ];
        for (name, help, counts) in by_cause {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (cause, count) in counts {
                ConstCounter::new(count).encode(family.encode_family(&[("cause", cause)])?)?;
            }
        }
        Ok(())
    }
}
