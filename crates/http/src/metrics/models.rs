//! Metrics of model calls.

use std::fmt;
use std::sync::Arc;

use journeyman_core::ports::ModelMeter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// Reads the counts at each scrape of the metrics.
pub(super) struct ModelCounts(pub(super) Arc<dyn ModelMeter>);

impl fmt::Debug for ModelCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelCounts")
    }
}

impl Collector for ModelCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.model_totals();
        let help = "Model calls, by provider and outcome";
        let mut family = encoder.encode_descriptor("model_calls", help, None, MetricType::Counter)?;
        for (provider, totals) in &all {
            for (outcome, count) in &totals.calls {
                ConstCounter::new(*count)
                    .encode(family.encode_family(&[("provider", provider.as_str()), ("outcome", outcome)])?)?;
            }
        }
        let help = "Tokens of model calls; cached and cache_written are part of input";
        let mut family = encoder.encode_descriptor("model_tokens", help, None, MetricType::Counter)?;
        for (provider, totals) in &all {
            let tokens = totals.tokens;
            for (kind, count) in [
                ("input", tokens.input),
                ("cached", tokens.cached),
                ("cache_written", tokens.cache_written),
                ("output", tokens.output),
            ] {
                ConstCounter::new(count)
                    .encode(family.encode_family(&[("provider", provider.as_str()), ("kind", kind)])?)?;
            }
        }
        let help = "Cost of model calls in US dollars, without calls whose price is unknown";
        let mut family = encoder.encode_descriptor("model_cost_dollars", help, None, MetricType::Counter)?;
        for (provider, totals) in &all {
            ConstCounter::new(dollars(totals.cost_micros))
                .encode(family.encode_family(&[("provider", provider.as_str())])?)?;
        }
        Ok(())
    }
}

/// Converts millionths of a dollar to the unit that Prometheus recommends: <https://prometheus.io/docs/practices/naming/>.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine billion dollars")]
fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}
