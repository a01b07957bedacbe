//! Carries out the effects in the outbox.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::Outbox;
use journeyman_core::ports::{EffectHandler, Store};

use super::duty::{Duty, Scope};
use crate::system::Machine;

/// Carries out effects until none are due. Processes share the work, because each claims different tasks.
pub(super) struct CarryOutEffects {
    name: &'static str,
    outbox: Outbox,
}

impl CarryOutEffects {
    /// Returns the duty that carries out the effects of a handler.
    pub(super) fn new(name: &'static str, store: Arc<dyn Store>, handler: Arc<dyn EffectHandler>) -> Self {
        Self { name, outbox: Outbox { store, clock: Arc::new(Machine), ids: Arc::new(Machine), handler } }
    }
}

#[async_trait]
impl Duty for CarryOutEffects {
    fn name(&self) -> &'static str {
        self.name
    }

    fn period(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        while self.outbox.carry_out_due().await? > 0 {}
        Ok(())
    }
}
