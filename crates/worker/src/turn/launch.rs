//! How an agent is started: its program, its variables and files, its door to the models.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use journeyman_core::agent::{AgentSpec, Install, Places};
use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{ModelRoute, Spawn};
use journeyman_core::project::{PermissionPolicy, SandboxSettings};
use journeyman_core::run::ReasonCode;

use super::Stage;
use crate::acp::{Answer, Policy};
use crate::failure::Stopped;
use crate::{models, ways};

/// How an agent is started: a running one is used again only for the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) spawn: Spawn,
    pub(super) policy: Policy,
    /// What it may say in a turn.
    pub(super) output_bytes: u64,
    /// What it may reach.
    pub(super) egress: Allowlist,
    /// Its model, if it calls one through us.
    pub(super) route: Option<ModelRoute>,
    /// The time in which it must answer `initialize`.
    pub(super) initialize_timeout: Duration,
}

pub(super) fn spec(stage: &Stage<'_>) -> Result<AgentSpec, Stopped> {
    let name = &stage.job().agent;
    stage.host.agents.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = stage.host.agents.keys().map(String::as_str).collect();
        let text = format!("no agent {name:?} is configured on this server; it has: {}", known.join(", "));
        Stopped::failed(ReasonCode::UnknownAgent, text)
    })
}

/// Checks that the agent asks permission for all kinds of tool calls that the project refuses. The policy may have
/// changed since the job was created.
pub(super) fn check_permissions(stage: &Stage<'_>, spec: &AgentSpec) -> Result<(), Stopped> {
    let checked = spec.check_permissions(&stage.job().agent, &stage.assignment.project.settings.sandbox);
    checked.map_err(|error| Stopped::failed(ReasonCode::UnsupportedPolicy, error.to_string()))
}

/// An agent that is to be installed first is not looked for in vain.
pub(super) fn is_installed(stage: &Stage<'_>, spec: &AgentSpec) -> Result<(), Stopped> {
    // What it was installed into is among what it may read.
    if spec.install.is_none() || spec.readable.iter().any(|path| path.join(Install::NOTE).exists()) {
        return Ok(());
    }
    let id = &stage.job().agent;
    let text =
        format!("the agent {id} is not installed on the worker's machine; run there: journeyman agent install {id}");
    Err(Stopped::failed(ReasonCode::AgentNotStarted, text))
}

pub(super) fn start(stage: &Stage<'_>, spec: &AgentSpec, route: Option<ModelRoute>) -> Start {
    let layout = stage.room.layout();
    let policy = policy(&stage.assignment.project.settings.sandbox);
    let folders = (layout.home.to_string_lossy().into_owned(), layout.workspace.to_string_lossy().into_owned());
    let model_calls = stage.assignment.project.settings.limits.model_calls();
    let places = models::places(stage.job(), route.as_ref(), folders, (policy.refuses(), model_calls));
    let mut environment = stage.environment.clone();
    let own = spec.environment.iter().filter(|(_, value)| route.is_some() || !models::needs_door(value));
    environment.extend(own.map(|(name, value)| (name.clone(), places.fill(value))));
    let argv = spec.command.iter().map(|word| places.fill(word)).collect();
    let argv = with_files(argv, &mut environment, spec, &places, route.is_some());
    let mut spawn = stage.room.spawn_with_egress(argv, environment);
    spawn.readable.extend(spec.readable.clone());
    let output_bytes = stage.assignment.project.settings.limits.output_bytes();
    let initialize_timeout = Duration::from_secs(spec.initialize_seconds);
    Start { spawn, policy, output_bytes, egress: stage.room.egress.clone(), route, initialize_timeout }
}

/// How the project answers what an agent asks for.
fn policy(settings: &SandboxSettings) -> Policy {
    let answer = |policy: PermissionPolicy| match policy {
        PermissionPolicy::Allow => Answer::AllowOnce,
        PermissionPolicy::Refuse => Answer::Refuse,
    };
    let by_tool = settings.permission_kinds.iter().map(|(kind, policy)| (kind.name().to_owned(), answer(*policy)));
    Policy { usual: answer(settings.permissions), by_tool: by_tool.collect() }
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

/// Where an agent calls models, and what it shows there. One agent has one of its own.
pub(super) struct Door {
    url: String,
    pub(super) token: String,
    /// Where the sandbox has no network of its own.
    pub(super) outside: Option<OwnedFd>,
}

impl Door {
    pub(super) fn new(stage: &Stage<'_>) -> Result<Self, Stopped> {
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
    pub(super) fn put_into(&self, spawn: &mut Spawn) {
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
