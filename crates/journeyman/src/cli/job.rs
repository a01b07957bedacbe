//! `journeyman job`: a client for any server.

mod args;
mod exit;
mod render;
mod watch;

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) use self::args::JobArgs;
pub(super) use self::args::ServerArgs;
use self::args::{CreateArgs, Delivery, JobCommand, ListArgs, SendArgs, ThenArgs};
pub(super) use self::exit::{Exit, Failure, HELP};
pub(super) use self::render::{cell, plain};
pub(super) use self::watch::event_lines;
use super::store::{is_output_closed, print, print_lines, write_out};
use crate::client::{Client, Request, idempotency_key};

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
    /// The project, as a segment of a path.
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
        let client = Client::new(&server.url, &server.key)?;
        Ok(Self { client, project: segment(&server.project), json: server.json })
    }

    async fn carry_out(&self, command: JobCommand) -> Result<Exit, Failure> {
        let change = async |job: &str, what: &str| {
            let record = self.client.json(Request::post(format!("{}/{what}", self.job(job)))).await?;
            self.show(&record).map(|()| Exit::Done)
        };
        match command {
            JobCommand::Create(create) => self.create(create).await,
            JobCommand::Send(send) => self.send(send).await,
            JobCommand::Get { job, wait: false } => {
                let record = self.client.json(Request::get(self.job(&job))).await?;
                self.show(&record).map(|()| Exit::Done)
            }
            JobCommand::Get { job, wait: true } => self.wait(&job).await,
            JobCommand::List(list) => self.list(list).await,
            JobCommand::Watch { job, after } => watch::watch(self, &job, after).await,
            JobCommand::Messages { job } => self.rows(&job, "messages", render::messages).await,
            JobCommand::Runs { job } => self.rows(&job, "runs", render::runs).await,
            JobCommand::Diff { job } => {
                let diff = self.client.bytes(Request::get(format!("{}/diff", self.job(&job)))).await?;
                write_out(&render::diff(diff, std::io::stdout().is_terminal()))?;
                Ok(Exit::Done)
            }
            JobCommand::Retry { job } => change(&job, "retry").await,
            JobCommand::Cancel { job } => change(&job, "cancel").await,
            JobCommand::Archive { job } => change(&job, "archive").await,
            JobCommand::Unarchive { job } => change(&job, "unarchive").await,
            JobCommand::Delete { job } => {
                self.client.bytes(Request::new(Method::DELETE, self.job(&job))).await?;
                Ok(Exit::Done)
            }
            JobCommand::Withdraw { job, message } => {
                let path = format!("{}/message/{}", self.job(&job), segment(&message));
                let record = self.client.json(Request::new(Method::DELETE, path)).await?;
                self.show(&record).map(|()| Exit::Done)
            }
        }
    }

    async fn create(&self, arguments: CreateArgs) -> Result<Exit, Failure> {
        let mut body = json!({"prompt": prompt(arguments.prompt)?});
        let chosen = [
            ("ref", arguments.reference),
            ("model", arguments.model),
            ("agent", arguments.agent),
            ("branch", arguments.branch),
            ("title", arguments.title),
            ("pullRequest", arguments.pull_request),
        ];
        for (name, value) in chosen {
            if let Some(value) = value {
                body[name] = Value::String(value);
            }
        }
        if arguments.draft {
            body["draft"] = Value::Bool(true);
        }
        if !arguments.label.is_empty() {
            body["labels"] = json!(arguments.label);
        }
        for (key, value) in arguments.metadata {
            body["metadata"][key] = Value::String(value);
        }
        self.submit(format!("/v2/agent/{}/job", self.project), &body, arguments.then, 0).await
    }

    async fn send(&self, arguments: SendArgs) -> Result<Exit, Failure> {
        let delivery = match arguments.delivery {
            Delivery::Queue => "queue",
            Delivery::Interrupt => "interrupt",
            Delivery::Reject => "reject",
        };
        let body = json!({"prompt": prompt(arguments.prompt)?, "delivery": delivery});
        let path = self.job(&arguments.job);
        // Watch the events of the follow-up, not those before it.
        let after = if arguments.then.watch { watch::newest(self, &arguments.job).await? } else { 0 };
        self.submit(format!("{path}/message"), &body, arguments.then, after).await
    }

    /// Sends a request with an idempotency key, then waits for the job or watches it if asked.
    async fn submit(&self, path: String, body: &Value, then: ThenArgs, after: u64) -> Result<Exit, Failure> {
        let key = then.idempotency_key.unwrap_or_else(|| idempotency_key("cli"));
        let record = self.client.json(Request::post(path).body(body, Some(&key))).await?;
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
        loop {
            let record = self.client.json(Request::get(self.job(job)).wait(30)).await?;
            if record["status"] != "active" {
                self.show(&record)?;
                return Ok(Exit::of(&record));
            }
        }
    }

    async fn list(&self, arguments: ListArgs) -> Result<Exit, Failure> {
        let (mut jobs, mut cursor) = (Vec::new(), None);
        while jobs.len() < arguments.limit {
            let page = (arguments.limit - jobs.len()).min(100);
            let request = Request::get(format!("/v2/agent/{}/jobs", self.project))
                .query("status", arguments.status.clone())
                .query("createdAfter", arguments.created_after.clone())
                .query("createdBefore", arguments.created_before.clone())
                .query("q", arguments.query.clone())
                .query("agent", arguments.agent.clone())
                .query("author", arguments.author.clone())
                .query("branch", arguments.branch.clone())
                .query("pullRequest", arguments.pull_request.map(|number| number.to_string()))
                .query("limit", Some(page.to_string()))
                .query("cursor", cursor);
            let labels = arguments.label.iter().map(|label| ("label", label.clone()));
            let metadata = arguments.metadata.iter().map(|(key, value)| ("metadata", format!("{key}:{value}")));
            let request = labels.chain(metadata).fold(request, |request, (name, text)| request.query(name, Some(text)));
            let mut answer = self.client.json(request).await?;
            jobs.extend(answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default());
            cursor = answer["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        self.print_rows(&jobs, render::jobs)?;
        Ok(Exit::Done)
    }

    async fn rows(&self, job: &str, what: &str, table: fn(&[Value]) -> Vec<String>) -> Result<Exit, Failure> {
        let rows = self.all(&format!("{}/{what}", self.job(job)), what).await?;
        self.print_rows(&rows, table)?;
        Ok(Exit::Done)
    }

    /// Reads all pages of a list; `what` is the field of its entries.
    pub(super) async fn all(&self, path: &str, what: &str) -> Result<Vec<Value>, Failure> {
        let (mut rows, mut cursor) = (Vec::new(), None);
        loop {
            let mut answer = self.client.json(Request::get(path).query("cursor", cursor)).await?;
            rows.extend(answer[what].as_array_mut().map(std::mem::take).unwrap_or_default());
            cursor = answer["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(rows);
            }
        }
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

    /// Returns the path of a job in the HTTP interface.
    fn job(&self, job: &str) -> String {
        format!("/v2/agent/{}/job/{}", self.project, segment(job))
    }
}

/// Encodes a text as one segment of a URL path.
pub(super) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    // URL parsers resolve the segments `.` and `..`.
    if text.bytes().all(|byte| byte == b'.') {
        return "%2E".repeat(text.len());
    }
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
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
