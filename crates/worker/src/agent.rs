//! One turn of an agent: start the program if it does not wait already, open its session, prompt; then keep it for a
//! follow-up, or end it with everything that it started.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::FutureExt;
use journeyman_core::agent::{AgentSpec, Places};
use journeyman_core::egress::Allowlist;
use journeyman_core::job::Job;
use journeyman_core::job::command::Report;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::message::Message;
use journeyman_core::ports::{ModelFailure, ModelRoute, ModelUse, Process, Spawn};
use journeyman_core::project::{PermissionPolicy, SecretValue};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::acp::{
    self, About, AcpError, Connection, Limits, Opened, Policy, SessionRequest, Stop, Streams, TurnEnd, Update,
};
use crate::executor::Assignment;
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::room::Room;
use crate::run::gone;
use crate::ways::{self, Ways};
use crate::worker::Host;
use crate::{limits, models, transcript};

/// What is kept of an agent's stderr, to explain a failure.
const STDERR_BYTES: usize = 4096;

/// A turn that has ended.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) session: String,
    /// By an interrupting message.
    pub(crate) stopped: bool,
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

/// How an agent is started: a running one is used again only for the same.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    spawn: Spawn,
    policy: Policy,
    /// What it may say in a turn.
    output_bytes: u64,
    /// What it may reach.
    egress: Allowlist,
    /// Its model, if it calls one through us.
    route: Option<ModelRoute>,
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
    let route = models::route(&*stage.host.gateway, stage.job(), &spec, stage.keys)?;
    is_installed(stage, &spec)?;
    let start = start(stage, &spec, route);
    let (mut agent, has_waited) = match fit(waiting, &start).await {
        Some(agent) => {
            agent.open_models(stage)?;
            (agent, true)
        }
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
        let mut spawn = start.spawn.clone();
        let door = start.route.as_ref().map(|_| Door::new(stage)).transpose()?;
        if let Some(door) = &door {
            door.put_into(&mut spawn);
        }
        let mut spawned = stage.room.start(spawn).await?;
        let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
        let streams = Streams { stdin: Box::new(Sender::from_owned_fd(spawned.stdin)?), stdout: Box::new(stdout) };
        let mut listeners = spawned.listeners.into_iter();
        let egress = listeners.next();
        let models = door.and_then(|door| Some((door.outside.or_else(|| listeners.next())?, door.token)));
        let ways = Ways::open(&*stage.host.gateway, egress, start.egress.clone(), models)?;
        open_models(&ways, stage)?;
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
                Ok(Self { start, connection, updates, process, complaints, ways, session: None })
            }
            Err(stopped) => {
                spawned.process.end().await;
                Err(explain(stopped, &heard(complaints).await))
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

/// Where an agent calls models, and what it shows there. One agent has one of its own.
struct Door {
    url: String,
    token: String,
    /// Where the sandbox has no network of its own.
    outside: Option<OwnedFd>,
}

impl Door {
    fn new(stage: &Stage<'_>) -> Result<Self, Stopped> {
        let mut bytes = [0; 32];
        stage.host.ids.fill(&mut bytes);
        let token = bytes.iter().fold("jmt_".to_owned(), |token, byte| format!("{token}{byte:02x}"));
        let (outside, port) = if stage.room.has_own_network() {
            (None, ways::MODEL_PORT)
        } else {
            let (listener, port) = ways::listen_on_loopback()?;
            (Some(listener), port)
        };
        Ok(Self { url: format!("http://127.0.0.1:{port}"), token, outside })
    }

    /// Tells a program of it. The token is nothing for its arguments, which others may see.
    fn put_into(&self, spawn: &mut Spawn) {
        if self.outside.is_none() {
            spawn.listen.push(ways::MODEL_PORT);
        }
        for value in spawn.environment.values_mut() {
            *value = models::with_door(value, &self.url, &self.token);
        }
        for value in &mut spawn.argv {
            *value = models::with_door(value, &self.url, "");
        }
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

/// An agent that is to be installed first is not looked for in vain.
fn is_installed(stage: &Stage<'_>, spec: &AgentSpec) -> Result<(), Stopped> {
    let program = spec.command.first().map(Path::new).filter(|program| program.is_absolute());
    if spec.install.is_none() || program.is_none_or(Path::exists) {
        return Ok(());
    }
    let id = &stage.job().agent;
    let text =
        format!("the agent {id} is not installed on the worker's machine; run there: journeyman agent install {id}");
    Err(Stopped::failed(ReasonCode::AgentNotStarted, text))
}

fn start(stage: &Stage<'_>, spec: &AgentSpec, route: Option<ModelRoute>) -> Start {
    let layout = stage.room.layout();
    let (home, tree) = (layout.home.to_string_lossy().into_owned(), layout.workspace.to_string_lossy().into_owned());
    let places = models::places(stage.job(), route.as_ref(), home, tree);
    let mut environment = stage.environment.clone();
    let own = spec.environment.iter().filter(|(_, value)| route.is_some() || !models::needs_door(value));
    environment.extend(own.map(|(name, value)| (name.clone(), places.fill(value))));
    let argv = spec.command.iter().map(|word| places.fill(word)).collect();
    let argv = with_files(argv, &mut environment, spec, &places, route.is_some());
    let mut spawn = stage.room.spawn_with_egress(argv, environment);
    spawn.readable.extend(spec.readable.clone());
    let policy = match stage.assignment.project.settings.sandbox.permissions {
        PermissionPolicy::Allow => Policy::AllowOnce,
        PermissionPolicy::Refuse => Policy::Refuse,
    };
    let output_bytes = stage.assignment.project.settings.limits.output_bytes();
    Start { spawn, policy, output_bytes, egress: stage.room.egress.clone(), route }
}

/// Writes its files before the program starts, and inside of its sandbox: its home is its own, with links to anywhere.
fn with_files(
    argv: Vec<String>,
    environment: &mut BTreeMap<String, String>,
    spec: &AgentSpec,
    places: &Places,
    has_door: bool,
) -> Vec<String> {
    let files: Vec<_> = spec.files.iter().filter(|(_, text)| has_door || !models::needs_door(text)).collect();
    if files.is_empty() {
        return argv;
    }
    let mut script = String::new();
    for (number, (path, text)) in files.into_iter().enumerate() {
        let name = format!("JOURNEYMAN_FILE_{number}");
        environment.insert(format!("{name}_PATH"), format!("{}/{path}", places.home));
        environment.insert(name.clone(), places.fill(text));
        script.push_str(&format!(
            "mkdir -p \"$(dirname \"${name}_PATH\")\" && printf %s \"${name}\" > \"${name}_PATH\" || exit 1\n\
             unset {name} {name}_PATH\n"
        ));
    }
    script.push_str("exec \"$@\"");
    ["/bin/sh", "-c", &script, "sh"].map(str::to_owned).into_iter().chain(argv).collect()
}

/// Opens the session, prompts; what the agent says goes into the log meanwhile.
async fn converse(stage: &Stage<'_>, spec: &AgentSpec, agent: &mut Agent) -> Result<Turn, Stopped> {
    let Agent { connection, updates, session, process, ways, .. } = agent;
    let door = ways.models.clone();
    let limits = &stage.assignment.project.settings.limits;
    // What came after the turn before is no news of this one.
    while updates.try_recv().is_ok() {}
    let over = CancellationToken::new();
    let reporter = &stage.assignment.reporter;
    let logged = async {
        let (said, reached) = tokio::join!(transcript::write(reporter, updates, &over), ways.tell(reporter, &over));
        said.and(reached)
    };
    let (logged, (turn, used)) = tokio::join!(logged, async {
        let turn = tokio::select! {
            () = stage.signals().lost.cancelled() => Err(Stopped::LeaseLost),
            stopped = limits::watch(&**process, &stage.room.workspace, limits) => Err(stopped),
            turn = prompt(stage, spec, connection, session) => turn,
        };
        let used = match &door {
            Some(door) => Some(door.close().await),
            None => None,
        };
        over.cancel();
        (turn, used)
    });
    let (turn, failure) = counted(reporter, turn, used);
    // It may have ended for what it came up against, before we looked again.
    let turn = match process.exhausted() {
        Some(exhausted) if !matches!(turn, Err(Stopped::LeaseLost | Stopped::HandedBack)) => {
            return Err(limits::reached(exhausted, Some(limits)));
        }
        _ => models::judge(turn, failure)?,
    };
    logged?;
    Ok(turn)
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

async fn prompt(
    stage: &Stage<'_>,
    spec: &AgentSpec,
    connection: &Connection,
    open: &mut Option<String>,
) -> Result<(Turn, Usage), Stopped> {
    let (session, opened) = match open.clone() {
        Some(session) => (session, Opened::Resumed),
        None => {
            let request = SessionRequest {
                cwd: stage.room.layout().workspace,
                previous: if spec.resume { previous(stage).await } else { None },
                mode: spec.mode.clone(),
                model: spec.select_model.then(|| stage.job().model.clone()),
            };
            let begun = Instant::now();
            let (session, opened) = connection.open(&request).await.map_err(failed)?;
            tell_of_session(stage, connection, opened, begun.elapsed()).await?;
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
        Some(Ended::Interrupted) => Ok((Turn { session, stopped: true }, usage(answer.ok().as_ref()))),
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
            Ok((Turn { session, stopped: false }, usage(Some(&end))))
        }
    }
}

/// What is started, and whether it remembers.
async fn tell_of_session(
    stage: &Stage<'_>,
    connection: &Connection,
    opened: Opened,
    took: Duration,
) -> Result<(), Stopped> {
    let About { who, resumes, loads } = connection.about();
    let how = match opened {
        Opened::Resumed => "resumed",
        Opened::Loaded => "loaded",
        Opened::New => "new",
    };
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let data = json!({ "agent": who, "opened": how, "resumes": resumes, "loads": loads, "millis": millis });
    let reporter = &stage.assignment.reporter;
    let entry = TranscriptEntry { kind: TranscriptKind::Session, data, at: reporter.now() };
    reporter.report(Report::Transcript(vec![entry])).await?;
    Ok(())
}

async fn previous(stage: &Stage<'_>) -> Option<String> {
    stage.room.workspace.session().await.or_else(|| stage.job().session.clone())
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
