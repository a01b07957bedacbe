//! Metrics of the limits of what callers use at the same time.

use std::fmt;

use journeyman_app::Limiter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the counts at each scrape of the metrics.
#[derive(Debug)]
pub(super) struct LimitCounts(pub(super) Limiter);

impl Collector for LimitCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let uses = self.0.uses();
        for (name, help, value) in [
            ("limit_used", "What callers use now, by class", (|one| one.used) as fn(&journeyman_app::Use) -> u64),
            ("limit_most", "What all callers together may use, by class", |one| one.most),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for one in &uses {
                ConstGauge::new(value(one)).encode(family.encode_family(&[("class", one.class.name())])?)?;
            }
        }
        let help = "Requests refused because a limit was reached, by class";
        let mut family = encoder.encode_descriptor("limit_refused", help, None, MetricType::Counter)?;
        for one in &uses {
            ConstCounter::new(one.refused).encode(family.encode_family(&[("class", one.class.name())])?)?;
        }
        Ok(())
    }
}
