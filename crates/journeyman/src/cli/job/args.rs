//! The command line of `journeyman job`.

use std::num::NonZeroUsize;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use journeyman_client::models::Status;
use journeyman_core::model::Effort;

use crate::cli::complete;
use crate::cli::confirm::ConfirmArgs;
use crate::cli::effort;
use crate::cli::exit::HELP;
use crate::cli::number;
use crate::cli::pr::MethodArg;
use crate::cli::session::ServerArgs;
use crate::config::whole;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(subcommand)]
    pub(super) command: JobCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Create a job
    Create(CreateArgs),
    /// Send a follow-up message to a job
    Send(SendArgs),
    /// Show a job
    Get {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
        /// Wait until the job is no longer active
        #[arg(long)]
        wait: bool,
        /// Open the job's page in the browser instead
        #[arg(short, long, conflicts_with = "wait")]
        web: bool,
    },
    /// List jobs, newest first
    List(ListArgs),
    /// Show the transcript of a job until the job is no longer active
    Watch {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
        /// Start after the event with this number
        #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = whole::<u64>)]
        after: u64,
    },
    /// List the messages of a job with their statuses, authors and commits
    Messages {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// List the runs of a job with their tokens, costs, and reasons of failures
    Runs {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Print the changes of a job as a unified diff
    Diff {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Open the page of a job in the browser, and print its URL
    Open {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Merge the open pull request of a job on the built-in code host
    Merge {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
        /// Method of the merge
        #[arg(long, value_enum, default_value_t)]
        method: MethodArg,
    },
    /// Apply the changes of a job to the working tree and the index, as `git apply --3way` does
    Apply {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Fetch the branch of a job, and switch to it
    Checkout {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Retry a waiting job now, before its next attempt is due
    Retry {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Stop a job and withdraw its queued messages
    Cancel {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Archive a job
    Archive {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Restore an archived job
    Unarchive {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
    },
    /// Delete a job that is not active, with its messages, runs and events
    Delete {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Withdraw a queued message
    Withdraw {
        /// ID of the job
        #[arg(add = ArgValueCandidates::new(complete::jobs))]
        job: String,
        /// ID of the message
        message: String,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  journeyman job create 'Add a search field' --watch\n  journeyman job create - --label ui \
                  --wait < prompt.txt\n  journeyman job create 'Fix the tests' --pull-request 7"
)]
pub(super) struct CreateArgs {
    /// Prompt for the agent; "-" reads it from stdin
    #[arg(required_unless_present = "template")]
    pub(super) prompt: Option<String>,
    /// Name or ID of a template: its prompt, agent, model and labels are used unless they are given here
    #[arg(long, add = ArgValueCandidates::new(complete::templates))]
    pub(super) template: Option<String>,
    /// Branch, tag or commit to start from
    #[arg(long = "ref")]
    pub(super) reference: Option<String>,
    /// Model to use
    #[arg(long, add = ArgValueCandidates::new(complete::models))]
    pub(super) model: Option<String>,
    /// Effort of the model; by default, the project's
    #[arg(long, value_parser = effort::parser())]
    pub(super) effort: Option<Effort>,
    /// Agent to run
    #[arg(long, add = ArgValueCandidates::new(complete::agents))]
    pub(super) agent: Option<String>,
    /// Name of the branch to work on
    #[arg(long)]
    pub(super) branch: Option<String>,
    /// Existing pull request to work on, instead of opening one: its number, or the URL of its page
    #[arg(
        long,
        value_name = "NUMBER|URL",
        conflicts_with_all = ["branch", "reference"],
        add = ArgValueCandidates::new(complete::open_pulls)
    )]
    pub(super) pull_request: Option<String>,
    /// Open the pull request as a draft
    #[arg(long)]
    pub(super) draft: bool,
    /// Ask the code host to merge the pull request when all requirements are met
    #[arg(long, conflicts_with = "draft")]
    pub(super) auto_merge: bool,
    /// Title of the pull request
    #[arg(long)]
    pub(super) title: Option<String>,
    /// Label of the job; can be repeated
    #[arg(long, value_name = "LABEL", add = ArgValueCandidates::new(complete::labels))]
    pub(super) label: Vec<String>,
    /// Entry of the job's metadata; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    pub(super) metadata: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) then: ThenArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  journeyman job send JOB 'Search by name too' --watch\n  journeyman job send JOB 'Stop, and \
                  use the old style' --delivery interrupt"
)]
pub(super) struct SendArgs {
    /// ID of the job
    #[arg(add = ArgValueCandidates::new(complete::jobs))]
    pub(super) job: String,
    /// Prompt for the agent; "-" reads it from stdin
    pub(super) prompt: String,
    /// If the job is busy: queue the message, interrupt the turn, or reject the message
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
    /// Wait until the job is no longer active
    #[arg(long)]
    pub(super) wait: bool,
    /// Show the transcript until the job is no longer active
    #[arg(long, conflicts_with = "wait")]
    pub(super) watch: bool,
    /// Idempotency key: the server executes requests with the same key only once [default: a random key]
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  journeyman job list --status failed --limit 5\n  journeyman job list --label ui --json"
)]
pub(super) struct ListArgs {
    /// Filter by status
    #[arg(long, value_enum)]
    pub(super) status: Option<StatusArg>,
    /// Filter by creation after this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(super) created_after: Option<String>,
    /// Filter by creation before this time (ISO 8601)
    #[arg(long, value_name = "TIME")]
    pub(super) created_before: Option<String>,
    /// Filter by a text in the title
    #[arg(short, long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    /// Filter by a label; can be repeated
    #[arg(long, value_name = "LABEL", add = ArgValueCandidates::new(complete::labels))]
    pub(super) label: Vec<String>,
    /// Filter by an entry of the metadata; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    pub(super) metadata: Vec<(String, String)>,
    /// Filter by agent
    #[arg(long, add = ArgValueCandidates::new(complete::agents))]
    pub(super) agent: Option<String>,
    /// Filter by the author of the first message
    #[arg(long)]
    pub(super) author: Option<String>,
    /// Filter by branch
    #[arg(long)]
    pub(super) branch: Option<String>,
    /// Filter by the number of a pull request
    #[arg(long, value_name = "NUMBER", value_parser = number::pull_request, add = ArgValueCandidates::new(complete::pulls))]
    pub(super) pull_request: Option<u64>,
    /// Maximum number of jobs to list
    #[arg(long, default_value = "20", value_parser = number::limit)]
    pub(super) limit: NonZeroUsize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum StatusArg {
    Active,
    Completed,
    Archived,
    Failed,
}

impl From<StatusArg> for Status {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Active => Self::Active,
            StatusArg::Completed => Self::Completed,
            StatusArg::Archived => Self::Archived,
            StatusArg::Failed => Self::Failed,
        }
    }
}

/// Parses an entry of the metadata.
fn entry(text: &str) -> Result<(String, String), String> {
    let entry = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    entry.ok_or_else(|| "must have the form KEY=VALUE".to_owned())
}
