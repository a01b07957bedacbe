//! The proxies through which programs in a sandbox reach the outside: one to the destinations that a project allows
//! ([`egress`]), and one to models ([`models`]).
//!
//! A sandbox has only a loopback interface. The service holds sockets that listen there, so it can serve the programs
//! in the sandbox and is not reachable in any other way. All input from a sandbox is untrusted.

mod egress;
mod models;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{EgressLog, Gate, Gateway, ModelMeter, ModelProxy, ModelRoute, ModelTotals};
use journeyman_core::run::Reason;
use journeyman_core::secret::SecretValue;
use journeyman_net::{Policy, Resolver};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use egress::Egress;
pub use models::{FieldGroup, Listed, ModelSettings, Models, PriceTable, PriceTableError, Provider};

/// Opens the proxies of sandboxes.
pub struct SandboxGateway {
    resolver: Arc<dyn Resolver>,
    /// The addresses that may be reached if a project allows a name that has them.
    policy: Policy,
    models: Arc<Models>,
}

impl SandboxGateway {
    /// Creates a gateway with the addresses that egress may reach, and the models that can be called.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, policy: Policy, models: Models) -> Self {
        Self { resolver, policy, models: Arc::new(models) }
    }
}

impl Gateway for SandboxGateway {
    fn open_egress(&self, listener: OwnedFd, allowed: Allowlist, log: EgressLog) -> io::Result<Gate> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let egress = Egress { allowed, log, resolver: Arc::clone(&self.resolver), policy: self.policy.clone() };
        Ok(Gate(Box::new(AbortOnDropHandle::new(tokio::spawn(Arc::new(egress).serve(listener))))))
    }

    fn route(&self, model: &str, keys: &BTreeMap<String, SecretValue>) -> Result<Option<ModelRoute>, Reason> {
        self.models.route(model, keys)
    }

    fn serve_models(&self, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelProxy>> {
        self.models.serve(listener, token)
    }
}

impl ModelMeter for SandboxGateway {
    fn model_totals(&self) -> ModelTotals {
        self.models.totals()
    }
}
