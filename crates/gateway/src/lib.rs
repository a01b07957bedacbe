//! The ways out of a sandbox: a proxy to what a project allows ([`egress`]), and one to the models ([`models`]).
//!
//! Sandboxes have a loopback and nothing else. The service holds sockets that listen there, and so talks to whoever
//! connects without being reachable otherwise. All that comes from there is untrusted.

mod egress;
mod models;
mod resolver;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ipnet::IpNet;
use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{EgressLog, Gate, Gateway, ModelDoor, ModelMeter, ModelRoute, ModelTotals};
use journeyman_core::project::SecretValue;
use journeyman_core::run::Reason;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use egress::Egress;
pub use models::{ModelSettings, Models, NoClient, Provider};
pub use resolver::{Resolver, SystemResolver};

/// Opens them.
pub struct Doors {
    resolver: Arc<dyn Resolver>,
    /// Networks that may be reached though they are not public, where a project allows a name in them.
    private: Vec<IpNet>,
    models: Arc<Models>,
}

impl Doors {
    /// With the networks that may be reached though they are not public, and the models that can be called.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, private: Vec<IpNet>, models: Models) -> Self {
        Self { resolver, private, models: Arc::new(models) }
    }
}

impl Gateway for Doors {
    fn open_egress(&self, listener: OwnedFd, allowed: Allowlist, told: EgressLog) -> io::Result<Gate> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let egress = Egress { allowed, told, resolver: Arc::clone(&self.resolver), private: self.private.clone() };
        Ok(Gate(Box::new(AbortOnDropHandle::new(tokio::spawn(Arc::new(egress).serve(listener))))))
    }

    fn route(&self, model: &str, keys: &BTreeMap<String, SecretValue>) -> Result<Option<ModelRoute>, Reason> {
        self.models.route(model, keys)
    }

    fn serve_models(&self, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelDoor>> {
        self.models.serve(listener, token)
    }
}

impl ModelMeter for Doors {
    fn model_totals(&self) -> ModelTotals {
        self.models.totals()
    }
}
