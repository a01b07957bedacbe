//! One turn of an agent: start the program if it does not wait already, open its session, prompt; then keep it for a
//! follow-up, or end it with everything that it started.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use journeyman_core::agent::AgentSpec;
use journeyman_core::egress::Allowlist;
use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::{Process, Spawn};
use journeyman_core::project::PermissionPolicy;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::acp::{self, AcpError, Connection, Limits, Opened, Policy, SessionRequest, Stop, Streams, TurnEnd, Update};
use crate::egress::Egress;
use crate::executor::Assignment;
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::limits;
use crate::room::Room;
use crate::run::gone;
use crate::transcript;
use crate::worker::Host;

/// What is kept of an agent's stderr, to explain a failure.
const STDERR_BYTES: usize = 4096;

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) session: String,
    pub(crate) usage: Usage,
    /// By an interrupting message.
    pub(crate) stopped: bool,
}

/// Where a turn takes place, and what it is given.
pub(crate) struct Stage<'a> {
    pub(crate) host: &'a Host,
    pub(crate) assignment: &'a Assignment,
    pub(crate) room: &'a Room,
    pub(crate) environment: &'a BTreeMap<String, String>,
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

/// How an agent is started: a running one is used again only for the same.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    spawn: Spawn,
    policy: Policy,
    /// What it may say in a turn.
    output_bytes: u64,
    /// What it may reach.
    egress: Allowlist,
}

/// An agent that runs and has shaken hands. Dropped, it is killed.
pub(crate) struct Agent {
    start: Start,
    connection: Connection,
    updates: mpsc::Receiver<Update>,
    process: Box<dyn Process>,
    complaints: JoinHandle<String>,
    egress: Egress,
    /// The session that is open.
    session: Option<String>,
}

/// Carries out the message, with the agent that waits for it or a fresh one. After a turn that went well the agent
/// comes back, paused.
pub(crate) async fn turn(stage: &Stage<'_>, waiting: Option<Agent>) -> Result<(Turn, Option<Agent>), Stopped> {
    let spec = spec(stage)?;
    let start = start(stage, &spec);
    let (mut agent, has_waited) = match fit(waiting, &start).await {
        Some(agent) => (agent, true),
        None => (Agent::start(stage, start).await?, false),
    };
    let mut result = converse(stage, &spec, &mut agent).await;
    if has_waited
        && let Err(Stopped::Failed { reason, retry }) = &mut result
        && reason.code == ReasonCode::AgentFailed
    {
        // It may be that it has only waited too long, and lost its session: the next attempt has a fresh one.
        *retry = true;
    }
    if result.as_ref().is_ok_and(|turn| !turn.stopped) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(spec.flush_millis)) => {}
            () = stage.signals().lost.cancelled() => {}
            () = stage.signals().shutdown.cancelled() => {}
        }
    }
    if result.as_ref().is_ok_and(|turn| !turn.stopped) && stage.host.warm.has_room() {
        // It stands still: what it has done is about to be read, by git and for the archive of its home, and it must
        // not put something else in its place meanwhile.
        if agent.process.pause().await {
            return result.map(|turn| (turn, Some(agent)));
        }
    }
    let complaints = agent.end().await;
    result.map(|turn| (turn, None)).map_err(|stopped| explain(stopped, &complaints))
}

/// The agent that waits, if it can go on; else it is ended.
async fn fit(waiting: Option<Agent>, start: &Start) -> Option<Agent> {
    let mut agent = waiting?;
    if agent.start == *start && agent.lives() {
        agent.process.resume();
        return Some(agent);
    }
    agent.end().await;
    None
}

impl Agent {
    async fn start(stage: &Stage<'_>, start: Start) -> Result<Self, Stopped> {
        let mut spawned = stage.room.start(start.spawn.clone()).await?;
        let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
        let streams = Streams { stdin: Box::new(Sender::from_owned_fd(spawned.stdin)?), stdout: Box::new(stdout) };
        let egress = Egress::open(&*stage.host.gateway, spawned.listeners, start.egress.clone())?;
        let complaints = tokio::spawn(last_words(stderr, STDERR_BYTES));
        let limits = Limits { total_bytes: start.output_bytes, ..Limits::default() };
        let (sender, updates) = mpsc::channel(256);
        let connected = tokio::select! {
            () = stage.signals().lost.cancelled() => Err(Stopped::LeaseLost),
            connected = acp::connect(streams, limits, start.policy, sender) => connected.map_err(failed),
        };
        match connected {
            Ok(connection) => {
                let process = spawned.process;
                Ok(Self { start, connection, updates, process, complaints, egress, session: None })
            }
            Err(stopped) => {
                spawned.process.end().await;
                Err(explain(stopped, &heard(complaints).await))
            }
        }
    }

    /// Whether neither its process nor its streams have ended.
    fn lives(&mut self) -> bool {
        self.connection.is_open() && self.process.wait().now_or_never().is_none()
    }

    /// Ends it with everything that it started; what it complained of last.
    pub(crate) async fn end(mut self) -> String {
        drop(self.connection);
        self.process.end().await;
        heard(self.complaints).await
    }
}

async fn heard(complaints: JoinHandle<String>) -> String {
    let complaints = tokio::time::timeout(Duration::from_secs(1), complaints).await;
    complaints.ok().and_then(Result::ok).unwrap_or_default()
}

fn spec(stage: &Stage<'_>) -> Result<AgentSpec, Stopped> {
    let name = &stage.job().agent;
    stage.host.agents.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = stage.host.agents.keys().map(String::as_str).collect();
        let text = format!("no agent {name:?} is configured on this server; it has: {}", known.join(", "));
        Stopped::failed(ReasonCode::UnknownAgent, text)
    })
}

fn start(stage: &Stage<'_>, spec: &AgentSpec) -> Start {
    let layout = stage.room.layout();
    let (home, tree) = (layout.home.to_string_lossy().into_owned(), layout.workspace.to_string_lossy().into_owned());
    let fill = |text: &String| AgentSpec::fill(text, &stage.job().model, &home, &tree);
    let mut environment = stage.environment.clone();
    environment.extend(spec.environment.iter().map(|(name, value)| (name.clone(), fill(value))));
    let argv = spec.command.iter().map(fill).collect();
    let mut spawn = stage.room.spawn_with_egress(argv, environment);
    spawn.readable.extend(spec.readable.clone());
    let policy = match stage.assignment.project.settings.sandbox.permissions {
        PermissionPolicy::Allow => Policy::AllowOnce,
        PermissionPolicy::Refuse => Policy::Refuse,
    };
    let output_bytes = stage.assignment.project.settings.limits.output_bytes();
    Start { spawn, policy, output_bytes, egress: stage.room.egress.clone() }
}

/// Opens the session, prompts; what the agent says goes into the log meanwhile.
async fn converse(stage: &Stage<'_>, spec: &AgentSpec, agent: &mut Agent) -> Result<Turn, Stopped> {
    let Agent { connection, updates, session, process, egress, .. } = agent;
    let limits = &stage.assignment.project.settings.limits;
    // What came after the turn before is no news of this one.
    while updates.try_recv().is_ok() {}
    let over = CancellationToken::new();
    let reporter = &stage.assignment.reporter;
    let logged = async {
        let (said, reached) = tokio::join!(transcript::write(reporter, updates, &over), egress.tell(reporter, &over));
        said.and(reached)
    };
    let (logged, turn) = tokio::join!(logged, async {
        let turn = tokio::select! {
            () = stage.signals().lost.cancelled() => Err(Stopped::LeaseLost),
            stopped = limits::watch(&**process, &stage.room.workspace, limits) => Err(stopped),
            turn = prompt(stage, spec, connection, session) => turn,
        };
        over.cancel();
        turn
    });
    // It may have ended for what it came up against, before we looked again.
    let turn = match process.exhausted() {
        Some(exhausted) if !matches!(turn, Err(Stopped::LeaseLost | Stopped::HandedBack)) => {
            return Err(limits::reached(exhausted, Some(limits)));
        }
        _ => turn?,
    };
    logged?;
    Ok(turn)
}

async fn prompt(
    stage: &Stage<'_>,
    spec: &AgentSpec,
    connection: &Connection,
    open: &mut Option<String>,
) -> Result<Turn, Stopped> {
    let (session, opened) = match open.clone() {
        Some(session) => (session, Opened::Resumed),
        None => {
            let request = SessionRequest {
                cwd: stage.room.layout().workspace,
                previous: stage.room.workspace.session().await.or_else(|| stage.job().session.clone()),
                mode: spec.mode.clone(),
                model: spec.select_model.then(|| stage.job().model.clone()),
            };
            let (session, opened) = connection.open(&request).await.map_err(failed)?;
            stage.room.workspace.note_session(&session).await?;
            *open = Some(session.clone());
            (session, opened)
        }
    };
    let text = match opened {
        Opened::New => with_history(&stage.earlier().await?, &stage.assignment.claimed.message.prompt),
        Opened::Resumed | Opened::Loaded => stage.assignment.claimed.message.prompt.clone(),
    };
    let cancel = CancellationToken::new();
    let seconds =
        stage.assignment.project.settings.limits.run_seconds.unwrap_or(journeyman_core::project::DEFAULT_RUN_SECONDS);
    let watch = async {
        tokio::select! {
            () = stage.signals().stop.cancelled() => Ended::Interrupted,
            () = stage.signals().shutdown.cancelled() => Ended::Shutdown,
            () = tokio::time::sleep(Duration::from_secs(u64::from(seconds))) => Ended::TimedOut,
        }
    };
    let (answer, ended) = {
        let asked = connection.prompt(&session, &text, &cancel);
        tokio::pin!(asked);
        tokio::select! {
            answer = &mut asked => (answer, None),
            ended = watch => {
                cancel.cancel();
                (asked.await, Some(ended))
            }
        }
    };
    match ended {
        Some(Ended::Interrupted) => Ok(Turn { session, usage: usage(answer.ok().as_ref()), stopped: true }),
        Some(Ended::Shutdown) => Err(Stopped::HandedBack),
        Some(Ended::TimedOut) => {
            let text = format!("the run took longer than {seconds} seconds; raise limits.runSeconds of the project");
            Err(Stopped::failed(ReasonCode::TimedOut, text))
        }
        None => {
            let end = answer.map_err(failed)?;
            if end.stop == Stop::Refusal {
                return Err(Stopped::failed(ReasonCode::AgentRefused, "the model refused to go on with this message"));
            }
            Ok(Turn { session, usage: usage(Some(&end)), stopped: false })
        }
    }
}

enum Ended {
    Interrupted,
    Shutdown,
    TimedOut,
}

fn usage(end: Option<&TurnEnd>) -> Usage {
    let reported = end.and_then(|end| end.usage.as_ref());
    reported.map_or_else(Usage::default, |usage| Usage {
        input_tokens: usage.input,
        output_tokens: usage.output,
        cached_tokens: usage.cached.unwrap_or(0),
        cost_micros: None,
    })
}

/// A session that could not be resumed is told what was asked before.
fn with_history(earlier: &[Message], prompt: &str) -> String {
    if earlier.is_empty() {
        return prompt.to_owned();
    }
    let mut text =
        "You continue earlier work on this repository. These messages came before, oldest first:\n".to_owned();
    for message in earlier {
        text.push('\n');
        // Quoted, so that neither a model nor the test model takes them for what is asked now.
        for line in message.prompt.lines() {
            text.push_str("> ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push_str("\nTheir results are in the working tree. The message to carry out now:\n\n");
    text.push_str(prompt);
    text
}

fn failed(error: AcpError) -> Stopped {
    match error {
        AcpError::Exited => {
            Stopped::may_pass(ReasonCode::AgentExited, "the agent's process ended in the middle of the turn")
        }
        AcpError::Agent { message, .. } => Stopped::failed(ReasonCode::AgentFailed, message),
        AcpError::TooMuch { .. } => {
            Stopped::failed(ReasonCode::OutputLimit, format!("{error}; raise limits.outputBytes of the project"))
        }
        AcpError::Timeout { .. } | AcpError::Protocol(_) | AcpError::Version(_) => {
            Stopped::may_pass(ReasonCode::AgentProtocol, error.to_string())
        }
    }
}

/// Adds what the agent printed last, where that may tell why it died.
fn explain(stopped: Stopped, complaints: &str) -> Stopped {
    match stopped {
        Stopped::Failed { reason, retry }
            if matches!(reason.code, ReasonCode::AgentExited | ReasonCode::AgentProtocol) && !complaints.is_empty() =>
        {
            let text = format!("{}; it printed last: {complaints}", reason.text);
            Stopped::Failed { reason: Reason::new(reason.code, text), retry }
        }
        other => other,
    }
}

/// Reads stderr to its end and keeps the last of it, in bytes.
pub(crate) async fn last_words(mut stderr: Receiver, limit: usize) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(limit);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).replace('\0', "").trim().to_owned()
}
