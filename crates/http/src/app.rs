//! The state that all handlers share: services, settings, metrics, and limits.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use journeyman_app::{Limiter, UseCases};
use journeyman_core::agent::Agents;
use journeyman_core::engine::Engine;
use journeyman_core::ids::KeyId;
use journeyman_core::model::ProviderInfo;
use journeyman_core::ports::{
    Blobs, ConnectionMeter, Containing, Diffs, DutyMeter, GitServer, InstalledAgents, LfsServer, ModelMeter, Passwords,
    PullPages, Seal, SignInProvider, Store,
};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_core::user::second_factor::RequiredOf;
use tokio_util::sync::CancellationToken;

use crate::arrivals::{Arrivals, Shares};
use crate::attempts::Attempts;
use crate::metrics::{Metrics, Sources};
use crate::readiness::secrets::Secrets;
use crate::readiness::storage::Storage;
use crate::readiness::writes::Writes;

/// The services that the interface uses: the use cases, and ports.
#[derive(Clone)]
pub struct Services {
    /// The use cases, through which handlers make changes.
    pub cases: UseCases,
    /// Gives the current time to handlers.
    pub engine: Engine,
    /// The store, from which handlers read.
    pub store: Arc<dyn Store>,
    /// Generates request IDs, and the tokens of the dashboard.
    pub ids: Arc<dyn IdGen>,
    /// The blob store, whose writes health checks try.
    pub blobs: Arc<dyn Blobs>,
    /// Reads the diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// Serves repositories of the built-in code host to git.
    pub git: Arc<dyn GitServer>,
    /// Serves the objects of Git LFS of those repositories.
    pub lfs: Arc<dyn LfsServer>,
    /// The pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// Hashes and verifies the passwords of users.
    pub passwords: Arc<dyn Passwords>,
    /// The OpenID provider for sign-in, if one is configured.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// Encrypts what the dashboard stores in cookies.
    pub seal: Arc<dyn Seal>,
    /// The clock of the dashboard.
    pub clock: Arc<dyn Clock>,
    /// The state of this machine's sandbox and disk, if this process carries out jobs.
    pub machine: Option<Arc<dyn Containing>>,
    /// The agents that are installed on this machine, if this process carries out jobs.
    pub installed: Option<Arc<dyn InstalledAgents>>,
    /// The meter of model calls, if this process carries out jobs.
    pub models: Option<Arc<dyn ModelMeter>>,
    /// The meter of the server's connections, if the server counts them.
    pub connections: Option<Arc<dyn ConnectionMeter>>,
    /// The meter of the periodic duties, if this process has any.
    pub duties: Option<Arc<dyn DutyMeter>>,
    /// Limits what callers use at the same time.
    pub limiter: Limiter,
}

/// The settings of the interface, from the configuration of the process.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL at which clients reach the service, without a trailing slash: `https://journeyman.example.com`.
    pub public_url: String,
    /// The proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The maximum number of jobs created per hour in a project that sets no limit; 0 means no limit.
    pub create_per_hour: u32,
    /// The maximum number of messages sent per hour in a project that sets no limit; 0 means no limit.
    pub message_per_hour: u32,
    /// The configured agents, by ID. A project or job that names another agent is refused.
    pub agents: Arc<Agents>,
    /// The configured providers of models, by prefix.
    pub providers: Vec<ProviderInfo>,
    /// The version of the program.
    pub version: String,
    /// The users of the dashboard who must have a second factor.
    pub second_factor: RequiredOf,
    /// The storage locations and limits that the system page of the dashboard shows, as names and values.
    pub facts: Vec<(String, String)>,
}

/// The memory for request bodies of callers with a key that arrive at the same time.
const BODIES: Shares = Shares { bytes: 128 << 20, bytes_each: 32 << 20, bodies: 4096, bodies_each: 512 };

/// The memory for webhooks that arrive at the same time. It is separate, because anyone can send a webhook that turns out
/// to be unsigned. The share of an address has room for a webhook of the maximum size.
const HOOKS: Shares = Shares { bytes: 64 << 20, bytes_each: 32 << 20, bodies: 1024, bodies_each: 64 };

impl App {
    pub(crate) fn new(services: Services, settings: Settings, shutdown: CancellationToken) -> Self {
        let sources = Sources {
            has_pool: services.store.pool().is_some(),
            has_workspaces: services.machine.is_some(),
            models: services.models.clone(),
            connections: services.connections.clone(),
            duties: services.duties.clone(),
            limiter: services.limiter.clone(),
        };
        let metrics = Metrics::new(&settings.version, &sources);
        let cases = services.cases.clone();
        let (noted, exchanges) = (Mutex::default(), Attempts::default());
        let (bodies, hooks) = (Arrivals::new(BODIES), Arrivals::new(HOOKS));
        let (writes, storage, secrets) = (Writes::default(), Storage::default(), Secrets::default());
        Self(Arc::new(Parts {
            services,
            settings,
            metrics,
            shutdown,
            cases,
            bodies,
            hooks,
            noted,
            exchanges,
            writes,
            storage,
            secrets,
        }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The state of every handler. Clones are cheap, because each request makes several.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) services: Services,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// Ends long polls and event streams, and makes the server refuse new requests.
    pub(crate) shutdown: CancellationToken,
    /// The use cases, as in [`Services::cases`].
    pub(crate) cases: UseCases,
    /// The request bodies of callers with a key that are arriving.
    pub(crate) bodies: Arrivals,
    /// The webhooks, and the tokens for the exchange, that are arriving.
    pub(crate) hooks: Arrivals,
    /// The keys whose use this process stored in the last minute, with the time of the use.
    pub(crate) noted: Mutex<HashMap<KeyId, Timestamp>>,
    /// The refused exchanges of tokens.
    pub(crate) exchanges: Attempts,
    /// The last check of writes.
    pub(crate) writes: Writes,
    /// The last check of the blob store.
    pub(crate) storage: Storage,
    /// The last check of the stored secrets.
    pub(crate) secrets: Secrets,
}
