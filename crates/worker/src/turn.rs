//! One turn of an agent: start the program if it does not wait already, open its session, prompt; then keep it for a
//! follow-up, or end it with everything that it started.

mod prompt;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use journeyman_core::agent::AgentSpec;
use journeyman_core::job::Job;
use journeyman_core::job::command::Ending;
use journeyman_core::message::Message;
use journeyman_core::ports::{Exit, Gateway, ModelDoor, ModelFailure, ModelUse, Process};
use journeyman_core::project::SecretValue;
use journeyman_core::run::{ReasonCode, Usage};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::acp::{self, AcpError, Connection, Limits, Streams, Update};
use crate::answer::Answer;
use crate::discard::is_for_the_disk;
use crate::disk_limit::Disk;
use crate::executor::Assignment;
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::redaction::whole_lines;
use crate::room::{Patience, Room};
use crate::run::gone;
use crate::ways::Ways;
use crate::worker::Host;
use crate::{limits, models, phase, transcript};

use self::prompt::prompt;
use self::start::{Door, Start, check_permissions, is_installed, spec, start};

/// The time that a process may take to exit after its streams have ended.
const EXIT_TIME: Duration = Duration::from_millis(500);

/// What is kept of an agent's stderr, to explain a failure.
const STDERR_BYTES: usize = 4096;

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) session: String,
    /// How it ended.
    pub(crate) ending: Ending,
    /// The final text that the agent said, without secrets.
    pub(crate) answer: Option<String>,
}

impl Turn {
    /// Returns whether an interrupting message stopped the turn.
    pub(crate) fn is_stopped(&self) -> bool {
        self.ending == Ending::Stopped
    }
}

/// Where a turn takes place, and what it is given.
pub(crate) struct Stage<'a> {
    pub(crate) host: &'a Host,
    pub(crate) assignment: &'a Assignment,
    pub(crate) room: &'a Room,
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// The keys that the project has for models.
    pub(crate) keys: &'a BTreeMap<String, SecretValue>,
}

impl Stage<'_> {
    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    const fn signals(&self) -> &Signals {
        &self.assignment.signals
    }

    /// Messages that were delivered before this one.
    async fn earlier(&self) -> Result<Vec<Message>, Stopped> {
        let mut messages = self.host.store.messages(self.job().id).await.map_err(gone)?;
        messages.retain(|message| message.delivered_at.is_some() && message.id != self.assignment.claimed.message.id);
        Ok(messages)
    }
}

/// An agent that runs and has shaken hands. Dropped, it is killed.
pub(crate) struct Agent {
    start: Start,
    connection: Connection,
    updates: mpsc::Receiver<Update>,
    process: Box<dyn Process>,
    complaints: JoinHandle<String>,
    ways: Ways,
    /// The session that is open.
    session: Option<String>,
}

/// Carries out the message, with the agent that waits for it or a fresh one. After a turn that went well the agent
/// comes back, paused.
pub(crate) async fn turn(stage: &Stage<'_>, waiting: Option<Agent>) -> Result<(Turn, Option<Agent>), Stopped> {
    let spec = spec(stage)?;
    check_permissions(stage, &spec)?;
    let route = models::route(&*stage.host.gateway, stage.job(), &spec, stage.keys)?;
    is_installed(stage, &spec)?;
    let start = start(stage, &spec, route);
    let (mut agent, has_waited) = match fit(waiting, &start, &*stage.host.gateway).await {
        Some(agent) => {
            agent.open_models(stage)?;
            (agent, true)
        }
        None => (Agent::start(stage, start).await?, false),
    };
    let mut result = converse(stage, &spec, &mut agent).await;
    if let Err(Stopped::Failed { reason, .. }) = &result
        && is_for_the_disk(reason.code)
    {
        // A paused agent is killed without a grace period, during which it would continue to write.
        agent.process.pause().await;
    }
    if has_waited
        && let Err(Stopped::Failed { reason, retry }) = &mut result
        && reason.code == ReasonCode::AgentFailed
    {
        // It may be that it has only waited too long, and lost its session: the next attempt has a fresh one.
        *retry = true;
    }
    if result.as_ref().is_ok_and(|turn| !turn.is_stopped()) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(spec.flush_millis)) => {}
            () = stage.signals().lost.cancelled() => {}
            () = stage.signals().shutdown.cancelled() => {}
        }
    }
    if result.as_ref().is_ok_and(|turn| !turn.is_stopped()) && stage.host.warm.has_room() {
        // It stands still: what it has done is about to be read, by git and for the archive of its home, and it must
        // not put something else in its place meanwhile.
        agent.ways.suspend();
        if agent.process.pause().await {
            return result.map(|turn| (turn, Some(agent)));
        }
    }
    let exit = match &result {
        Err(stopped) if is_unexplained(stopped) => exit_of(&mut *agent.process).await,
        _ => None,
    };
    let ended = async { Ok::<_, Stopped>(agent.end().await) };
    let complaints = phase::within(phase::END, "waiting for the killed processes of the agent to exit", ended).await?;
    result.map(|turn| (turn, None)).map_err(|stopped| explain(stopped, exit, &complaints))
}

/// The agent that waits, if it can go on; else it is ended.
async fn fit(waiting: Option<Agent>, start: &Start, gateway: &dyn Gateway) -> Option<Agent> {
    let mut agent = waiting?;
    if agent.start == *start && agent.lives() && agent.ways.resume(gateway).is_ok() && agent.process.resume().await {
        return Some(agent);
    }
    agent.end().await;
    None
}

impl Agent {
    async fn start(stage: &Stage<'_>, start: Start) -> Result<Self, Stopped> {
        let mut spawn = start.spawn.clone();
        let door = start.route.as_ref().map(|_| Door::new(stage)).transpose()?;
        if let Some(door) = &door {
            door.put_into(&mut spawn);
        }
        let mut spawned = stage.room.start(spawn, stage.signals(), Patience::BEFORE_TURN).await?;
        let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
        let stdin = Box::new(Sender::from_owned_fd(spawned.stdin)?);
        let streams = Streams { stdin, stdout: Box::new(stdout), tap: tap(stage) };
        let mut listeners = spawned.listeners.into_iter();
        let egress = listeners.next();
        let models = door.and_then(|door| Some((door.outside.or_else(|| listeners.next())?, door.token)));
        let ways = Ways::open(&*stage.host.gateway, egress, start.egress.clone(), models)?;
        open_models(&ways, stage)?;
        let complaints = tokio::spawn(last_words(stderr, STDERR_BYTES));
        let limits = Limits {
            total_bytes: start.output_bytes,
            initialize_timeout: start.initialize_timeout,
            ..Limits::default()
        };
        let (sender, updates) = mpsc::channel(256);
        let connected = tokio::select! {
            () = stage.signals().lost.cancelled() => Err(Stopped::LeaseLost),
            connected = acp::connect(streams, limits, start.policy.clone(), sender) => {
                connected.map_err(not_initialized)
            }
        };
        match connected {
            Ok(connection) => {
                let process = spawned.process;
                Ok(Self { start, connection, updates, process, complaints, ways, session: None })
            }
            Err(stopped) => {
                let exit = if is_unexplained(&stopped) { exit_of(&mut *spawned.process).await } else { None };
                spawned.process.end().await;
                or_disk(stage, Err(explain(stopped, exit, &heard(complaints).await))).await
            }
        }
    }

    /// From here on its calls of models are this run's.
    fn open_models(&self, stage: &Stage<'_>) -> Result<(), Stopped> {
        open_models(&self.ways, stage)
    }

    /// Whether neither its process nor its streams have ended.
    fn lives(&mut self) -> bool {
        self.connection.is_open() && self.process.wait().now_or_never().is_none()
    }

    pub(crate) fn process(&self) -> &dyn Process {
        &*self.process
    }

    /// Ends it with everything that it started; what it complained of last.
    pub(crate) async fn end(mut self) -> String {
        drop(self.connection);
        self.process.end().await;
        heard(self.complaints).await
    }
}

fn open_models(ways: &Ways, stage: &Stage<'_>) -> Result<(), Stopped> {
    let Some(door) = &ways.models else { return Ok(()) };
    let project = &stage.assignment.project;
    let account = models::account(project, stage.job(), stage.keys.clone(), ways.teller());
    door.open(account).map_err(|reason| Stopped::Failed { reason, retry: false })
}

/// Returns the callback that gets the lines of the protocol, without secrets.
fn tap(stage: &Stage<'_>) -> Option<acp::Tap> {
    let tap = Arc::clone(stage.host.tap.get()?);
    let reporter = stage.assignment.reporter.clone();
    Some(Arc::new(move |sender, line: &str| match reporter.redactor() {
        Some(redactor) => tap(sender, &redactor.text(line)),
        None => tap(sender, line),
    }))
}

async fn heard(complaints: JoinHandle<String>) -> String {
    let complaints = tokio::time::timeout(Duration::from_secs(1), complaints).await;
    complaints.ok().and_then(Result::ok).unwrap_or_default()
}

/// Opens the session, prompts; what the agent says goes into the log meanwhile.
async fn converse(stage: &Stage<'_>, spec: &AgentSpec, agent: &mut Agent) -> Result<Turn, Stopped> {
    let Agent { start, connection, updates, session, process, ways, .. } = agent;
    let (door, teller) = (ways.models.clone(), ways.teller());
    let limits = &stage.assignment.project.settings.limits;
    // What came after the turn before is no news of this one.
    while updates.try_recv().is_ok() {}
    let over = CancellationToken::new();
    let mut answer = Answer::default();
    let reporter = &stage.assignment.reporter;
    let logged = async {
        let (said, reached) =
            tokio::join!(transcript::write(reporter, updates, &over, &mut answer), ways.tell(reporter, &over));
        said.and(reached)
    };
    let (logged, (turn, used)) = tokio::join!(logged, async {
        let turn = tokio::select! {
            () = stage.signals().lost.cancelled() => Err(Stopped::LeaseLost),
            stopped = limits::watch(&**process, stage.room, limits) => Err(stopped),
            refused = refused(door.as_deref()) => Err(refused),
            turn = prompt(stage, (spec, start), (&*connection, &teller), session) => turn,
        };
        let used = match &door {
            Some(door) => Some(door.close().await),
            None => None,
        };
        over.cancel();
        (turn, used)
    });
    if matches!(turn, Err(Stopped::LeaseLost)) {
        ways.tell_late_calls(reporter).await;
    }
    let (turn, failure) = counted(reporter, turn, used);
    // It may have ended for what it came up against, before we looked again.
    let turn = match process.exhausted() {
        Some(exhausted) if !matches!(turn, Err(Stopped::LeaseLost | Stopped::HandedBack)) => {
            return Err(limits::reached(exhausted, limits));
        }
        _ => or_disk(stage, models::judge(turn, failure)).await?,
    };
    logged?;
    Ok(Turn { answer: answer.into_text(), ..turn })
}

/// Waits until the provider has refused the key; forever if the agent calls no model through the service.
async fn refused(door: Option<&dyn ModelDoor>) -> Stopped {
    match door {
        Some(door) => {
            let ModelFailure { reason, may_pass } = door.refused().await;
            Stopped::Failed { reason, retry: may_pass }
        }
        None => std::future::pending().await,
    }
}

/// Replaces an agent's failure with a disk failure if the agent has used up its disk limit.
async fn or_disk<T>(stage: &Stage<'_>, result: Result<T, Stopped>) -> Result<T, Stopped> {
    let disk = Disk::of(stage.room, &stage.assignment.project.settings.limits);
    match result {
        Err(Stopped::Failed { reason, retry }) => {
            let full = disk.failure("").await;
            Err(full.unwrap_or(Stopped::Failed { reason, retry }))
        }
        result => result,
    }
}

/// Notes what a turn has used: what we have counted, or where the agent calls its model by itself what it says.
fn counted(
    reporter: &Reporter,
    turn: Result<(Turn, Usage), Stopped>,
    used: Option<ModelUse>,
) -> (Result<Turn, Stopped>, Option<ModelFailure>) {
    let (turn, says) = match turn {
        Ok((turn, says)) => (Ok(turn), says),
        Err(stopped) => (Err(stopped), Usage::default()),
    };
    let (usage, failure) = match used {
        Some(ModelUse { usage, failure }) => (usage.unwrap_or_default(), failure),
        None => (says, None),
    };
    reporter.note_usage(usage);
    (turn, failure)
}

/// The failure of a start, which another attempt would not change. `what` is what the agent did not do.
fn not_started(error: AcpError, what: &str) -> Stopped {
    match error {
        AcpError::Exited => {
            Stopped::failed(ReasonCode::AgentExited, format!("the agent's process ended before {what}"))
        }
        error => failed(error),
    }
}

/// The failure of a handshake.
fn not_initialized(error: AcpError) -> Stopped {
    match error {
        AcpError::Timeout { .. } => {
            let text =
                format!("{error}; a slower agent needs a larger initialize-seconds in its table (docs/agents.md)");
            Stopped::failed(ReasonCode::AgentProtocol, text)
        }
        error => not_started(error, "it answered initialize"),
    }
}

/// The failure of a turn.
fn failed(error: AcpError) -> Stopped {
    match error {
        AcpError::Exited => {
            Stopped::may_pass(ReasonCode::AgentExited, "the agent's process ended in the middle of the turn")
        }
        AcpError::Agent { message, .. } => Stopped::failed(ReasonCode::AgentFailed, message),
        AcpError::TooMuch { .. } => {
            Stopped::failed(ReasonCode::OutputLimit, format!("{error}; raise limits.outputBytes of the project"))
        }
        AcpError::Timeout { .. } => Stopped::may_pass(ReasonCode::AgentProtocol, error.to_string()),
        AcpError::Protocol(_) | AcpError::Version(_) => Stopped::failed(ReasonCode::AgentProtocol, error.to_string()),
    }
}

/// Returns how a process ended by itself; `None` if it runs. Its streams may have ended a moment before.
async fn exit_of(process: &mut dyn Process) -> Option<Exit> {
    tokio::time::timeout(EXIT_TIME, process.wait()).await.ok()
}

/// Returns whether the agent's exit status and its last output may explain the failure.
fn is_unexplained(stopped: &Stopped) -> bool {
    let Stopped::Failed { reason, .. } = stopped else { return false };
    matches!(reason.code, ReasonCode::AgentExited | ReasonCode::AgentProtocol)
}

/// Adds the exit status of an agent that ended by itself, and what it printed last: they may tell why.
fn explain(mut stopped: Stopped, exit: Option<Exit>, complaints: &str) -> Stopped {
    if is_unexplained(&stopped)
        && let Stopped::Failed { reason, .. } = &mut stopped
    {
        if let Some(exit) = exit {
            reason.text.push_str(&format!(" ({exit})"));
        }
        if !complaints.is_empty() {
            reason.text.push_str(&format!("; it printed last: {complaints}"));
        }
    }
    stopped
}

/// Reads stderr to its end and keeps the last of it, in bytes.
pub(crate) async fn last_words(mut stderr: Receiver, limit: usize) -> String {
    let (mut kept, mut cut, mut piece) = (Vec::new(), false, [0; 4096]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(limit);
        kept.drain(..excess);
        cut |= excess > 0;
    }
    let text = String::from_utf8_lossy(&kept).replace('\0', "");
    if cut { whole_lines(&text) } else { &text }.trim().to_owned()
}
