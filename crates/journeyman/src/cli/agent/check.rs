//! `journeyman agent check`: runs a small job in a temporary data directory, to test what an agent does on this
//! machine, with its sandbox and its model.

mod copy;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use journeyman_client::models::{CreateJob, CreateProject, ProjectChanges, SendMessage};
use journeyman_client::{Client, JobHandle};
use journeyman_core::ids::ProjectId;
use journeyman_core::project::DEFAULT_MODEL;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_worker::acp::Sender;
use serde_json::{Value, json};

use super::super::connect::{connect, settled};
use super::super::demo::{make_key, sample};
use super::super::store::{block_on, print, print_json};
use super::known::find;
use crate::app;
use crate::config::Settings;
use crate::lifecycle::{Signals, Stages};
use crate::server::Server;
use crate::system::Machine;
use crate::{scope, telemetry};

/// The first prompt. The test model follows the directives in brackets; other models follow the text.
const FIRST: &str = "Create a file hello.txt in the current folder that contains only the word hello. Do nothing \
                     else.\n\n[[write hello.txt|hello]]";

const SECOND: &str = "Create another file, again.txt, that contains only the word again.\n\n[[write again.txt|again]]";

/// The prompt for a new process of the agent, which has to resume the session.
const THIRD: &str = "Create a third file, third.txt, that contains only the word third.\n\n[[write third.txt|third]]";

/// The arguments of `journeyman agent check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// ID of the agent
    pub(super) id: String,

    /// Model, as jobs name it [default: the project's model; without --project, the test model]
    #[arg(long)]
    model: Option<String>,

    /// Check the agent with the settings and secrets of this project, on a copy of its repository. Nothing is pushed to
    /// the repository itself
    #[arg(long, value_name = "ID")]
    project: Option<ProjectId>,

    /// Print each line of the protocol on stderr, without secrets
    #[arg(long)]
    verbose: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the check.
pub(super) fn run(mut settings: Settings, arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let CheckArgs { id, model, project, verbose, json } = arguments;
    let spec = find(&settings, id)?;
    scope::enter(&settings)?;
    let like = project.as_ref().map(|project| block_on(copy::read(&settings, project))).transpose()?;
    if let Some(like) = &like {
        spec.check_permissions(id, &like.project.settings.sandbox)?;
    }
    let own = like.as_ref().map_or(DEFAULT_MODEL, |like| &like.project.model).to_owned();
    let model = model.clone().unwrap_or(own);
    app::leftovers::remove_temporary(&std::env::temp_dir(), "journeyman-check-", Machine.now());
    let temporary = tempfile::Builder::new().prefix("journeyman-check-").tempdir()?;
    settings.move_to(temporary.path());
    telemetry::begin(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let (stages, signals) = (Stages::default(), Signals::listen()?);
        let (git, grace) = (app::git(&settings)?, settings.grace);
        let server = Server::bind(settings).await?;
        let (url, cases, host) = (
            server.public_url.clone(),
            server.app.cases.clone(),
            server.app.host().context("this machine has no worker role")?,
        );
        let leader = tokio::spawn(signals.lead(stages.clone(), grace));
        let serving = tokio::spawn(server.run(stages.clone()));
        let key = make_key(&cases).await?;
        let client = connect(&url, &key)?;
        if *verbose {
            host.set_tap(Arc::new(show));
        }
        let settings = ProjectChanges::new().agent(id.as_str()).model(model.as_str());
        let project = client.projects().create(&CreateProject::new("check", "local:check").settings(settings)).await?;
        let clone_url = project.clone_url.as_deref().context("the project has no cloneUrl")?;
        match &like {
            Some(like) => like.copy(&cases, &git, (clone_url, &key)).await?,
            None => drop(sample::push(&git, clone_url, &key).await?),
        }
        let report = tokio::select! {
            report = jobs(&client, &host) => report,
            () = stages.drain.cancelled() => Err(anyhow::anyhow!("interrupted")),
        };
        stages.drain.cancel();
        serving.await??;
        leader.abort();
        report
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    if *json {
        print_json(&report)?;
    } else {
        print_report(id, &model, &report)?;
    }
    Ok(if report["ok"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The maximum number of characters that are printed of a line of the protocol.
const LINE_CHARS: usize = 10_000;

/// Prints a line of the protocol.
fn show(sender: Sender, line: &str) {
    let arrow = match sender {
        Sender::Client => "->",
        Sender::Agent => "<-",
    };
    let cut: String = line.chars().take(LINE_CHARS).collect();
    let more = if cut.len() < line.len() { " …" } else { "" };
    // A failed write is ignored: stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{arrow} {cut}{more}");
}

/// Sends three messages: the first one, one to the idle process of the agent, and one to a new process.
async fn jobs(client: &Client, host: &journeyman_worker::Host) -> anyhow::Result<Value> {
    let mut steps = Vec::new();
    let job = client.job("check", client.jobs().create("check", &CreateJob::new(FIRST)).await?.id);
    steps.push(step(&job, "first", "hello.txt").await?);
    for (name, prompt, file) in [("follow-up", SECOND, "again.txt"), ("after a restart", THIRD, "third.txt")] {
        if steps.iter().any(|step: &Value| step["ok"] != true) {
            break;
        }
        if name == "after a restart" {
            host.end_idle_agents().await;
        }
        job.send_message(&SendMessage::new(prompt)).await?;
        steps.push(step(&job, name, file).await?);
    }
    let ok = steps.len() == 3 && steps.iter().all(|step| step["ok"] == true);
    let sessions = events(&job, "agent.session").await?;
    Ok(json!({ "ok": ok, "steps": steps, "sessions": sessions }))
}

async fn events(job: &JobHandle, kind: &str) -> anyhow::Result<Vec<Value>> {
    let all = job.events(0).raw().all().await?;
    Ok(all.into_iter().filter(|event| event["type"] == kind).map(|mut event| event["data"].take()).collect())
}

/// Waits for a message's run, and reports whether the run created the requested file.
async fn step(job: &JobHandle, name: &str, file: &str) -> anyhow::Result<Value> {
    settled(job).await?;
    let runs = job.runs().raw().all().await?;
    let Some(run) = runs.last() else { bail!("the job has no runs") };
    let diff = job.diff().await?;
    let made = String::from_utf8_lossy(&diff).contains(&format!("+++ b/{file}"));
    let succeeded = run["status"] == "succeeded";
    let text = match (succeeded, made) {
        (true, true) => format!("{file} is in the commit"),
        (true, false) => format!("the run succeeded, but {file} is not in a commit"),
        (false, _) => run["reason"]["text"].as_str().unwrap_or("the run failed").to_owned(),
    };
    let millis = millis(run);
    Ok(
        json!({ "step": name, "ok": succeeded && made, "text": text, "millis": millis.and_then(|millis| u64::try_from(millis).ok()), "usage": run["usage"],
        "reason": run["reason"]["code"] }),
    )
}

/// Returns the duration of a run, in milliseconds.
fn millis(run: &Value) -> Option<u128> {
    let at = |field: &str| run[field].as_str()?.parse::<Timestamp>().ok();
    Some(at("finishedAt")?.since(at("startedAt")?).as_millis())
}

fn print_report(id: &str, model: &str, report: &Value) -> anyhow::Result<()> {
    print(&format!("{id} with {model}"))?;
    for session in report["sessions"].as_array().into_iter().flatten() {
        let yes = |field: &str| if session[field] == true { "yes" } else { "no" };
        print(&format!(
            "      session {}: {}, resumes: {}, loads: {}, {} ms",
            session["opened"].as_str().unwrap_or_default(),
            session["agent"].as_str().unwrap_or_default(),
            yes("resumes"),
            yes("loads"),
            session["millis"]
        ))?;
    }
    for step in report["steps"].as_array().into_iter().flatten() {
        let usage = &step["usage"];
        print(&format!(
            "{}  {}: {} ({} ms, {} tokens in, {} out)",
            if step["ok"] == true { "ok  " } else { "FAIL" },
            step["step"].as_str().unwrap_or_default(),
            step["text"].as_str().unwrap_or_default(),
            step["millis"],
            usage["inputTokens"],
            usage["outputTokens"]
        ))?;
    }
    Ok(())
}
