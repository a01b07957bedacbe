//! Models in a turn: how the agent reaches its own, on whose account, and what a failed call makes of the turn.

use std::collections::BTreeMap;

use journeyman_core::agent::{AgentSpec, MODEL_TOKEN, MODEL_URL, Places};
use journeyman_core::job::Job;
use journeyman_core::model::TEST;
use journeyman_core::ports::{Gateway, ModelAccount, ModelFailure, ModelRoute};
use journeyman_core::project::{Project, SecretValue};
use journeyman_core::run::{Reason, ReasonCode};

use crate::agent::Turn;
use crate::failure::Stopped;
use crate::ways::{Teller, Told};

/// How the job's model is reached; `None` where the agent calls none through us.
///
/// # Errors
/// It cannot be, or the agent does not speak its language.
pub(crate) fn route(
    gateway: &dyn Gateway,
    job: &Job,
    spec: &AgentSpec,
    keys: &BTreeMap<String, SecretValue>,
) -> Result<Option<ModelRoute>, Stopped> {
    if !spec.calls_models() {
        return Ok(None);
    }
    let failed = |reason: Reason| Stopped::Failed { reason, retry: false };
    let route = gateway.route(&job.model, keys).map_err(failed)?;
    let spoken = route.as_ref().map_or(TEST, |route| route.dialect.name());
    let knows = spec.dialects.is_empty() || route.as_ref().is_some_and(|route| spec.dialects.contains(&route.dialect));
    if knows {
        return Ok(route);
    }
    let own: Vec<&str> = spec.dialects.iter().map(|dialect| dialect.name()).collect();
    let text = format!(
        "the agent {} speaks {} with its model, and the model {} is served as {spoken}; choose another of either",
        job.agent,
        own.join(", "),
        job.model
    );
    Err(failed(Reason::new(ReasonCode::ModelNotConfigured, text)))
}

/// What the words of a spec stand for.
pub(crate) fn places(
    job: &Job,
    route: Option<&ModelRoute>,
    (home, workspace): (String, String),
    (refuses, model_calls): (bool, u32),
) -> Places {
    let model = job.model.clone();
    let dialect = route.map(|route| route.dialect.name()).or_else(|| model.split_once('/').map(|(prefix, _)| prefix));
    let (dialect, model_name) = (dialect.unwrap_or_default().to_owned(), name(job, route));
    let permission = if refuses { "ask" } else { "allow" };
    let context_tokens = route.and_then(|route| route.context_tokens).unwrap_or(0).to_string();
    let model_calls = model_calls.to_string();
    Places { model, dialect, model_name, home, workspace, permission, model_calls, context_tokens }
}

/// What the agent calls the job's model: the provider's name for it, or, where the agent reaches it in a way of its own
/// (the test model too), the name without what stands before the slash.
pub(crate) fn name(job: &Job, route: Option<&ModelRoute>) -> String {
    let own = || job.model.split_once('/').map_or(job.model.as_str(), |(_, name)| name);
    route.map_or_else(own, |route| route.name.as_str()).to_owned()
}

/// Whether a text needs a door to the models.
pub(crate) fn needs_door(text: &str) -> bool {
    text.contains(MODEL_URL) || text.contains(MODEL_TOKEN)
}

/// A text with where models are called, and the token.
pub(crate) fn with_door(text: &str, url: &str, token: &str) -> String {
    text.replace(MODEL_URL, url).replace(MODEL_TOKEN, token)
}

/// On whose account a turn calls models.
pub(crate) fn account(
    project: &Project,
    job: &Job,
    keys: BTreeMap<String, SecretValue>,
    teller: Teller,
) -> ModelAccount {
    ModelAccount {
        project: project.id.clone(),
        job: job.id,
        model: job.model.clone(),
        keys,
        budgets: project.settings.limits.budget,
        told: Box::new(move |call| teller.tell(Told::Model(call))),
    }
}

/// What becomes of a turn whose last call of a model failed: agents tell of it in many ways, and some as if all were well.
pub(crate) fn judge(turn: Result<Turn, Stopped>, failure: Option<ModelFailure>) -> Result<Turn, Stopped> {
    let Some(ModelFailure { reason, may_pass }) = failure else { return turn };
    let is_of_the_model = match &turn {
        Ok(turn) => !turn.is_stopped(),
        Err(Stopped::Failed { reason, .. }) => matches!(
            reason.code,
            ReasonCode::AgentFailed | ReasonCode::AgentExited | ReasonCode::AgentProtocol | ReasonCode::AgentRefused
        ),
        Err(Stopped::HandedBack | Stopped::LeaseLost | Stopped::MirrorDamaged(_)) => false,
    };
    if is_of_the_model { Err(Stopped::Failed { reason, retry: may_pass }) } else { turn }
}

#[cfg(test)]
mod tests {
    use journeyman_core::job::command::Ending;

    use super::*;

    fn failed(code: ReasonCode) -> Result<Turn, Stopped> {
        Err(Stopped::failed(code, "the agent's words"))
    }

    fn ended(ending: Ending) -> Result<Turn, Stopped> {
        Ok(Turn { session: "s".to_owned(), ending, answer: None })
    }

    fn code(turn: Result<Turn, Stopped>) -> Option<(ReasonCode, bool)> {
        match turn {
            Err(Stopped::Failed { reason, retry }) => Some((reason.code, retry)),
            _ => None,
        }
    }

    #[test]
    fn a_turn_whose_last_call_failed_did_not_go_well() {
        let cut = || Some(ModelFailure { reason: Reason::new(ReasonCode::ModelCut, "x"), may_pass: true });
        for turn in [ended(Ending::Done), failed(ReasonCode::AgentFailed), failed(ReasonCode::AgentExited)] {
            assert_eq!(code(judge(turn, cut())), Some((ReasonCode::ModelCut, true)));
        }
        assert!(judge(ended(Ending::Stopped), cut()).is_ok(), "it was stopped, and its call with it");
        assert_eq!(code(judge(failed(ReasonCode::TimedOut), cut())), Some((ReasonCode::TimedOut, false)));
        assert!(matches!(judge(Err(Stopped::HandedBack), cut()), Err(Stopped::HandedBack)));
        assert!(judge(ended(Ending::Done), None).is_ok());
    }
}
