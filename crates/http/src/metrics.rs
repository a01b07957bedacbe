//! Metrics for Prometheus. Labels are routes, statuses, and similar values, never IDs, because `/metrics` needs no key.

mod connections;
mod duties;
mod limits;
mod models;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::Method;
use journeyman_app::Limiter;
use journeyman_core::hosted_storage::HostedStorage;
use journeyman_core::outbox::Backlog;
use journeyman_core::ports::{ConnectionMeter, DeliveryBacklog, DutyMeter, JobCounts, ModelMeter, PoolState};
use journeyman_core::rate::RateKind;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::FreeSpace;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use self::connections::ConnectionCounts;
use self::duties::DutyCounts;
use self::limits::LimitCounts;
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

/// The metrics of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    registry: Arc<Registry>,
    answers: Family<AnswerLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    accepted: Family<KindLabels, Counter>,
    active_jobs: Gauge<u64, AtomicU64>,
    runs_running: Gauge<u64, AtomicU64>,
    runs_due: Gauge<u64, AtomicU64>,
    oldest_due: Gauge<f64, AtomicU64>,
    streams: Gauge<u64, AtomicU64>,
    outbox: BacklogGauges,
    inbox: BacklogGauges,
    deliveries: DeliveryGauges,
    waiting_jobs: Family<CauseLabels, Gauge<u64, AtomicU64>>,
    projects_on_hold: Gauge<u64, AtomicU64>,
    /// The maximum number of connections to the database, and the open, idle and waiting ones.
    pool: [Gauge<u64, AtomicU64>; 4],
    /// The free bytes of the disk with the workspaces, and the reserve.
    disk: [Gauge<u64, AtomicU64>; 2],
    /// The bytes of the git directories and of the objects of Git LFS of the built-in code host, and their number.
    hosted: [Gauge<u64, AtomicU64>; 3],
}

/// The sources of metrics that this process has. Metrics without a source are not registered.
pub(crate) struct Sources {
    /// `true` if the store has a pool of connections.
    pub(crate) has_pool: bool,
    /// `true` if this machine has a disk with workspaces.
    pub(crate) has_workspaces: bool,
    /// The meter of model calls.
    pub(crate) models: Option<Arc<dyn ModelMeter>>,
    /// The meter of the server's connections.
    pub(crate) connections: Option<Arc<dyn ConnectionMeter>>,
    /// The meter of the periodic duties.
    pub(crate) duties: Option<Arc<dyn DutyMeter>>,
    /// The limits of what callers use at the same time.
    pub(crate) limiter: Limiter,
}

/// Counts that the store provides, and the free space of this machine.
pub(crate) struct Counts {
    /// The time of the counts.
    pub(crate) now: Timestamp,
    /// The numbers of active jobs.
    pub(crate) jobs: JobCounts,
    /// The tasks in the outbox.
    pub(crate) outbox: Backlog,
    /// The events in the inbox that were not carried out yet.
    pub(crate) inbox: Backlog,
    /// The deliveries of webhooks that were not ended yet.
    pub(crate) deliveries: DeliveryBacklog,
    /// The connections to the database, if the store has any.
    pub(crate) pool: Option<PoolState>,
    /// The number of jobs that wait for an external cause to pass, by the code of the cause.
    pub(crate) waiting: BTreeMap<String, u64>,
    /// The number of projects on hold.
    pub(crate) on_hold: u64,
    /// The free space of the disk with the workspaces, if this machine carries out runs.
    pub(crate) space: Option<FreeSpace>,
    /// The space that the repositories of the built-in code host take.
    pub(crate) hosted: HostedStorage,
}

/// Returns a histogram with buckets from 0.1 ms to about 26 s. Longer long polls fall into the last bucket.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 10))
}

/// Returns the name of a method. All methods that the interface does not use have one name, so that a client cannot add
/// labels, or long attributes of spans, by inventing methods.
pub(crate) fn method_name(method: &Method) -> &'static str {
    const KNOWN: [&str; 5] = ["GET", "HEAD", "POST", "PATCH", "DELETE"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// The gauges of webhooks.
#[derive(Debug, Clone, Default)]
struct DeliveryGauges {
    pending: Gauge<u64, AtomicU64>,
    oldest_due: Gauge<f64, AtomicU64>,
    failing: Gauge<u64, AtomicU64>,
}

impl DeliveryGauges {
    fn new(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        let help = "Deliveries of enabled webhooks that were not ended yet";
        registry.register("webhook_deliveries_pending", help, gauges.pending.clone());
        let help = "Time for which the oldest pending delivery has been due; 0 if none is";
        registry.register_with_unit("webhook_oldest_due", help, Unit::Seconds, gauges.oldest_due.clone());
        registry.register("webhooks_failing", "Enabled webhooks whose last attempt failed", gauges.failing.clone());
        gauges
    }
}

/// The gauges of the outbox or the inbox.
#[derive(Debug, Clone, Default)]
struct BacklogGauges {
    open: Gauge<u64, AtomicU64>,
    retried: Gauge<u64, AtomicU64>,
    oldest: Gauge<f64, AtomicU64>,
}

impl BacklogGauges {
    /// Registers the gauges of `queue`, which has `things`.
    fn new(registry: &mut Registry, queue: &str, things: &str) -> Self {
        let gauges = Self::default();
        let help = format!("Open {things} in the {queue}");
        registry.register(format!("{queue}_{things}"), help, gauges.open.clone());
        let help = format!("Open {things} in the {queue} that were attempted before");
        registry.register(format!("{queue}_{things}_retried"), help, gauges.retried.clone());
        let help = format!("Age of the oldest of the open {things} in the {queue}; 0 if there is none");
        registry.register_with_unit(format!("{queue}_oldest"), help, Unit::Seconds, gauges.oldest.clone());
        gauges
    }
}

impl Metrics {
    /// Creates and registers the metrics of this version.
    pub(crate) fn new(version: &str, sources: &Sources) -> Self {
        let mut registry = Registry::with_prefix("journeyman");
        let answers = Family::<AnswerLabels, Counter>::default();
        let seconds = Family::<RouteLabels, Histogram>::new_with_constructor(buckets);
        let accepted = Family::<KindLabels, Counter>::default();
        let [active_jobs, runs_running, runs_due, streams] = <[Gauge<u64, AtomicU64>; 4]>::default();
        let oldest_due = Gauge::<f64, AtomicU64>::default();
        let pool = <[Gauge<u64, AtomicU64>; 4]>::default();
        let disk = <[Gauge<u64, AtomicU64>; 2]>::default();
        let hosted = <[Gauge<u64, AtomicU64>; 3]>::default();
        let [git, lfs, objects] = &hosted;
        let help = "Space of the git directories of the built-in code host";
        registry.register_with_unit("hosted_git", help, Unit::Bytes, git.clone());
        let help = "Space of the Git LFS objects of the built-in code host";
        registry.register_with_unit("hosted_lfs", help, Unit::Bytes, lfs.clone());
        registry.register("hosted_lfs_objects", "Git LFS objects of the built-in code host", objects.clone());
        registry.register("build", "Version of the program", Info::new(vec![("version", version.to_owned())]));
        registry.register("http_requests", "Requests answered", answers.clone());
        let help = "Time from a request to the head of its response";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, seconds.clone());
        registry.register("accepted", "Jobs created and messages accepted, without replays", accepted.clone());
        let waiting_jobs = Family::<CauseLabels, Gauge<u64, AtomicU64>>::default();
        let projects_on_hold = Gauge::<u64, AtomicU64>::default();
        registry.register("jobs_active", "Jobs that are active", active_jobs.clone());
        registry.register("runs_running", "Jobs that a worker has a lease on", runs_running.clone());
        registry.register("runs_due", "Jobs that a worker may claim", runs_due.clone());
        let help = "Time for which the oldest job has been due; 0 if none is";
        registry.register_with_unit("oldest_due", help, Unit::Seconds, oldest_due.clone());
        registry.register("event_streams_open", "Open event streams of this process", streams.clone());
        let outbox = BacklogGauges::new(&mut registry, "outbox", "tasks");
        let inbox = BacklogGauges::new(&mut registry, "inbox", "events");
        let deliveries = DeliveryGauges::new(&mut registry);
        registry.register(
            "jobs_waiting",
            "Jobs that wait for an external cause to pass, by cause",
            waiting_jobs.clone(),
        );
        registry.register("projects_on_hold", "Projects whose jobs all wait for one cause", projects_on_hold.clone());
        if sources.has_pool {
            let [limit, open, idle, waiting] = &pool;
            registry.register("database_connections_limit", "Maximum number of connections", limit.clone());
            registry.register("database_connections_open", "Open connections to the database", open.clone());
            registry.register("database_connections_idle", "Connections that are not in use", idle.clone());
            let help = "Requests that wait for a connection to the database";
            registry.register("database_connections_waiting", help, waiting.clone());
        }
        if sources.has_workspaces {
            registry.register_with_unit("disk_free", "Free space for workspaces", Unit::Bytes, disk[0].clone());
            let help = "Free space below which no run is claimed";
            registry.register_with_unit("disk_reserve", help, Unit::Bytes, disk[1].clone());
        }
        if let Some(models) = &sources.models {
            registry.register_collector(Box::new(ModelCounts(Arc::clone(models))));
        }
        if let Some(connections) = &sources.connections {
            registry.register_collector(Box::new(ConnectionCounts(Arc::clone(connections))));
        }
        registry.register_collector(Box::new(LimitCounts(sources.limiter.clone())));
        if let Some(duties) = &sources.duties {
            registry.register_collector(Box::new(DutyCounts(Arc::clone(duties))));
        }
        let registry = Arc::new(registry);
        Self {
            registry,
            answers,
            seconds,
            accepted,
            active_jobs,
            runs_running,
            runs_due,
            oldest_due,
            streams,
            outbox,
            inbox,
            deliveries,
            waiting_jobs,
            projects_on_hold,
            pool,
            disk,
            hosted,
        }
    }

    /// Counts a response, and records the time until it began.
    pub(crate) fn answered(&self, method: &Method, route: &str, status: u16, took: Duration) {
        let method = method_name(method).to_owned();
        let route = route.to_owned();
        let labels = RouteLabels { method: method.clone(), route: route.clone() };
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.answers.get_or_create(&AnswerLabels { method, route, status }).inc();
    }

    /// Counts a job or message that was stored.
    pub(crate) fn accepted(&self, kind: RateKind) {
        self.accepted.get_or_create(&KindLabels { kind: kind.name() }).inc();
    }

    /// Counts an event stream that was opened.
    pub(crate) fn stream_opened(&self) {
        self.streams.inc();
    }

    /// Counts an event stream that was closed.
    pub(crate) fn stream_closed(&self) {
        self.streams.dec();
    }

    /// Returns the metrics in the OpenMetrics text format.
    pub(crate) fn text(&self, counts: Counts) -> Result<String, std::fmt::Error> {
        let age = |since: Option<Timestamp>| since.map_or(0.0, |since| counts.now.since(since).as_secs_f64());
        self.active_jobs.set(counts.jobs.active);
        self.runs_running.set(counts.jobs.running);
        self.runs_due.set(counts.jobs.due);
        self.oldest_due.set(age(counts.jobs.oldest_due));
        for (gauges, backlog) in [(&self.outbox, counts.outbox), (&self.inbox, counts.inbox)] {
            gauges.open.set(backlog.tasks);
            gauges.retried.set(backlog.retried);
            gauges.oldest.set(age(backlog.oldest));
        }
        self.deliveries.pending.set(counts.deliveries.pending);
        self.deliveries.oldest_due.set(age(counts.deliveries.oldest));
        self.deliveries.failing.set(counts.deliveries.failing);
        if let Some(PoolState { limit, open, idle, waiting }) = counts.pool {
            for (gauge, count) in self.pool.iter().zip([limit, open, idle, waiting]) {
                gauge.set(count);
            }
        }
        self.projects_on_hold.set(counts.on_hold);
        self.waiting_jobs.clear();
        for (cause, jobs) in counts.waiting {
            self.waiting_jobs.get_or_create(&CauseLabels { cause }).set(jobs);
        }
        let HostedStorage { git_bytes, lfs_bytes, lfs_objects } = counts.hosted;
        for (gauge, value) in self.hosted.iter().zip([git_bytes, lfs_bytes, lfs_objects]) {
            gauge.set(value);
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
