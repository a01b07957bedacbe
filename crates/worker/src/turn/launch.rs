//! The launch of an agent: its program, variables and files, and the endpoint at which it calls models.

use std::os::fd::OwnedFd;
use std::time::Duration;

use journeyman_core::agent::{AgentSpec, Install};
use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{ModelRoute, Spawn};
use journeyman_core::project::{PermissionPolicy, SandboxSettings};
use journeyman_core::run::ReasonCode;

use crate::acp::{Answer, Policy};
use crate::error::RunError;
use crate::sandbox::outbound;
use crate::turn::context::TurnContext;
use crate::turn::files::with_files;
use crate::turn::models;

/// The launch of an agent. An idle agent is reused only for an equal launch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) spawn: Spawn,
    pub(super) policy: Policy,
    /// The maximum output of a turn in bytes.
    pub(super) output_bytes: u64,
    /// The destinations that it may reach.
    pub(super) egress: Allowlist,
    /// The route to its model, if it calls one through the proxy.
    pub(super) route: Option<ModelRoute>,
    /// The time limit for its answer to `initialize`.
    pub(super) initialize_timeout: Duration,
}

pub(super) fn spec(context: &TurnContext<'_>) -> Result<AgentSpec, RunError> {
    let name = &context.job().agent;
    context.agents.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = context.agents.keys().map(String::as_str).collect();
        let text = format!("no agent {name:?} is configured on this server; it has: {}", known.join(", "));
        RunError::failed(ReasonCode::UnknownAgent, text)
    })
}

/// Checks that the agent asks permission for all kinds of tool calls that the project refuses. The policy may have
/// changed since the job was created.
pub(super) fn check_permissions(context: &TurnContext<'_>, spec: &AgentSpec) -> Result<(), RunError> {
    let checked = spec.check_permissions(&context.job().agent, &context.assignment.project.settings.sandbox);
    checked.map_err(|error| RunError::failed(ReasonCode::UnsupportedPolicy, error.to_string()))
}

/// Checks that the agent is installed, if the service can install it.
pub(super) fn check_installed(context: &TurnContext<'_>, spec: &AgentSpec) -> Result<(), RunError> {
    // The folder of an installation is among the readable paths.
    if spec.install.is_none() || spec.readable.iter().any(|path| path.join(Install::NOTE).exists()) {
        return Ok(());
    }
    let id = &context.job().agent;
    let text =
        format!("the agent {id} is not installed on the worker's machine; run there: journeyman agent install {id}");
    Err(RunError::failed(ReasonCode::AgentNotStarted, text))
}

pub(super) fn launch(context: &TurnContext<'_>, spec: &AgentSpec, route: Option<ModelRoute>) -> Launch {
    let layout = context.sandbox.layout();
    let policy = policy(&context.assignment.project.settings.sandbox);
    let folders = (layout.home.to_string_lossy().into_owned(), layout.workspace.to_string_lossy().into_owned());
    let model_calls = context.assignment.project.settings.limits.model_calls();
    let values =
        models::placeholder_values((context.job(), spec), route.as_ref(), folders, (policy.refuses(), model_calls));
    let mut environment = context.environment.clone();
    let own = spec.environment.iter().filter(|(_, value)| route.is_some() || !models::needs_endpoint(value));
    environment.extend(own.filter_map(|(name, value)| Some((name.clone(), values.fill(value)?))));
    let argv = spec.command.iter().filter_map(|word| values.fill(word)).collect();
    let argv = with_files(argv, &mut environment, spec, &values, route.is_some());
    let mut spawn = context.sandbox.spawn_with_egress(argv, environment);
    spawn.readable.extend(spec.readable.clone());
    let output_bytes = context.assignment.project.settings.limits.output_bytes();
    let initialize_timeout = Duration::from_secs(spec.initialize_seconds);
    Launch { spawn, policy, output_bytes, egress: context.sandbox.egress.clone(), route, initialize_timeout }
}

/// Returns the project's answers to permission requests.
fn policy(settings: &SandboxSettings) -> Policy {
    let answer = |policy: PermissionPolicy| match policy {
        PermissionPolicy::Allow => Answer::AllowOnce,
        PermissionPolicy::Refuse => Answer::Refuse,
    };
    let by_tool = settings.permission_kinds.iter().map(|(kind, policy)| (kind.name().to_owned(), answer(*policy)));
    Policy { usual: answer(settings.permissions), by_tool: by_tool.collect() }
}

/// The endpoint at which one agent calls models, and its token.
pub(super) struct ModelEndpoint {
    url: String,
    pub(super) token: String,
    /// The listener on the host's loopback, if the sandbox shares the host's network.
    pub(super) outside: Option<OwnedFd>,
}

impl ModelEndpoint {
    pub(super) fn new(context: &TurnContext<'_>) -> Result<Self, RunError> {
        let mut bytes = [0; 32];
        context.ids.fill(&mut bytes);
        let token = bytes.iter().fold("jmt_".to_owned(), |token, byte| format!("{token}{byte:02x}"));
        let (outside, port) = if context.sandbox.has_own_network() {
            (None, outbound::MODEL_PORT)
        } else {
            let (listener, port) = outbound::listen_on_loopback()?;
            (Some(listener), port)
        };
        Ok(Self { url: format!("http://127.0.0.1:{port}"), token, outside })
    }

    /// Adds the endpoint to a program's variables and arguments. Arguments get no token, because other users may see
    /// them.
    pub(super) fn add_to(&self, spawn: &mut Spawn) {
        if self.outside.is_none() {
            spawn.listen.push(outbound::MODEL_PORT);
        }
        for value in spawn.environment.values_mut() {
            *value = models::with_endpoint(value, &self.url, &self.token);
        }
        for value in &mut spawn.argv {
            *value = models::with_endpoint(value, &self.url, "");
        }
    }
}
