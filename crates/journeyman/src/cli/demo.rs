//! `journeyman demo`: shows the main workflow step by step in a new service, over HTTP like a client.

pub(super) mod sample;
mod show;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use journeyman_app::{Answered, Caller, UseCases};
use journeyman_client::models::{CreateJob, CreateProject, ErrorCode, SendMessage};
use journeyman_client::{Call, JobHandle};
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::time::Clock;
use serde_json::{Value, json};

use self::show::Printer;
use super::connect::connect;
use super::job::Transcript;
use super::paint::{ColorWhen, Paint};
use super::program;
use super::store::print;
use crate::app;
use crate::config::{self, Layer};
use crate::lifecycle::{Signals, Stages};
use crate::server::Server;
use crate::system::Machine;
use crate::telemetry;

/// The time for which a request waits for the end of the job, after which the demo prints why the job waits.
const POLL: Duration = Duration::from_secs(5);

// The prompts are short, so that the requests with them fit on a line.
const FIRST_PROMPT: &str = "Greet the reader\n[[write hi.sh|echo Hello, reader!]]\n[[run sh hi.sh]]";

const FOLLOW_UP: &str = "Greet people by name\n[[write hi.sh|echo Hello, $1!]]\n[[run sh hi.sh Ada]]";

/// The fields of the record of a job that the demo shows.
const RECORD: [&str; 3] = ["id", "status", "prLink"];

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Exit at the end instead of serving until Ctrl-C; the last line of stdout is the final record of the job
    #[arg(long)]
    exit: bool,

    /// Address to serve on [default: 127.0.0.1:8080 if it is free, else any port; with --exit, any port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Folder to keep the data in [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs the demo.
pub(crate) fn run(arguments: DemoArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    app::leftovers::remove_temporary(&std::env::temp_dir(), "journeyman-demo-", Machine.now());
    let temporary = tempfile::Builder::new().prefix("journeyman-demo-").tempdir()?;
    let data_dir = arguments.data_dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let settings = config::isolated(Layer {
        data_dir: Some(data_dir.clone()),
        listen: Some(address(&arguments)),
        // The demo shows the agent's events itself, so the log needs only warnings and errors.
        log: Some("warn".to_owned()),
        ..Layer::default()
    })?;
    // The demonstration exports no traces, so there is nothing to end.
    let _telemetry = telemetry::begin(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stages, signals) = (Stages::default(), Signals::listen()?);
        let is_below_cargo = config::client_environment().is_below_cargo;
        let (git, program) = (app::git(&settings)?, program::typed(&settings.path, is_below_cargo)?);
        let grace = settings.grace;
        let server = Server::bind(settings).await?;
        let (url, cases) = (server.public_url.clone(), server.app.cases.clone());
        let leader = tokio::spawn(signals.lead(stages.clone(), grace));
        let serving = tokio::spawn(server.run(stages.clone()));
        let key = make_key(&cases).await?;
        let data = data_dir.display().to_string();
        let out = Printer::new(&url, program, Paint::for_stderr(color));
        let shown = tokio::select! {
            shown = show_workflow(&cases, &url, &key, &git, &data, (&out, arguments.exit)) => shown,
            () = stages.drain.cancelled() => Ok(()),
        };
        if arguments.exit || shown.is_err() {
            stages.drain.cancel();
        }
        serving.await??;
        leader.abort();
        shown
    })?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Returns the address to serve on: the requested one; else the default one, if it is free and the demo keeps serving;
/// else any free port.
fn address(arguments: &DemoArgs) -> SocketAddr {
    let usual = SocketAddr::from(([127, 0, 0, 1], 8080));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let free = |address: SocketAddr| std::net::TcpListener::bind(address).is_ok();
    arguments.listen.unwrap_or(if !arguments.exit && free(usual) { usual } else { any })
}

/// Creates an API key that expires after a day.
pub(super) async fn make_key(cases: &UseCases) -> anyhow::Result<String> {
    let expires_at = Some(Machine.now() + Duration::from_secs(24 * 3600));
    let name = "demo".to_owned();
    let new = NewKey { name, scopes: vec![Scope::Write], projects: None, expires_at, allowed_ips: None };
    match cases.create_key(&Caller::command_line(), new, None, |_| String::new()).await? {
        Answered::New(created) => Ok(created.secret),
        Answered::Replayed(_) => bail!("the key was created already"),
    }
}

async fn show_workflow(
    cases: &UseCases,
    url: &str,
    key: &str,
    git: &journeyman_git::Git,
    data: &str,
    (out, exit): (&Printer, bool),
) -> anyhow::Result<()> {
    let client = connect(url, key)?;
    out.line(&out.paint.heading("Journeyman: a prompt becomes a pull request, a follow-up message extends it."))?;
    out.line(
        "The agent is the built-in one with the test model, which follows the [[…]] directives in a prompt. It runs",
    )?;
    out.line("in a sandbox, and needs no real model, key or network.")?;
    out.step("A service")?;
    out.line(&format!("listens on {url}, keeps its data in {data},"))?;
    out.line(&format!("and describes itself at {url}/docs"))?;
    out.step("An API key")?;
    out.command(&format!("{} key create --name demo", out.program))?;
    out.command(&format!("export JOURNEYMAN_KEY={key}"))?;

    out.step("A project with a repository on the built-in code host")?;
    let project = json!({"id": "demo", "repository": "local:demo"});
    out.curl("POST", "/v2/projects", Some(&project))?;
    let project = match client.projects().create(&CreateProject::new("demo", "local:demo")).raw().await {
        // An earlier demo used this data directory.
        Err(error) if error.code() == Some(&ErrorCode::ProjectExists) => client.projects().get("demo").raw().await?,
        answer => answer?,
    };
    out.document(&project, &["id", "repository", "cloneUrl", "model"])?;
    let clone_url = project["cloneUrl"].as_str().context("the project has no cloneUrl")?;
    if sample::push(git, clone_url, key).await? {
        out.command(&format!("git clone {clone_url} && cd demo    # any user name, the key as the password"))?;
        out.commands(&[
            "echo '# Demo' > README.md && git add --all && git commit --message Begin",
            "&& git push origin HEAD:main",
        ])?;
    }

    out.step("A job: the service accepts the prompt at once, and the agent works in the background")?;
    let create = "/v2/agent/demo/job";
    let call = client.jobs().create("demo", &CreateJob::new(FIRST_PROMPT));
    let record = send(call, out, create, FIRST_PROMPT).await?;
    let handle = client.job("demo", record["id"].as_str().unwrap_or_default());
    let job = format!("{create}/{}", handle.id());
    let (record, seen) = settle(&handle, out, &job, 0).await?;

    out.step("A follow-up message: same branch, same session, same pull request")?;
    let call = handle.send_message(&SendMessage::new(FOLLOW_UP));
    send(call, out, &format!("{job}/message"), FOLLOW_UP).await?;
    let (after, _) = settle(&handle, out, &job, seen).await?;
    if record["prLink"] != after["prLink"] || after["prLink"].is_null() {
        bail!("the follow-up did not extend the pull request: {record}, then {after}");
    }
    out.step("What the job changes")?;
    out.curl("GET", &format!("{job}/diff"), None)?;
    out.diff(&String::from_utf8_lossy(&handle.diff().await?))?;
    out.step("Its pull request")?;
    out.line(&out.paint.link(after["prLink"].as_str().unwrap_or_default()))?;
    if exit {
        return Ok(print(&after.to_string())?);
    }
    out.next_steps(key, handle.id())?;
    out.step(&format!("The dashboard of the demo's server ({url})"))?;
    if let Some(link) = super::user::first_link(cases).await? {
        out.line("Open this link and choose a password; it makes you the administrator of this server:")?;
        out.line(&out.paint.link(&link))?;
    }
    out.line("Then open the page of this job:")?;
    Ok(out.line(&out.paint.link(&format!("{url}/projects/demo/jobs/{}", handle.id())))?)
}

/// Sends a prompt, and returns the job's record from the response.
async fn send<T: 'static>(call: Call<T>, out: &Printer, path: &str, prompt: &str) -> anyhow::Result<Value> {
    out.curl("POST", path, Some(&json!({ "prompt": prompt })))?;
    let record = call.raw().await?;
    out.document(&record, &RECORD)?;
    Ok(record)
}

/// Waits until the job is no longer active, and prints its events after `seen`. Returns the job's record and the number
/// of the last event.
async fn settle(handle: &JobHandle, out: &Printer, job: &str, mut seen: u64) -> anyhow::Result<(Value, u64)> {
    out.curl("GET", &format!("{job}?wait=30"), None)?;
    let mut told = seen;
    let record = loop {
        let record = handle.poll(POLL).raw().await?;
        if record["status"] != "active" {
            break record;
        }
        // What keeps the job waiting may need a change by the person who waits for the demo.
        for event in handle.events(told).all().await? {
            if event.kind == "message.waiting" {
                out.lines(&Transcript::new(out.paint).lines(&event.kind, &event.document["data"]))?;
            }
            told = event.seq;
        }
    };
    out.document(&record, &RECORD)?;
    out.line("What the agent did in the meantime:")?;
    let mut transcript = Transcript::new(out.paint);
    for event in handle.events(seen).all().await? {
        out.lines(&transcript.lines(&event.kind, &event.document["data"]))?;
        seen = event.seq;
    }
    if record["status"] != "completed" {
        bail!("the job did not complete");
    }
    Ok((record, seen))
}
