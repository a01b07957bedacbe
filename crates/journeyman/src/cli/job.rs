//! `journeyman job`: a client for any server.

mod args;
mod local;
mod outcome;
mod render;
mod transcript;
mod watch;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;

use journeyman_client::models::{self, CreateJob, Job, JobFilter, SendMessage, Status, Template};
use journeyman_client::{Call, Pager};
use serde_json::Value;

pub(crate) use self::args::JobArgs;
use self::args::{CreateArgs, Delivery, JobCommand, ListArgs, SendArgs, ThenArgs};
use self::outcome::{Action, Before, outcome};
pub(super) use self::transcript::Transcript;
use super::connect::settled;
use super::exit::{Exit, Failure};
use super::look::{cell, plain};
use super::paint::ColorWhen;
use super::prompt::prompt;
use super::session::{Session, with_session};
use super::store::{print, print_lines, write_out};
use super::table::listed;
use super::template;

/// The maximum number of jobs in a page.
const PAGE: u32 = 100;

/// Runs a command of `journeyman job`.
pub(crate) fn run(arguments: JobArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    with_session(arguments.server, color, async |session| session.carry_out(arguments.command).await)
}

impl Session {
    async fn carry_out(&self, command: JobCommand) -> Result<Exit, Failure> {
        match command {
            JobCommand::Create(create) => self.create(create).await,
            JobCommand::Send(send) => self.send(send).await,
            JobCommand::Get { job, web: true, .. } | JobCommand::Open { job } => self.open_page(&job).await,
            JobCommand::Get { job, wait: false, .. } => self.show_result(self.job(&job).get()).await,
            JobCommand::Get { job, wait: true, .. } => self.wait(&job).await,
            JobCommand::List(list) => self.list(list).await,
            JobCommand::Watch { job, after } => watch::watch(self, &job, after).await,
            JobCommand::Messages { job } => {
                let table = |rows: &[Value]| listed(render::messages(self.look, rows), "No messages.");
                self.rows(self.job(&job).messages(), table).await
            }
            JobCommand::Runs { job } => {
                let table = |rows: &[Value]| listed(render::runs(self.look, rows), "No runs yet.");
                self.rows(self.job(&job).runs(), table).await
            }
            JobCommand::Diff { job } => {
                let diff = self.job(&job).diff().await?;
                write_out(&render::diff(diff.into(), std::io::stdout().is_terminal(), self.look.paint))?;
                Ok(Exit::Done)
            }
            JobCommand::Merge { job, method } => self.merge(&job, method).await,
            JobCommand::Apply { job } => self.apply(&job).await,
            JobCommand::Checkout { job } => self.checkout(&job).await,
            JobCommand::Retry { job } => self.act(&job, Action::Retry).await,
            JobCommand::Cancel { job } => self.act(&job, Action::Cancel).await,
            JobCommand::Archive { job } => self.act(&job, Action::Archive).await,
            JobCommand::Unarchive { job } => self.act(&job, Action::Unarchive).await,
            JobCommand::Delete { job, confirm } => {
                confirm.confirm(&format!("This deletes the job {job} with its messages, runs and events"), &job)?;
                self.job(&job).delete().await?;
                self.say(&format!("Deleted the job {} with its messages, runs and events.", plain(&job)))?;
                Ok(Exit::Done)
            }
            JobCommand::Withdraw { job, message } => self.show_result(self.job(&job).withdraw(&message)).await,
        }
    }

    /// Carries out a call, and prints the record of the job in its response.
    async fn show_result(&self, call: Call<Job>) -> Result<Exit, Failure> {
        self.show_record(&call.raw().await?).await?;
        Ok(Exit::Done)
    }

    /// Carries out an action, and prints what it has done, and the record of the job.
    async fn act(&self, id: &str, action: Action) -> Result<Exit, Failure> {
        let job = self.job(id);
        let details = job.details().await?;
        let before = Before { status: details.status, is_waiting: details.waiting.is_some() };
        let call = match action {
            Action::Retry => job.retry(),
            Action::Cancel => job.cancel(),
            Action::Archive => job.archive(),
            Action::Unarchive => job.unarchive(),
        };
        let record = call.raw().await?;
        let after = Status::from(record["status"].as_str().unwrap_or_default());
        let (text, exit) = outcome(id, action, &before, &after);
        self.say(&plain(&text))?;
        self.show_record(&record).await?;
        Ok(exit)
    }

    async fn create(&self, arguments: CreateArgs) -> Result<Exit, Failure> {
        let template = match &arguments.template {
            Some(named) => Some(template::find(self, named).await?),
            None => None,
        };
        let given = arguments.prompt.map(prompt).transpose()?;
        // The command line requires a prompt or a template.
        let stored = template.as_ref().map(|template| template.prompt.clone());
        let mut job = CreateJob::new(given.or(stored).unwrap_or_default());
        job.labels = Some(arguments.label).filter(|labels| !labels.is_empty());
        (job.model, job.agent) = (arguments.model, arguments.agent);
        job.effort = arguments.effort.map(|effort| effort.name().into());
        if let Some(template) = template {
            fill(&mut job, template);
        }
        job.reference = arguments.reference;
        job.branch = arguments.branch;
        job.title = arguments.title;
        job.pull_request = arguments.pull_request.map(Into::into);
        job.draft = arguments.draft.then_some(true);
        job.auto_merge = arguments.auto_merge.then_some(true);
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
            self.show_record(&record).await?;
            Ok(Exit::Done)
        }
    }

    async fn wait(&self, job: &str) -> Result<Exit, Failure> {
        let record = settled(&self.job(job)).await?;
        self.show_record(&record).await?;
        Ok(Exit::of(&record))
    }

    async fn list(&self, arguments: ListArgs) -> Result<Exit, Failure> {
        let mut filter = JobFilter::new();
        filter.status = arguments.status.map(Into::into);
        filter.created_after.clone_from(&arguments.created_after);
        filter.created_before.clone_from(&arguments.created_before);
        filter.q.clone_from(&arguments.query);
        filter.labels.clone_from(&arguments.label);
        filter.agent.clone_from(&arguments.agent);
        filter.author.clone_from(&arguments.author);
        filter.branch.clone_from(&arguments.branch);
        filter.pull_request = arguments.pull_request;
        // The records, which scripts read, have no titles.
        if self.json {
            return self.list_of(self.client.jobs().list_records(&self.project, &filter), &arguments).await;
        }
        self.list_of(self.client.jobs().list(&self.project, &filter), &arguments).await
    }

    async fn list_of<T>(&self, pager: Pager<T>, arguments: &ListArgs) -> Result<Exit, Failure> {
        let size = u32::try_from(arguments.limit.get()).unwrap_or(PAGE).clamp(1, PAGE);
        let entries = arguments.metadata.iter().map(|(key, value)| format!("{key}:{value}"));
        let mut pager = entries.fold(pager.page_size(size), |pager, entry| pager.query("metadata", entry)).raw();
        let mut jobs = Vec::new();
        while jobs.len() < arguments.limit.get()
            && let Some(job) = pager.next().await?
        {
            jobs.push(job);
        }
        let none = format!("No jobs found in {}.", self.project);
        self.print_rows(&jobs, |jobs| listed(render::jobs(self.look, jobs), &none))?;
        Ok(Exit::Done)
    }

    /// Prints the record of a job as JSON, or the job with its details for people.
    async fn show_record(&self, record: &Value) -> Result<(), Failure> {
        if self.json {
            return Ok(print(&record.to_string())?);
        }
        let details = self.job(&cell(&record["id"])).details().raw().await;
        // The command has taken effect; without the details, the record still has the ID of the job.
        Ok(print_lines(&render::job(self.look, details.as_ref().unwrap_or(record)))?)
    }
}

/// Adds the agent, the model and the labels of a template, unless the command line has set them.
fn fill(job: &mut CreateJob, template: Template) {
    job.agent = job.agent.take().or(template.agent);
    job.model = job.model.take().or(template.model);
    job.labels = job.labels.take().or(Some(template.labels).filter(|labels| !labels.is_empty()));
}
