//! The conversation of a turn: prompts the agent while its updates and its outbound calls are written to the log.

use journeyman_core::agent::AgentSpec;
use journeyman_core::ports::{ModelFailure, ModelProxy, ModelUse};
use journeyman_core::run::Usage;
use tokio_util::sync::CancellationToken;

use crate::claim::lease::Reporter;
use crate::error::RunError;
use crate::sandbox::limits;
use crate::turn::agent::{Agent, or_disk};
use crate::turn::answer::Answer;
use crate::turn::context::TurnContext;
use crate::turn::prompt::prompt;
use crate::turn::result::Turn;
use crate::turn::{models, transcript};

/// Opens the session if it is not open, and prompts the agent until the turn ends.
pub(super) async fn converse(context: &TurnContext<'_>, spec: &AgentSpec, agent: &mut Agent) -> Result<Turn, RunError> {
    let Agent { launch, connection, updates, session, process, proxies, .. } = agent;
    let (proxy, log) = (proxies.models.clone(), proxies.log());
    let limits = &context.assignment.project.settings.limits;
    // What is left over from the previous turn is discarded. Lines that were no messages are told.
    let dropped = transcript::dropped_lines(updates);
    transcript::write_dropped(&context.assignment.reporter, dropped).await?;
    let over = CancellationToken::new();
    let mut answer = Answer::default();
    let reporter = &context.assignment.reporter;
    let logged = async {
        let (updates, outbound) =
            tokio::join!(transcript::write(reporter, updates, &over, &mut answer), proxies.write(reporter, &over));
        updates.and(outbound)
    };
    let (logged, (turn, used)) = tokio::join!(logged, async {
        let turn = tokio::select! {
            () = context.signals().lost.cancelled() => Err(RunError::LeaseLost),
            exceeded = limits::watch(&**process, context.sandbox, limits) => Err(exceeded),
            refused = key_refused(proxy.as_deref()) => Err(refused),
            turn = prompt(context, (spec, launch), (&*connection, &log), session) => turn,
        };
        let used = match &proxy {
            Some(proxy) => Some(proxy.close().await),
            None => None,
        };
        over.cancel();
        (turn, used)
    });
    if matches!(turn, Err(RunError::LeaseLost)) {
        proxies.write_late_calls(reporter).await;
    }
    let (turn, failure) = note_usage(reporter, turn, used);
    // The agent may have ended because of a limit before the next check.
    let turn = match process.exhausted() {
        Some(exhausted) if !matches!(turn, Err(RunError::LeaseLost | RunError::HandedBack)) => {
            return Err(limits::reached(exhausted, limits));
        }
        _ => or_disk(context, models::judge(turn, failure)).await?,
    };
    logged?;
    Ok(Turn { answer: answer.into_text(), ..turn })
}

/// Waits until the provider has refused the key; forever if the agent calls no model through the service.
async fn key_refused(proxy: Option<&dyn ModelProxy>) -> RunError {
    match proxy {
        Some(proxy) => {
            let ModelFailure { reason, may_pass } = proxy.refused().await;
            RunError::Failed { reason, retry: may_pass }
        }
        None => std::future::pending().await,
    }
}

/// Records the usage of a turn: the proxy's count, or the agent's own report if it calls its model directly. Returns
/// the turn, and the failure of its last model call.
fn note_usage(
    reporter: &Reporter,
    turn: Result<(Turn, Usage), RunError>,
    used: Option<ModelUse>,
) -> (Result<Turn, RunError>, Option<ModelFailure>) {
    let (turn, reported) = match turn {
        Ok((turn, reported)) => (Ok(turn), reported),
        Err(error) => (Err(error), Usage::default()),
    };
    let (usage, failure) = match used {
        Some(ModelUse { usage, failure }) => (usage.unwrap_or_default(), failure),
        None => (reported, None),
    };
    reporter.add_usage(usage);
    (turn, failure)
}
