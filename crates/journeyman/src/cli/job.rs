//! `journeyman job`: a client for any server.

mod args;
mod exit;
mod render;
mod watch;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use journeyman_client::models::{self, CreateJob, Job, JobFilter, SendMessage, Status};
use journeyman_client::{Call, Client, JobHandle, Pager};
use serde_json::Value;

pub(crate) use self::args::JobArgs;
pub(super) use self::args::ServerArgs;
use self::args::{CreateArgs, Delivery, JobCommand, ListArgs, SendArgs, ThenArgs};
pub(super) use self::exit::{Exit, Failure, HELP};
pub(super) use self::render::{cell, plain};
pub(super) use self::watch::event_lines;
use super::connect::{connect, settled};
use super::store::{is_output_closed, print, print_lines, write_out};

/// The maximum number of jobs in a page.
const PAGE: u32 = 100;

/// Runs a command of `journeyman job`.
pub(crate) fn run(arguments: JobArgs) -> anyhow::Result<ExitCode> {
    with_session(arguments.server, async |session| session.carry_out(arguments.command).await)
}

/// Runs a command that uses a server.
pub(super) fn with_session(
    server: ServerArgs,
    work: impl AsyncFnOnce(Session) -> Result<Exit, Failure>,
) -> anyhow::Result<ExitCode> {
    let json = server.json;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.context("the runtime could not be started")?.block_on(async {
        let session = Session::new(server)?;
        work(session).await
    });
    Ok(match done {
        Ok(exit) => exit.into(),
        Err(Failure::Io(error)) if is_output_closed(&error) => ExitCode::SUCCESS,
        Err(failure) => {
            // If stderr is closed, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{}", failure.message(json));
            failure.exit().into()
        }
    })
}

/// The server, project and output format of a command.
pub(super) struct Session {
    pub(super) client: Client,
    /// The ID of the project.
    pub(super) project: String,
    json: bool,
}

impl Session {
    fn new(server: ServerArgs) -> Result<Self, Failure> {
        if server.key.is_empty() {
            return Err(Failure::Usage(
                "the API key is missing: set JOURNEYMAN_KEY; `journeyman key create` creates one",
            ));
        }
        if server.project.is_empty() {
            return Err(Failure::Usage("the project is missing: set --project or JOURNEYMAN_PROJECT"));
        }
        let client = connect(&server.url, &server.key)?;
        Ok(Self { client, project: server.project, json: server.json })
    }

    async fn carry_out(&self, command: JobCommand) -> Result<Exit, Failure> {
        match command {
            JobCommand::Create(create) => self.create(create).await,
            JobCommand::Send(send) => self.send(send).await,
            JobCommand::Get { job, wait: false } => self.show_result(self.job(&job).get()).await,
            JobCommand::Get { job, wait: true } => self.wait(&job).await,
            JobCommand::List(list) => self.list(list).await,
            JobCommand::Watch { job, after } => watch::watch(self, &job, after).await,
            JobCommand::Messages { job } => self.rows(self.job(&job).messages(), render::messages).await,
            JobCommand::Runs { job } => self.rows(self.job(&job).runs(), render::runs).await,
            JobCommand::Diff { job } => {
                let diff = self.job(&job).diff().await?;
                write_out(&render::diff(diff.into(), std::io::stdout().is_terminal()))?;
                Ok(Exit::Done)
            }
            JobCommand::Retry { job } => self.show_result(self.job(&job).retry()).await,
            JobCommand::Cancel { job } => self.show_result(self.job(&job).cancel()).await,
            JobCommand::Archive { job } => self.show_result(self.job(&job).archive()).await,
            JobCommand::Unarchive { job } => self.show_result(self.job(&job).unarchive()).await,
            JobCommand::Delete { job } => {
                self.job(&job).delete().await?;
                Ok(Exit::Done)
            }
            JobCommand::Withdraw { job, message } => self.show_result(self.job(&job).withdraw(&message)).await,
        }
    }

    /// Carries out a call, and prints the record of the job in its response.
    async fn show_result(&self, call: Call<Job>) -> Result<Exit, Failure> {
        self.show(&call.raw().await?)?;
        Ok(Exit::Done)
    }

    async fn create(&self, arguments: CreateArgs) -> Result<Exit, Failure> {
        let mut job = CreateJob::new(prompt(arguments.prompt)?);
        job.reference = arguments.reference;
        job.model = arguments.model;
        job.agent = arguments.agent;
        job.branch = arguments.branch;
        job.title = arguments.title;
        job.pull_request = arguments.pull_request.map(Into::into);
        job.draft = arguments.draft.then_some(true);
        job.labels = Some(arguments.label).filter(|labels| !labels.is_empty());
        job.metadata =
            Some(arguments.metadata.into_iter().collect()).filter(|metadata: &BTreeMap<_, _>| !metadata.is_empty());
        self.submit(self.client.jobs().create(&self.project, &job), arguments.then, 0).await
    }

    async fn send(&self, arguments: SendArgs) -> Result<Exit, Failure> {
        let delivery = match arguments.delivery {
            Delivery::Queue => models::Delivery::Queue,
            Delivery::Interrupt => models::Delivery::Interrupt,
            Delivery::Reject => models::Delivery::Reject,
        };
        let message = SendMessage::new(prompt(arguments.prompt)?).delivery(delivery);
        let job = self.job(&arguments.job);
        // Watch the events of the follow-up, not those before it.
        let after = if arguments.then.watch { job.newest_event(0).await? } else { 0 };
        self.submit(job.send_message(&message), arguments.then, after).await
    }

    /// Carries out a call with an idempotency key, then waits for the job or watches it if asked.
    async fn submit<T: 'static>(&self, call: Call<T>, then: ThenArgs, after: u64) -> Result<Exit, Failure> {
        let call = match &then.idempotency_key {
            Some(key) => call.idempotency_key(key),
            None => call,
        };
        let record = call.raw().await?;
        let job = record["id"].as_str().unwrap_or_default().to_owned();
        if then.watch {
            watch::watch(self, &job, after).await
        } else if then.wait {
            self.wait(&job).await
        } else {
            self.show(&record).map(|()| Exit::Done)
        }
    }

    async fn wait(&self, job: &str) -> Result<Exit, Failure> {
        let record = settled(&self.job(job)).await?;
        self.show(&record)?;
        Ok(Exit::of(&record))
    }

    async fn list(&self, arguments: ListArgs) -> Result<Exit, Failure> {
        let mut filter = JobFilter::new();
        filter.status = arguments.status.as_deref().map(Status::from);
        filter.created_after = arguments.created_after;
        filter.created_before = arguments.created_before;
        filter.q = arguments.query;
        filter.labels = arguments.label;
        filter.agent = arguments.agent;
        filter.author = arguments.author;
        filter.branch = arguments.branch;
        filter.pull_request = arguments.pull_request;
        let size = u32::try_from(arguments.limit).unwrap_or(PAGE).clamp(1, PAGE);
        let pager = self.client.jobs().list_records(&self.project, &filter).page_size(size);
        let entries = arguments.metadata.iter().map(|(key, value)| format!("{key}:{value}"));
        let mut pager = entries.fold(pager, |pager, entry| pager.query("metadata", entry)).raw();
        let mut jobs = Vec::new();
        while jobs.len() < arguments.limit
            && let Some(job) = pager.next().await?
        {
            jobs.push(job);
        }
        self.print_rows(&jobs, render::jobs)?;
        Ok(Exit::Done)
    }

    async fn rows<T>(&self, list: Pager<T>, table: fn(&[Value]) -> Vec<String>) -> Result<Exit, Failure> {
        self.print_rows(&list.raw().all().await?, table)?;
        Ok(Exit::Done)
    }

    /// Prints rows as a table, or as one line of JSON each.
    pub(super) fn print_rows(&self, rows: &[Value], table: fn(&[Value]) -> Vec<String>) -> Result<(), Failure> {
        if self.json {
            rows.iter().try_for_each(|row| print(&row.to_string()))?;
        } else {
            print_lines(&table(rows))?;
        }
        Ok(())
    }

    /// Prints the record of a job.
    fn show(&self, record: &Value) -> Result<(), Failure> {
        if self.json {
            print(&record.to_string())?;
        } else {
            print_lines(&render::record(record))?;
        }
        Ok(())
    }

    /// Returns the operations on a job.
    fn job(&self, job: &str) -> JobHandle {
        self.client.job(&self.project, job)
    }
}

/// Returns the prompt, or reads it from stdin if the argument is `-`.
fn prompt(argument: String) -> std::io::Result<String> {
    if argument != "-" {
        return Ok(argument);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
