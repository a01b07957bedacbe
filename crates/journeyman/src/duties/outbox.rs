//! Carries out the effects in the outbox.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::Outbox;
use journeyman_core::ports::{EffectHandler, Store};

use super::{Duty, Scope};
use crate::system::Machine;

/// Carries out effects until none is due. Processes share the work, because each claims different tasks.
pub(super) struct CarryOutEffects(Outbox);

impl CarryOutEffects {
    pub(super) fn new(store: Arc<dyn Store>, handler: Arc<dyn EffectHandler>) -> Self {
        Self(Outbox { store, clock: Arc::new(Machine), ids: Arc::new(Machine), handler })
    }
}

#[async_trait]
impl Duty for CarryOutEffects {
    fn name(&self) -> &'static str {
        "outbox"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        while self.0.carry_out_due().await? > 0 {}
        Ok(())
    }
}
