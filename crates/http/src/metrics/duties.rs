//! Metrics of the periodic duties and of polls.

use std::fmt;
use std::sync::Arc;

use journeyman_core::ports::{CredentialTotals, DutyMeter, PollTotals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Reads the counters at each scrape of the metrics.
pub(super) struct DutyCounts(pub(super) Arc<dyn DutyMeter>);

impl fmt::Debug for DutyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DutyCounts")
    }
}

impl Collector for DutyCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.duties();
        let counters = [
            ("duty_runs", "Times that this process carried out a duty", all.iter().map(|duty| duty.runs).collect()),
            ("duty_failures", "Times that a duty failed", all.iter().map(|duty| duty.failures).collect::<Vec<u64>>()),
        ];
        for (name, help, values) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (duty, value) in all.iter().zip(values) {
                ConstCounter::new(value).encode(family.encode_family(&[("duty", duty.name)])?)?;
            }
        }
        let help = "Time of the last success of a duty, in seconds since 1970";
        let mut family =
            encoder.encode_descriptor("duty_last_success_timestamp", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for duty in &all {
            if let Some(at) = duty.last_success {
                ConstGauge::new(at.as_micros() / 1_000_000).encode(family.encode_family(&[("duty", duty.name)])?)?;
            }
        }
        let help = "Duration of the last time that a duty was carried out";
        let mut family =
            encoder.encode_descriptor("duty_last_duration", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for duty in &all {
            let seconds = duty.last_duration.as_secs_f64();
            ConstGauge::new(seconds).encode(family.encode_family(&[("duty", duty.name)])?)?;
        }
        encode_polls(&self.0.polls(), &mut encoder)?;
        encode_credentials(&self.0.credentials(), &mut encoder)
    }
}

fn encode_polls(all: &[PollTotals], encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let values = |value: fn(&PollTotals) -> u64| all.iter().map(value).collect::<Vec<u64>>();
    let counters = [
        ("polls", "Times that this process polled a repository", values(|host| host.polls)),
        ("poll_failures", "Times that a poll failed", values(|host| host.failures)),
        ("poll_requests", "Requests of polls", values(|host| host.requests)),
        ("poll_events", "Events that polls found", values(|host| host.events)),
    ];
    for (name, help, values) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (host, value) in all.iter().zip(values) {
            ConstCounter::new(value).encode(family.encode_family(&[("code_host", host.host.as_str())])?)?;
        }
    }
    Ok(())
}

fn encode_credentials(all: &[CredentialTotals], encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let labels = |one: &CredentialTotals| {
        let owner = if one.of_project { "project" } else { "code_host" };
        [("code_host", one.host.clone()), ("owner", owner.to_owned())]
    };
    let help = "Time from which the code host refuses the credential that expires first, in seconds since 1970";
    let mut family =
        encoder.encode_descriptor("credential_expiry_timestamp", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    for one in all {
        if let Some(at) = one.first_expiry {
            ConstGauge::new(at.as_micros() / 1_000_000).encode(family.encode_family(&labels(one))?)?;
        }
    }
    let help = "Credentials that are refused, lack permissions, or whose installations are suspended";
    let mut family = encoder.encode_descriptor("credential_problems", help, None, MetricType::Gauge)?;
    for one in all {
        ConstGauge::new(one.problems).encode(family.encode_family(&labels(one))?)?;
    }
    Ok(())
}
