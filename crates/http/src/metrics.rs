//! Numbers for Prometheus. Labels are routes and statuses, never ids: `/metrics` needs no key.

mod connections;
mod models;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::Method;
use journeyman_core::ports::{ConnectionMeter, FreeSpace, ModelMeter};
use journeyman_core::rate::RateKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::connections::ConnectionCounts;
use self::models::ModelCounts;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: String,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

/// All numbers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    answers: Family<AnswerLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    accepted: Family<KindLabels, Counter>,
    active_jobs: Gauge<u64, AtomicU64>,
    waiting_jobs: Family<CauseLabels, Gauge<u64, AtomicU64>>,
    projects_on_hold: Gauge<u64, AtomicU64>,
    /// The free bytes of the disk with the workspaces, and the reserve.
    disk: [Gauge<u64, AtomicU64>; 2],
}

/// Counts that the store provides, and the free space of this machine.
pub(crate) struct Counts {
    /// Active jobs.
    pub(crate) active: u64,
    /// Jobs that wait for something outside them, by the code of the cause.
    pub(crate) waiting: BTreeMap<String, u64>,
    /// Projects on hold.
    pub(crate) on_hold: u64,
    /// The free space of the disk with the workspaces, on a machine that carries out runs.
    pub(crate) space: Option<FreeSpace>,
}

/// From a tenth of a millisecond to about 26 seconds; long polls and streams end in the last bucket.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 10))
}

impl Metrics {
    /// Creates and registers the metrics; `has_disk` says whether this process keeps workspaces.
    pub(crate) fn new(
        version: &str,
        models: Option<Arc<dyn ModelMeter>>,
        connections: Option<Arc<dyn ConnectionMeter>>,
        has_disk: bool,
    ) -> Self {
        let mut registry = Registry::with_prefix("journeyman");
        let answers = Family::<AnswerLabels, Counter>::default();
        let seconds = Family::<RouteLabels, Histogram>::new_with_constructor(buckets);
        let accepted = Family::<KindLabels, Counter>::default();
        let active_jobs = Gauge::<u64, AtomicU64>::default();
        let disk = <[Gauge<u64, AtomicU64>; 2]>::default();
        registry.register("build", "Version of the program", Info::new(vec![("version", version.to_owned())]));
        registry.register("http_requests", "Requests answered", answers.clone());
        let help = "Time from a request to the head of its answer";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, seconds.clone());
        registry.register("accepted", "Jobs created and messages accepted, replays not counted", accepted.clone());
        let waiting_jobs = Family::<CauseLabels, Gauge<u64, AtomicU64>>::default();
        let projects_on_hold = Gauge::<u64, AtomicU64>::default();
        registry.register("jobs_active", "Jobs that are active", active_jobs.clone());
        registry.register(
            "jobs_waiting",
            "Jobs that wait for an external cause to pass, by cause",
            waiting_jobs.clone(),
        );
        registry.register("projects_on_hold", "Projects whose jobs all wait for one cause", projects_on_hold.clone());
        if has_disk {
            registry.register_with_unit("disk_free", "Free space for workspaces", Unit::Bytes, disk[0].clone());
            let help = "Free space below which no run is claimed";
            registry.register_with_unit("disk_reserve", help, Unit::Bytes, disk[1].clone());
        }
        if let Some(models) = models {
            registry.register_collector(Box::new(ModelCounts(models)));
        }
        if let Some(connections) = connections {
            registry.register_collector(Box::new(ConnectionCounts(connections)));
        }
        let registry = Arc::new(registry);
        Self { registry, answers, seconds, accepted, active_jobs, waiting_jobs, projects_on_hold, disk }
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, method: &Method, route: &str, status: u16, took: Duration) {
        // A method of the client's invention must not become a label of its own.
        let known = [Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE];
        let method = if known.contains(method) { method.as_str() } else { "other" }.to_owned();
        let route = route.to_owned();
        let labels = RouteLabels { method: method.clone(), route: route.clone() };
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.answers.get_or_create(&AnswerLabels { method, route, status }).inc();
    }

    /// Counts a job or message that was stored.
    pub(crate) fn accepted(&self, kind: RateKind) {
        self.accepted.get_or_create(&KindLabels { kind: kind.name() }).inc();
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, counts: Counts) -> Result<String, std::fmt::Error> {
        self.active_jobs.set(counts.active);
        self.projects_on_hold.set(counts.on_hold);
        self.waiting_jobs.clear();
        for (cause, jobs) in counts.waiting {
            self.waiting_jobs.get_or_create(&CauseLabels { cause }).set(jobs);
        }
        if let Some(FreeSpace { free_bytes, reserve_bytes }) = counts.space {
            self.disk[0].set(free_bytes);
            self.disk[1].set(reserve_bytes);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
