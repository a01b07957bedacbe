//! What handlers are given.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use journeyman_core::agent::Agents;
use journeyman_core::engine::Engine;
use journeyman_core::ids::KeyId;
use journeyman_core::ports::{
    ConnectionMeter, Containing, Diffs, GitServer, ModelMeter, Passwords, PullPages, SignInProvider, Store,
};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use journeyman_app::UseCases;

/// What the interface works on; all of it are ports.
#[derive(Clone)]
pub struct Services {
    /// The use cases, which make all changes.
    pub cases: UseCases,
    /// Gives the current time to handlers.
    pub engine: Engine,
    /// Where everything is read.
    pub store: Arc<dyn Store>,
    /// Makes request ids, key ids and secrets.
    pub ids: Arc<dyn IdGen>,
    /// Reads the diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// Serves repositories of the built-in code host to git.
    pub git: Arc<dyn GitServer>,
    /// The pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// Hashes the passwords of people.
    pub passwords: Arc<dyn Passwords>,
    /// Who else says who somebody is.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// The present, as the pages see it.
    pub clock: Arc<dyn Clock>,
    /// The machine's sandbox, if the process carries out jobs.
    pub machine: Option<Arc<dyn Containing>>,
    /// What it has called of models.
    pub models: Option<Arc<dyn ModelMeter>>,
    /// The meter of the server's connections, if the server counts them.
    pub connections: Option<Arc<dyn ConnectionMeter>>,
}

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients reach the service, without a slash at the end: `https://journeyman.example.com`.
    pub public_url: String,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Jobs that a project may create in an hour, unless its own limits say otherwise; 0: no limit.
    pub create_per_hour: u32,
    /// Messages that a project may send in an hour, likewise.
    pub message_per_hour: u32,
    /// The agents that are configured, by id; a project or job that names another is refused.
    pub agents: Arc<Agents>,
    /// The version of the program.
    pub version: String,
    /// Where things are kept, for the page about the system: names and values.
    pub places: Vec<(String, String)>,
}

/// Memory for bodies that arrive at the same time: 128 MiB.
const BODIES_KIB: usize = 128 << 10;

impl App {
    pub(crate) fn new(services: Services, settings: Settings, shutdown: CancellationToken) -> Self {
        let (models, connections) = (services.models.clone(), services.connections.clone());
        let metrics = Metrics::new(&settings.version, models, connections, services.machine.is_some());
        let cases = services.cases.clone();
        let noted = Mutex::default();
        let bodies = Semaphore::new(BODIES_KIB);
        Self(Arc::new(Parts { services, settings, metrics, shutdown, cases, bodies, noted }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The state of every handler. Cheap to clone, which is done several times for each request.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) services: Services,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// Ends long polls and event streams, and refuses new work.
    pub(crate) shutdown: CancellationToken,
    /// The use cases.
    pub(crate) cases: UseCases,
    /// Room for bodies that arrive, in KiB.
    pub(crate) bodies: Semaphore,
    /// When each key's last use was noted by this process.
    pub(crate) noted: Mutex<HashMap<KeyId, Timestamp>>,
}
