//! A turn of an agent: starts the program unless one is idle, opens its session, and prompts it. After the turn, the
//! agent is kept for a follow-up, or ended with everything that it started.

pub(crate) mod agent;
pub(crate) mod answer;
pub(crate) mod context;
mod conversation;
mod failure;
mod files;
pub(crate) mod idle_agents;
mod launch;
mod models;
pub(crate) mod prepare;
mod prompt;
pub(crate) mod result;
mod tool_spans;
pub(crate) mod transcript;

use std::time::Duration;

use journeyman_core::ports::Gateway;
use journeyman_core::run::ReasonCode;

use crate::claim::deadline;
use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::disk_limit::is_for_the_disk;

use self::agent::Agent;
use self::context::TurnContext;
use self::launch::Launch;
use self::result::Turn;

/// Carries out the message with the idle agent, if it can continue, or with a new one. Returns the agent too, which the
/// caller stops ([`stop`]). An agent whose turn failed was ended.
pub(crate) async fn turn(context: &TurnContext<'_>, idle: Option<Agent>) -> Result<(Turn, Agent), RunError> {
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
    match result {
        Ok(turn) => {
            // What the agent still does cannot be charged to the turn, and reaches nothing.
            agent.proxies.suspend();
            Ok((turn, agent))
        }
        Err(error) => {
            let exit = match failure::is_unexplained(&error) {
                true => failure::exit_of(&mut *agent.process, &error).await,
                false => None,
            };
            let ended = async { Ok::<_, RunError>(agent.end().await) };
            let waited = "waiting for the killed processes of the agent to exit";
            let last_output = deadline::within(deadline::END, waited, ended).await?;
            Err(failure::explain(error, exit, &last_output))
        }
    }
}

/// Stops an agent after its turn: pauses it for a follow-up and returns it, or ends it with everything that it started.
/// Git and the archiver are about to read what the agent has written, which it cannot change after this.
///
/// # Errors
/// The killed processes do not exit, for example because a container engine does not answer; or the lease was lost.
pub(crate) async fn stop(mut agent: Agent, keep: bool, signals: &Signals) -> Result<Option<Agent>, RunError> {
    let stopped = async {
        if keep && agent.process.pause().await {
            return Some(agent);
        }
        agent.end().await;
        None
    };
    in_time(stopped, signals).await
}

/// Waits for the end of an agent, as long as the run may.
async fn in_time<T>(stopped: impl Future<Output = T>, signals: &Signals) -> Result<T, RunError> {
    tokio::select! {
        () = signals.lost.cancelled() => Err(RunError::LeaseLost),
        stopped = tokio::time::timeout(deadline::END_OF_TURN, stopped) => stopped.map_err(|_| {
            let seconds = deadline::END_OF_TURN.as_secs();
            let text = format!("the processes of the agent did not end within {seconds} seconds after its turn");
            RunError::may_pass(ReasonCode::SandboxUnavailable, text)
        }),
    }
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

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_does_not_end_makes_the_message_wait() {
        let [stop, lost, shutdown] = std::array::from_fn(|_| CancellationToken::new());
        let signals = Signals { stop, lost, shutdown };
        let endless = || std::future::pending::<()>();
        let Err(RunError::Failed { reason, retry }) = in_time(endless(), &signals).await else { panic!("no end") };
        assert!(retry && reason.code == ReasonCode::SandboxUnavailable, "{}", reason.text);
        signals.lost.cancel();
        assert!(matches!(in_time(endless(), &signals).await, Err(RunError::LeaseLost)));
    }
}
