//! One turn of an agent: start the program, open its session, prompt, and end it with everything that it started.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::agent::AgentSpec;
use journeyman_core::engine::Claimed;
use journeyman_core::message::Message;
use journeyman_core::ports::{Spawn, Spawned};
use journeyman_core::project::{PermissionPolicy, Project};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::acp::{self, AcpError, Connection, Limits, Opened, Policy, SessionRequest, Stop, Streams, TurnEnd};
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::transcript;
use crate::worker::Host;
use crate::workspace::Workspace;

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
    pub(crate) claimed: &'a Claimed,
    pub(crate) project: &'a Project,
    pub(crate) message: &'a Message,
    pub(crate) earlier: &'a [Message],
    pub(crate) workspace: &'a Workspace,
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) signals: &'a Signals,
}

/// Carries out the message, from the agent's start to its end.
pub(crate) async fn turn(stage: &Stage<'_>) -> Result<Turn, Stopped> {
    let spec = spec(stage)?;
    let mut spawned = spawn(stage, &spec).await?;
    let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
    let streams = Streams { stdin: Box::new(Sender::from_owned_fd(spawned.stdin)?), stdout: Box::new(stdout) };
    let complaints = tokio::spawn(last_words(stderr));
    let result = converse(stage, &spec, streams).await;
    spawned.process.end().await;
    let complaints = tokio::time::timeout(Duration::from_secs(1), complaints).await;
    let complaints = complaints.ok().and_then(Result::ok).unwrap_or_default();
    result.map_err(|stopped| explain(stopped, &complaints))
}

fn spec(stage: &Stage<'_>) -> Result<AgentSpec, Stopped> {
    let name = &stage.claimed.job.agent;
    stage.host.agents.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = stage.host.agents.keys().map(String::as_str).collect();
        let text = format!("no agent {name:?} is configured on this server; it has: {}", known.join(", "));
        Stopped::failed(ReasonCode::UnknownAgent, text)
    })
}

async fn spawn(stage: &Stage<'_>, spec: &AgentSpec) -> Result<Spawned, Stopped> {
    let layout = stage.host.sandbox.layout(&stage.workspace.tree, &stage.workspace.home);
    let (home, tree) = (layout.home.to_string_lossy().into_owned(), layout.workspace.to_string_lossy().into_owned());
    let fill = |text: &String| AgentSpec::fill(text, &stage.claimed.job.model, &home, &tree);
    let mut environment = stage.environment.clone();
    environment.extend(spec.environment.iter().map(|(name, value)| (name.clone(), fill(value))));
    let argv = spec.command.iter().map(fill).collect();
    let (workspace, home) = (stage.workspace.tree.clone(), stage.workspace.home.clone());
    Ok(stage.host.sandbox.spawn(Spawn { argv, environment, workspace, home }).await?)
}

/// Connects, opens the session, prompts; what the agent says goes into the log meanwhile.
async fn converse(stage: &Stage<'_>, spec: &AgentSpec, streams: Streams) -> Result<Turn, Stopped> {
    let (sender, updates) = tokio::sync::mpsc::channel(256);
    let job = stage.claimed.job.id;
    let log = transcript::write(&stage.host.engine, job, stage.claimed.lease.token, updates);
    let talk = async {
        let policy = match stage.project.settings.sandbox.permissions {
            PermissionPolicy::Allow => Policy::AllowOnce,
            PermissionPolicy::Refuse => Policy::Refuse,
        };
        let connection = acp::connect(streams, Limits::default(), policy, sender).await.map_err(failed)?;
        prompt(stage, spec, &connection).await
    };
    let (logged, turn) = tokio::join!(log, async {
        tokio::select! {
            () = stage.signals.lost.cancelled() => Err(Stopped::LeaseLost),
            turn = talk => turn,
        }
    });
    let turn = turn?;
    logged?;
    Ok(turn)
}

async fn prompt(stage: &Stage<'_>, spec: &AgentSpec, connection: &Connection) -> Result<Turn, Stopped> {
    let layout = stage.host.sandbox.layout(&stage.workspace.tree, &stage.workspace.home);
    let request = SessionRequest {
        cwd: layout.workspace,
        previous: stage.workspace.session().await.or_else(|| stage.claimed.job.session.clone()),
        mode: spec.mode.clone(),
        model: spec.select_model.then(|| stage.claimed.job.model.clone()),
    };
    let (session, opened) = connection.open(&request).await.map_err(failed)?;
    stage.workspace.note_session(&session).await?;
    let text = match opened {
        Opened::New => with_history(stage.earlier, &stage.message.prompt),
        Opened::Resumed | Opened::Loaded => stage.message.prompt.clone(),
    };
    let cancel = CancellationToken::new();
    let seconds = stage.project.settings.limits.run_seconds.unwrap_or(journeyman_core::project::DEFAULT_RUN_SECONDS);
    let watch = async {
        tokio::select! {
            () = stage.signals.stop.cancelled() => Ended::Interrupted,
            () = stage.signals.shutdown.cancelled() => Ended::Shutdown,
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

/// Reads stderr to its end and keeps the last of it.
async fn last_words(mut stderr: Receiver) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).replace('\0', "").trim().to_owned()
}
