//! The port that carries out the effects of the outbox.

use async_trait::async_trait;

use crate::job::effect::Effect;

/// Carries out effects.
#[async_trait]
pub trait EffectHandler: Send + Sync {
    /// Returns the kinds of the effects that this process carries out.
    fn kinds(&self) -> &'static [&'static str];

    /// Carries out an effect, which an earlier attempt may have carried out already.
    ///
    /// # Errors
    /// The effect was not carried out, or not completely.
    async fn carry_out(&self, effect: &Effect) -> Result<(), EffectError>;
}

/// An error of an effect. The effect is attempted again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EffectError(pub String);
