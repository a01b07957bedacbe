//! A turn of an agent: starts the program unless one is idle, opens its session, and prompts it. After the turn, the
//! agent is kept for a follow-up, or ended with everything that it started.

pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod context;
mod conversation;
mod failure;
pub(crate) mod idle_agents;
mod launch;
mod models;
pub(crate) mod prepare;
mod prompt;
mod tool_spans;
pub(crate) mod transcript;

use std::time::Duration;

use journeyman_core::ports::Gateway;
use journeyman_core::run::ReasonCode;

use crate::claim::deadline;
use crate::error::RunError;
use crate::sandbox::disk_limit::is_for_the_disk;

use self::agent::Agent;
use self::context::{Turn, TurnContext};
use self::launch::Launch;

/// Carries out the message with the idle agent, if it can continue, or with a new one. After a successful turn, returns
/// the agent too, paused.
pub(crate) async fn turn(context: &TurnContext<'_>, idle: Option<Agent>) -> Result<(Turn, Option<Agent>), RunError> {
    let spec = launch::spec(context)?;
    launch::check_permissions(context, &spec)?;
    let route = models::route(context.gateway, context.job(), &spec, context.keys)?;
    launch::check_installed(context, &spec)?;
    let launch = launch::launch(context, &spec, route);
    let (mut agent, was_idle) = match reuse(idle, &launch, context.gateway).await {
        Some(agent) => {
            agent.open_models(context)?;
            (agent, true)
        }
        None => (Agent::start(context, launch).await?, false),
    };
    let mut result = conversation::converse(context, &spec, &mut agent).await;
    if let Err(RunError::Failed { reason, .. }) = &result
        && is_for_the_disk(reason.code)
    {
        // A paused agent is killed without a grace period, during which it would continue to write.
        agent.process.pause().await;
    }
    if was_idle
        && let Err(RunError::Failed { reason, retry }) = &mut result
        && reason.code == ReasonCode::AgentFailed
    {
        // The agent may have lost its session while it was idle. The next attempt starts a new one.
        *retry = true;
    }
    if result.as_ref().is_ok_and(|turn| !turn.is_stopped()) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(spec.flush_millis)) => {}
            () = context.signals().lost.cancelled() => {}
            () = context.signals().shutdown.cancelled() => {}
        }
    }
    if result.as_ref().is_ok_and(|turn| !turn.is_stopped()) && context.keeps_agents {
        // Git and the archiver are about to read what the agent has written; a paused agent cannot exchange it
        // meanwhile.
        agent.proxies.suspend();
        if agent.process.pause().await {
            return result.map(|turn| (turn, Some(agent)));
        }
    }
    let exit = match &result {
        Err(error) if failure::is_unexplained(error) => failure::exit_of(&mut *agent.process, error).await,
        _ => None,
    };
    let ended = async { Ok::<_, RunError>(agent.end().await) };
    let time = if result.is_ok() { deadline::END_OF_TURN } else { deadline::END };
    let last_output = deadline::within(time, "waiting for the killed processes of the agent to exit", ended).await?;
    result.map(|turn| (turn, None)).map_err(|error| failure::explain(error, exit, &last_output))
}

/// Returns the idle agent if it runs as the launch wants it to and can continue; otherwise ends it.
async fn reuse(idle: Option<Agent>, launch: &Launch, gateway: &dyn Gateway) -> Option<Agent> {
    let mut agent = idle?;
    if agent.launch == *launch && agent.lives() && agent.proxies.resume(gateway).is_ok() && agent.process.resume().await
    {
        return Some(agent);
    }
    agent.end().await;
    None
}
