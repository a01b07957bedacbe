//! Models in a turn: the route to the model, the account that is charged, and the effect of a failed call on the turn.

use std::collections::BTreeMap;

use journeyman_core::agent::{AgentSpec, MODEL_TOKEN, MODEL_URL, PlaceholderValues};
use journeyman_core::job::Job;
use journeyman_core::model::{Effort, TEST};
use journeyman_core::ports::{Gateway, ModelAccount, ModelFailure, ModelRoute};
use journeyman_core::project::Project;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::secret::SecretValue;

use crate::error::RunError;
use crate::sandbox::outbound::{OutboundEvent, OutboundLog};
use crate::turn::result::Turn;

/// Returns the route to the job's model; `None` if the agent calls none through the proxy.
///
/// # Errors
/// The model is not configured, or the agent does not speak its dialect.
pub(crate) fn route(
    gateway: &dyn Gateway,
    job: &Job,
    spec: &AgentSpec,
    keys: &BTreeMap<String, SecretValue>,
) -> Result<Option<ModelRoute>, RunError> {
    if !spec.calls_models() {
        return Ok(None);
    }
    let failed = |reason: Reason| RunError::Failed { reason, retry: false };
    let route = gateway.route(&job.model, keys).map_err(failed)?;
    let spoken = route.as_ref().map_or(TEST, |route| route.dialect.name());
    let knows = spec.dialects.is_empty() || route.as_ref().is_some_and(|route| spec.dialects.contains(&route.dialect));
    if knows {
        return Ok(route);
    }
    let own: Vec<&str> = spec.dialects.iter().map(|dialect| dialect.name()).collect();
    let text = format!(
        "The agent {} speaks {} with its model, but the model {} is served as {spoken}. Choose another agent or another model",
        job.agent,
        own.join(", "),
        job.model
    );
    Err(failed(Reason::new(ReasonCode::ModelNotConfigured, text)))
}

/// Returns the effort of a job: its own, or else that of its agent.
pub(crate) fn effort(job: &Job, spec: &AgentSpec) -> Option<Effort> {
    job.effort.or(spec.effort)
}

/// Returns the values of the placeholders in an agent's description.
pub(crate) fn placeholder_values(
    (job, spec): (&Job, &AgentSpec),
    route: Option<&ModelRoute>,
    (home, workspace): (String, String),
    (refuses, model_calls): (bool, u32),
) -> PlaceholderValues {
    let model = job.model.clone();
    let dialect = route.map(|route| route.dialect.name()).or_else(|| model.split_once('/').map(|(prefix, _)| prefix));
    let (dialect, model_name) = (dialect.unwrap_or_default().to_owned(), name(job, route));
    let permission = if refuses { "ask" } else { "allow" };
    let context_tokens = route.and_then(|route| route.context_tokens).unwrap_or(0).to_string();
    let model_calls = model_calls.to_string();
    let effort = effort(job, spec);
    PlaceholderValues { model, dialect, model_name, home, workspace, permission, model_calls, context_tokens, effort }
}

/// Returns the agent's name for the job's model: the provider's name, or, if the agent does not use the proxy (the test
/// model included), the part after the slash.
pub(crate) fn name(job: &Job, route: Option<&ModelRoute>) -> String {
    let own = || job.model.split_once('/').map_or(job.model.as_str(), |(_, name)| name);
    route.map_or_else(own, |route| route.name.as_str()).to_owned()
}

/// Returns whether a text contains a placeholder of the model endpoint.
pub(crate) fn needs_endpoint(text: &str) -> bool {
    text.contains(MODEL_URL) || text.contains(MODEL_TOKEN)
}

/// Fills in the address and the token of the model endpoint.
pub(crate) fn with_endpoint(text: &str, url: &str, token: &str) -> String {
    text.replace(MODEL_URL, url).replace(MODEL_TOKEN, token)
}

/// Returns the account that a turn's model calls are charged to.
pub(crate) fn account(
    project: &Project,
    job: &Job,
    keys: BTreeMap<String, SecretValue>,
    log: OutboundLog,
) -> ModelAccount {
    ModelAccount {
        project: project.id.clone(),
        job: job.id,
        model: job.model.clone(),
        keys,
        budgets: project.settings.limits.budget,
        log: Box::new(move |call| log.add(OutboundEvent::Model(call))),
    }
}

/// Returns the result of a turn whose last model call may have failed. Agents report such a failure in different ways,
/// and some report success.
pub(crate) fn judge(turn: Result<Turn, RunError>, failure: Option<ModelFailure>) -> Result<Turn, RunError> {
    let Some(ModelFailure { reason, may_pass }) = failure else { return turn };
    let is_of_the_model = match &turn {
        Ok(turn) => !turn.is_stopped(),
        Err(RunError::Failed { reason, .. }) => matches!(
            reason.code,
            ReasonCode::AgentFailed | ReasonCode::AgentExited | ReasonCode::AgentProtocol | ReasonCode::AgentRefused
        ),
        Err(RunError::HandedBack | RunError::LeaseLost | RunError::MirrorDamaged(_)) => false,
    };
    if is_of_the_model { Err(RunError::Failed { reason, retry: may_pass }) } else { turn }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::JobId;
    use journeyman_core::job::Source;
    use journeyman_core::job::turn::Ending;
    use journeyman_core::time::Timestamp;

    use super::*;

    fn failed(code: ReasonCode) -> Result<Turn, RunError> {
        Err(RunError::failed(code, "the agent's message"))
    }

    fn ended(ending: Ending) -> Result<Turn, RunError> {
        Ok(Turn { session: "s".to_owned(), ending, answer: None })
    }

    fn code(turn: Result<Turn, RunError>) -> Option<(ReasonCode, bool)> {
        match turn {
            Err(RunError::Failed { reason, retry }) => Some((reason.code, retry)),
            _ => None,
        }
    }

    #[test]
    fn the_effort_is_that_of_the_job_or_else_of_the_agent() {
        let source = Source { repository: "local:shop".to_owned(), reference: "HEAD".to_owned() };
        let id = JobId::from_uuid(uuid::Uuid::from_u128(1));
        let mut job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
        let mut spec: AgentSpec = serde_json::from_str(r#"{"command": ["x", "{effort}"]}"#).unwrap();
        let effort_of = |job: &Job, spec: &AgentSpec| {
            placeholder_values((job, spec), None, (String::new(), String::new()), (false, 1)).fill("{effort}")
        };
        assert_eq!(effort_of(&job, &spec), None);
        spec.effort = Some(Effort::Low);
        assert_eq!(effort_of(&job, &spec).as_deref(), Some("low"));
        job.effort = Some(Effort::XHigh);
        assert_eq!(effort_of(&job, &spec).as_deref(), Some("xhigh"));
    }

    #[test]
    fn a_turn_whose_last_call_failed_is_a_failure() {
        let cut = || Some(ModelFailure { reason: Reason::new(ReasonCode::ModelCut, "x"), may_pass: true });
        for turn in [ended(Ending::Done), failed(ReasonCode::AgentFailed), failed(ReasonCode::AgentExited)] {
            assert_eq!(code(judge(turn, cut())), Some((ReasonCode::ModelCut, true)));
        }
        assert!(judge(ended(Ending::Stopped), cut()).is_ok(), "the turn and its call were stopped");
        assert_eq!(code(judge(failed(ReasonCode::TimedOut), cut())), Some((ReasonCode::TimedOut, false)));
        assert!(matches!(judge(Err(RunError::HandedBack), cut()), Err(RunError::HandedBack)));
        assert!(judge(ended(Ending::Done), None).is_ok());
    }
}
