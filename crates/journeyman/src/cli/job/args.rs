//! The command line of `journeyman job`.

use clap::{Args, Subcommand, ValueEnum};

use super::exit;

#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(subcommand)]
    pub(super) command: JobCommand,
}

#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The server
    #[arg(long, env = "JOURNEYMAN_URL", default_value = "http://127.0.0.1:8080", global = true)]
    pub(super) url: String,

    /// The API key; better given by the variable, because others on this machine can read command lines
    #[arg(
        long,
        env = "JOURNEYMAN_KEY",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        global = true
    )]
    pub(super) key: String,

    /// The project
    #[arg(short, long, env = "JOURNEYMAN_PROJECT", default_value = "", hide_default_value = true, global = true)]
    pub(super) project: String,

    /// Print the server's JSON, one document on each line, and nothing else
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Creates a job
    Create(CreateArgs),
    /// Sends a follow-up message to a job
    Send(SendArgs),
    /// Shows a job
    Get {
        /// The job
        job: String,
        /// Wait until it is not active
        #[arg(long)]
        wait: bool,
    },
    /// Lists jobs, newest first
    List(ListArgs),
    /// Shows what the agent says and does, until the job is not active
    Watch {
        /// The job
        job: String,
        /// Begin behind this event instead of at the start
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: u64,
    },
    /// Lists a job's messages with their receipts
    Messages {
        /// The job
        job: String,
    },
    /// Lists a job's runs: attempts, reasons of failures, tokens
    Runs {
        /// The job
        job: String,
    },
    /// Prints what a job changes, as a unified diff
    Diff {
        /// The job
        job: String,
    },
    /// Retries a waiting job now
    Retry {
        /// The job
        job: String,
    },
    /// Stops a job and withdraws what waits
    Cancel {
        /// The job
        job: String,
    },
    /// Puts a job away
    Archive {
        /// The job
        job: String,
    },
    /// Takes a job out again
    Unarchive {
        /// The job
        job: String,
    },
    /// Takes a message back that still waits
    Withdraw {
        /// The job
        job: String,
        /// The message
        message: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// What the agent shall do; "-" reads it from stdin
    pub(super) prompt: String,
    /// The branch, tag or commit to start from
    #[arg(long = "ref")]
    pub(super) reference: Option<String>,
    /// The model
    #[arg(long)]
    pub(super) model: Option<String>,
    /// The agent
    #[arg(long)]
    pub(super) agent: Option<String>,
    /// The name of the branch to work on
    #[arg(long)]
    pub(super) branch: Option<String>,
    /// Open the pull request as a draft
    #[arg(long)]
    pub(super) draft: bool,
    /// The title of the pull request
    #[arg(long)]
    pub(super) title: Option<String>,
    #[command(flatten)]
    pub(super) then: ThenArgs,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// The job
    pub(super) job: String,
    /// What the agent shall do; "-" reads it from stdin
    pub(super) prompt: String,
    /// What the message does to a job that is busy: waits, interrupts it, or is refused
    #[arg(long, value_enum, default_value_t = Delivery::Queue)]
    pub(super) delivery: Delivery,
    #[command(flatten)]
    pub(super) then: ThenArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Delivery {
    Queue,
    Interrupt,
    Reject,
}

#[derive(Debug, Args)]
pub(super) struct ThenArgs {
    /// Wait until the job is not active
    #[arg(long)]
    pub(super) wait: bool,
    /// Show what the agent says and does, until the job is not active
    #[arg(long, conflicts_with = "wait")]
    pub(super) watch: bool,
    /// The same key makes the same request happen once, however often it is sent [default: a random one]
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only jobs in this status: active, completed, archived or failed
    #[arg(long)]
    pub(super) status: Option<String>,
    /// Only jobs created after this moment (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(super) created_after: Option<String>,
    /// Only jobs created before this moment (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(super) created_before: Option<String>,
    /// Only jobs with this text in their title
    #[arg(short, long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20)]
    pub(super) limit: usize,
}
