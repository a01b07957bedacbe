//! The built-in agent on stdin and stdout.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use journeyman_agent::Options;
use journeyman_core::model::Effort;
use journeyman_core::project::DEFAULT_MODEL_CALLS;
use rand::Rng;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::effort;
use crate::config;

/// The exit code after the directive `[[die]]` of the test model.
const DIED: i32 = 101;

/// The exit code after SIGTERM: 128 plus the number of the signal.
const TERMINATED: u8 = 143;

/// The maximum time of the shutdown, well below the time that a sandbox leaves between SIGTERM and SIGKILL.
const SHUTDOWN_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct BuiltInArgs {
    /// Model: test/scripted (needs no key), anthropic/…, openai/…, openai-responses/…, gemini/…, ollama/…, or
    /// compatible/… (any OpenAI-compatible endpoint; needs --base-url)
    #[arg(long, env = "JOURNEYMAN_AGENT_MODEL", default_value = "test/scripted")]
    model: String,

    /// Base URL of the model's API, instead of the provider's own
    #[arg(long, env = "JOURNEYMAN_AGENT_BASE_URL")]
    base_url: Option<String>,

    /// The key of the model; `None` for the provider's own variable, such as `ANTHROPIC_API_KEY`.
    // This is not a flag, because every process on the machine can read the arguments of others.
    #[arg(skip)]
    api_key: Option<String>,

    /// Effort of the model; without it, nothing is sent and the model uses its default
    #[arg(long, env = "JOURNEYMAN_AGENT_EFFORT", value_parser = effort::parser())]
    effort: Option<Effort>,

    /// Folder for sessions
    #[arg(long, env = "JOURNEYMAN_AGENT_STATE")]
    state_dir: PathBuf,

    /// Size of the model's context window in tokens; 0: the usual size of the model family
    #[arg(long, env = "JOURNEYMAN_AGENT_CONTEXT_TOKENS", default_value_t = 0)]
    context_tokens: u64,

    /// Maximum number of model calls in a turn
    #[arg(long, env = "JOURNEYMAN_AGENT_MODEL_CALLS", default_value_t = DEFAULT_MODEL_CALLS)]
    model_calls: u32,

    /// Policy for calls that change files or run commands
    #[arg(long, env = "JOURNEYMAN_AGENT_PERMISSIONS", value_enum, default_value_t = Permissions::Allow)]
    permissions: Permissions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Permissions {
    /// Allow all calls without asking the client
    Allow,
    /// Ask the client before each call
    Ask,
}

pub(super) fn run(arguments: BuiltInArgs) -> anyhow::Result<ExitCode> {
    let options = Options {
        model: arguments.model,
        base_url: arguments.base_url,
        api_key: arguments.api_key,
        effort: arguments.effort,
        home: config::home().unwrap_or_else(|| arguments.state_dir.clone()),
        state_dir: arguments.state_dir,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        new_session_id: Box::new(|| uuid::Uuid::from_u128(rand::rng().next_u64().into()).simple().to_string()),
        context_tokens: Some(arguments.context_tokens).filter(|tokens| *tokens > 0),
        model_calls: arguments.model_calls,
        asks: arguments.permissions == Permissions::Ask,
        die: Box::new(|| std::process::exit(DIED)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("the runtime could not be started")?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            served = journeyman_agent::serve(options, tokio::io::stdin(), tokio::io::stdout()) => {
                served.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from)
            }
            _ = terminate.recv() => Ok(ExitCode::from(TERMINATED)),
        }
    });
    // This drops the tasks of the turn, which ends the programs that they started. The wait is bounded, because a
    // pending read of stdin cannot be cancelled.
    runtime.shutdown_timeout(SHUTDOWN_TIME);
    ended
}
