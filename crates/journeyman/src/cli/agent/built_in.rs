//! The built-in agent on stdin and stdout.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use journeyman_agent::Options;
use journeyman_core::project::DEFAULT_MODEL_CALLS;
use rand::Rng;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of an agent that was told to die by the test model's `[[die]]`.
const DIED: i32 = 101;

/// The exit code of an agent that was told to end: 128 and SIGTERM's number.
const TERMINATED: u8 = 143;

/// How long the end may take; well below the time that a sandbox leaves between TERM and KILL.
const LAST_MOMENT: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct BuiltInArgs {
    /// The model: test/scripted (needs no key), anthropic/…, openai/…, openai-responses/…, gemini/…, ollama/…, or
    /// compatible/… (any OpenAI-compatible endpoint; needs --base-url)
    #[arg(long, env = "JOURNEYMAN_AGENT_MODEL", default_value = "test/scripted")]
    model: String,

    /// The address of the model's interface, instead of the provider's own
    #[arg(long, env = "JOURNEYMAN_AGENT_BASE_URL")]
    base_url: Option<String>,

    /// The key for the model; by default the provider's own variable, such as `ANTHROPIC_API_KEY`
    // Only from the environment: argv can be read by every process of the machine.
    #[arg(skip)]
    api_key: Option<String>,

    /// The folder for sessions
    #[arg(long, env = "JOURNEYMAN_AGENT_STATE")]
    state_dir: PathBuf,

    /// The size of the model's context window in tokens; 0: the usual size of the model family
    #[arg(long, env = "JOURNEYMAN_AGENT_CONTEXT_TOKENS", default_value_t = 0)]
    context_tokens: u64,

    /// The most calls of the model in one turn
    #[arg(long, env = "JOURNEYMAN_AGENT_MODEL_CALLS", default_value_t = DEFAULT_MODEL_CALLS)]
    model_calls: u32,

    /// The permissions to change files and run commands
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
    // What the turn has started ends with its tasks, which are dropped here. The wait is bounded, because a read of
    // stdin that is still under way cannot be.
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}
