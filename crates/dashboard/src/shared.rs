//! The state that all handlers share: ports, settings, and what is prepared once.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use journeyman_app::{Class, Exceeded, Holder, Limiter, Permit, UseCases};
use journeyman_core::agent::Agents;
use journeyman_core::ids::UserId;
use journeyman_core::model::ProviderInfo;
use journeyman_core::ports::{Containing, Diffs, InstalledAgents, Passwords, PullPages, Seal, SignInProvider, Store};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::user::second_factor::RequiredOf;

use crate::assets::Assets;
use crate::digests::Digests;
use crate::highlight::Highlighter;
use crate::log_tail::LogTails;
use crate::portal::Portal;
use crate::streams::Streams;
use crate::throttle::Throttle;

/// The ports on which the pages depend.
#[derive(Clone)]
pub struct Services {
    /// The store, which pages read from.
    pub store: Arc<dyn Store>,
    /// The use cases, which make all changes.
    pub cases: UseCases,
    /// The logs of jobs.
    pub tails: Arc<dyn LogTails>,
    /// The sandbox of this machine, if it runs jobs.
    pub machine: Option<Arc<dyn Containing>>,
    /// The agents that are installed on this machine, if it runs jobs.
    pub installed: Option<Arc<dyn InstalledAgents>>,
    /// The repositories and pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// The diffs of jobs.
    pub diffs: Arc<dyn Diffs>,
    /// The hashing, verification and policy of passwords.
    pub passwords: Arc<dyn Passwords>,
    /// The identity provider, if one is configured.
    pub provider: Option<Arc<dyn SignInProvider>>,
    /// Encrypts what is stored in cookies.
    pub seal: Arc<dyn Seal>,
    /// The clock for the current time.
    pub clock: Arc<dyn Clock>,
    /// The generator of tokens and IDs.
    pub ids: Arc<dyn IdGen>,
    /// Limits the requests of a user for which git runs.
    pub limiter: Limiter,
}

/// The operator's settings that pages need.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL at which clients reach the service, without a trailing slash.
    pub public_url: String,
    /// The configured agents.
    pub agents: Arc<Agents>,
    /// The configured providers of models.
    pub providers: Vec<ProviderInfo>,
    /// The version of the program.
    pub version: String,
    /// The users who must have a second factor.
    pub second_factor: RequiredOf,
    /// Names and values for the system page: storage locations, and settings for all projects.
    pub facts: Vec<(String, String)>,
}

impl Settings {
    /// Returns true if browsers use https.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }
}

/// The state that all handlers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Parts>);

/// The parts of the state.
pub(crate) struct Parts {
    pub(crate) services: Services,
    pub(crate) settings: Settings,
    pub(crate) assets: Assets,
    pub(crate) highlighter: Highlighter,
    /// The documentation, which is built for its first reader.
    pub(crate) portal: LazyLock<Portal, Box<dyn FnOnce() -> Portal + Send>>,
    pub(crate) throttle: Throttle,
    pub(crate) streams: Streams,
    pub(crate) digests: Digests,
    /// True once the store has had an administrator, so that pages need not ask again.
    pub(crate) claimed: AtomicBool,
}

impl std::ops::Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Shared {
    /// Creates the state. `document` returns the OpenAPI document.
    pub(crate) fn new(
        services: Services,
        settings: Settings,
        document: impl FnOnce() -> serde_json::Value + Send + 'static,
    ) -> Self {
        let public_url = settings.public_url.clone();
        Self(Arc::new(Parts {
            services,
            settings,
            assets: Assets::bundled(),
            highlighter: Highlighter::new(),
            portal: LazyLock::new(Box::new(move || Portal::new(document(), &public_url))),
            throttle: Throttle::default(),
            streams: Streams::default(),
            digests: Digests::default(),
            claimed: AtomicBool::new(false),
        }))
    }

    /// Waits for the permission to run git for a page of a user.
    ///
    /// # Errors
    /// Too many other pages need git at the same time.
    pub(crate) async fn may_run_git(&self, user: UserId) -> Result<Permit, Exceeded> {
        self.services.limiter.wait_for(Class::Git, Holder::User(user)).await
    }
}
