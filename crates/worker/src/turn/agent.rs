//! The process of an agent, and its connection.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use journeyman_core::ports::Process;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::acp::{self, Connection, Limits, Streams, Update};
use crate::claim::deadline::{self, WorkLimits};
use crate::error::RunError;
use crate::sandbox::disk_limit::Disk;
use crate::sandbox::job_sandbox::StartTimeout;
use crate::sandbox::outbound::OutboundProxies;
use crate::sandbox::output::last_output;
use crate::turn::context::TurnContext;
use crate::turn::launch::{Launch, ModelEndpoint};
use crate::turn::{failure, models, transcript};

/// The bytes of an agent's stderr that are kept to explain a failure.
const STDERR_BYTES: usize = 4096;

/// A running agent that has answered `initialize`. Dropping it kills it.
pub(crate) struct Agent {
    pub(super) launch: Launch,
    pub(super) connection: Connection,
    pub(super) updates: mpsc::Receiver<Update>,
    pub(super) process: Box<dyn Process>,
    stderr: JoinHandle<String>,
    pub(super) proxies: OutboundProxies,
    /// The open session.
    pub(super) session: Option<String>,
}

impl Agent {
    pub(super) async fn start(context: &TurnContext<'_>, launch: Launch) -> Result<Self, RunError> {
        let mut spawn = launch.spawn.clone();
        let endpoint = launch.route.as_ref().map(|_| ModelEndpoint::new(context)).transpose()?;
        if let Some(endpoint) = &endpoint {
            endpoint.add_to(&mut spawn);
        }
        // Agents that start at once would slow each other down.
        let starting = context.starting.acquire();
        let permit = tokio::select! {
            () = context.signals().lost.cancelled() => return Err(RunError::LeaseLost),
            () = context.signals().shutdown.cancelled() => return Err(RunError::HandedBack),
            permit = starting => permit.ok(),
        };
        let begun = Instant::now();
        let mut spawned = context.sandbox.start(spawn, context.signals(), StartTimeout::BEFORE_TURN).await?;
        let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
        let stdin = Box::new(Sender::from_owned_fd(spawned.stdin)?);
        let streams = Streams { stdin, stdout: Box::new(stdout), tap: tap(context) };
        let mut listeners = spawned.listeners.into_iter();
        let egress = listeners.next();
        let models =
            endpoint.and_then(|endpoint| Some((endpoint.outside.or_else(|| listeners.next())?, endpoint.token)));
        let proxies = OutboundProxies::open(context.gateway, egress, launch.egress.clone(), models)?;
        open_models(&proxies, context)?;
        let stderr = tokio::spawn(last_output(stderr, STDERR_BYTES));
        // The start has its own limits, which measure progress.
        let most = WorkLimits::of_start(launch.initialize_timeout);
        let limits =
            Limits { total_bytes: launch.output_bytes, initialize_timeout: 2 * most.longest, ..Limits::default() };
        let (sender, mut updates) = mpsc::channel(256);
        let connected = tokio::select! {
            () = context.signals().lost.cancelled() => Err(RunError::LeaseLost),
            connected = acp::connect(streams, limits, launch.policy.clone(), sender) => {
                connected.map_err(|error| failure::not_started(error, "it answered initialize"))
            }
            overdue = deadline::overdue(&*spawned.process, most) => Err(failure::too_slow(overdue, most)),
        };
        drop(permit);
        if context.job().archive.is_none()
            && let Some(spec) = context.agents.get(&context.job().agent)
        {
            context.prepared.started(&context.job().agent, spec, begun.elapsed());
        }
        match connected {
            Ok(connection) => {
                let process = spawned.process;
                Ok(Self { launch, connection, updates, process, stderr, proxies, session: None })
            }
            Err(error) => {
                let exit = if failure::is_unexplained(&error) {
                    failure::exit_of(&mut *spawned.process, &error).await
                } else {
                    None
                };
                spawned.process.end().await;
                let error = failure::explain(error, exit, &collected(stderr).await);
                let dropped = transcript::dropped_lines(&mut updates);
                let error = failure::with_first_line(error, &dropped);
                transcript::write_dropped(&context.assignment.reporter, dropped).await?;
                or_disk(context, Err(error)).await
            }
        }
    }

    /// Charges the agent's model calls to this run from now on.
    pub(super) fn open_models(&self, context: &TurnContext<'_>) -> Result<(), RunError> {
        open_models(&self.proxies, context)
    }

    /// Returns whether neither the process nor its streams have ended.
    pub(super) fn lives(&mut self) -> bool {
        self.connection.is_open() && self.process.wait().now_or_never().is_none()
    }

    pub(crate) fn process(&self) -> &dyn Process {
        &*self.process
    }

    /// Ends the agent with everything that it started, and returns the end of its stderr.
    pub(crate) async fn end(mut self) -> String {
        drop(self.connection);
        self.process.end().await;
        collected(self.stderr).await
    }
}

fn open_models(proxies: &OutboundProxies, context: &TurnContext<'_>) -> Result<(), RunError> {
    let Some(proxy) = &proxies.models else { return Ok(()) };
    let project = &context.assignment.project;
    let account = models::account(project, context.job(), context.keys.clone(), proxies.log());
    proxy.open(account).map_err(|reason| RunError::Failed { reason, retry: false })
}

/// Returns the callback that gets the lines of the protocol, without secrets.
fn tap(context: &TurnContext<'_>) -> Option<acp::Tap> {
    let tap = Arc::clone(context.tap?);
    let reporter = context.assignment.reporter.clone();
    Some(Arc::new(move |sender, line: &str| match reporter.redactor() {
        Some(redactor) => tap(sender, &redactor.text(line)),
        None => tap(sender, line),
    }))
}

async fn collected(stderr: JoinHandle<String>) -> String {
    let output = tokio::time::timeout(Duration::from_secs(1), stderr).await;
    output.ok().and_then(Result::ok).unwrap_or_default()
}

/// Replaces an agent's failure with a disk failure if the agent has used up its disk limit.
pub(super) async fn or_disk<T>(context: &TurnContext<'_>, result: Result<T, RunError>) -> Result<T, RunError> {
    let disk = Disk::of(context.sandbox, &context.assignment.project.settings.limits);
    match result {
        Err(RunError::Failed { reason, retry }) => {
            let full = disk.failure("").await;
            Err(full.unwrap_or(RunError::Failed { reason, retry }))
        }
        result => result,
    }
}
