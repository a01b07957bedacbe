//! `journeyman demo`: the main job from nothing, shown step by step. What it shows is done over HTTP, as a client would.

pub(super) mod sample;
mod show;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::ports::{KeyStore, Store};
use journeyman_core::time::Clock;
use serde_json::{Value, json};

use self::show::Teller;
use super::job::told;
use super::store::{audit, print};
use crate::app;
use crate::client::{Client, ClientError, Request};
use crate::config::{self, Layer};
use crate::lifecycle::{Signals, Stages};
use crate::server::Server;
use crate::system::Machine;
use crate::telemetry;

const FIRST_PROMPT: &str = "Add a script that greets the reader\n\n\
                            [[write greet.sh|#!/bin/sh\\necho \"Hello, reader!\"]]\n\
                            [[run chmod +x greet.sh && ./greet.sh]]";

const FOLLOW_UP: &str = "Let it greet people by name\n\n\
                         [[write greet.sh|#!/bin/sh\\necho \"Hello, ${1:-reader}!\"]]\n\
                         [[run ./greet.sh Ada]]";

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// End when all is shown, instead of serving on; the last line of stdout is the final job's record
    #[arg(long)]
    exit: bool,

    /// The address to serve on [default: 127.0.0.1:8080, or any port that is free]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Keep the data in this folder [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Shows the main job.
pub(crate) fn run(arguments: DemoArgs) -> anyhow::Result<ExitCode> {
    app::leftovers::remove_temporary(&std::env::temp_dir(), "journeyman-demo-", Machine.now());
    let temporary = tempfile::Builder::new().prefix("journeyman-demo-").tempdir()?;
    let data_dir = arguments.data_dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let settings = config::isolated(Layer {
        data_dir: Some(data_dir.clone()),
        listen: Some(address(&arguments)),
        // What an agent does is shown from its events; the log is for what goes wrong.
        log: Some("warn".to_owned()),
        ..Layer::default()
    })?;
    telemetry::begin(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (stages, signals) = (Stages::default(), Signals::listen()?);
        let (git, program) = (app::git(&settings)?, program(&settings.path)?);
        let grace = settings.grace;
        let server = Server::bind(settings).await?;
        let (url, store) = (server.public_url.clone(), server.app.store.clone());
        let leader = tokio::spawn(signals.lead(stages.clone(), grace));
        let serving = tokio::spawn(server.run(stages.clone()));
        let key = make_key(&*store).await?;
        let data = data_dir.display().to_string();
        let shown = tokio::select! {
            shown = story(&*store, &url, &key, &git, &data, (&program, arguments.exit)) => shown,
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

/// What was asked for; else the usual address where a person is to read it, and any other where that is taken.
fn address(arguments: &DemoArgs) -> SocketAddr {
    let usual = SocketAddr::from(([127, 0, 0, 1], 8080));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let free = |address: SocketAddr| std::net::TcpListener::bind(address).is_ok();
    arguments.listen.unwrap_or(if !arguments.exit && free(usual) { usual } else { any })
}

/// Returns the command that starts this program in a shell: its name if `PATH` has it, else its path.
fn program(path: &str) -> anyhow::Result<String> {
    let own = std::env::current_exe().context("the path of this program could not be determined")?;
    let is_found = std::env::split_paths(path).any(|folder| {
        let there = folder.join("journeyman").canonicalize();
        there.is_ok_and(|there| own.canonicalize().is_ok_and(|own| own == there))
    });
    if is_found {
        return Ok("journeyman".to_owned());
    }
    let path = own.display().to_string();
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.+".contains(&byte));
    Ok(if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) })
}

/// A key for a day.
pub(super) async fn make_key(store: &dyn KeyStore) -> anyhow::Result<String> {
    let now = Machine.now();
    let expires_at = Some(now + std::time::Duration::from_secs(24 * 3600));
    let name = "demo".to_owned();
    let new = NewKey { name, scopes: vec![Scope::Write], projects: None, expires_at, allowed_ips: None };
    let (key, secret) = new.make(("cli", None), now, &Machine)?;
    store.create_key(key.clone(), audit("key.created", key.id)).await?;
    Ok(secret)
}

async fn story(
    store: &dyn Store,
    url: &str,
    key: &str,
    git: &journeyman_git::Git,
    data: &str,
    (program, exit): (&str, bool),
) -> anyhow::Result<()> {
    let client = Client::new(url, key)?;
    let tell = Teller::new(url, program.to_owned());
    tell.line("Journeyman: a prompt becomes a pull request, a follow-up message extends it.")?;
    tell.line(
        "The agent here is the built-in one with the test model, which does what the [[…]] in a prompt say; it runs",
    )?;
    tell.line("in a sandbox. No model, no key, no network.")?;
    tell.step("A service")?;
    tell.line(&format!("listens on {url}, keeps its data in {data}, describes itself at {url}/docs"))?;
    tell.step("An API key")?;
    tell.command(&format!("{} key create --name demo", tell.program))?;
    tell.line(&format!("export JOURNEYMAN_KEY={key}"))?;

    tell.step("A project with a repository on the built-in code host")?;
    let project = json!({"id": "demo", "repository": "local:demo"});
    tell.curl("POST", "/v2/projects", Some(&project))?;
    let project = match client.json(Request::post("/v2/projects").body(&project, None)).await {
        // A folder that a demo was in before.
        Err(ClientError::Refused { body, .. }) if body["code"] == "project_exists" => {
            client.json(Request::get("/v2/projects/demo")).await?
        }
        answer => answer?,
    };
    tell.document(&project)?;
    let clone_url = project["cloneUrl"].as_str().context("the project has no cloneUrl")?;
    if sample::push(git, clone_url, key).await? {
        tell.command(&format!("git clone {clone_url} && cd demo    # any user name, the key as the password"))?;
        tell.command(
            "echo '# Demo' > README.md && git add --all && git commit --message Begin && git push origin HEAD:main",
        )?;
    }

    tell.step("A job: the prompt is accepted at once, the agent works behind the answer")?;
    let create = "/v2/agent/demo/job";
    let record = send(&client, &tell, create, FIRST_PROMPT).await?;
    let job = format!("{create}/{}", record["id"].as_str().unwrap_or_default());
    let (record, seen) = settle(&client, &tell, &job, 0).await?;

    tell.step("A follow-up message: same branch, same session, same pull request")?;
    send(&client, &tell, &format!("{job}/message"), FOLLOW_UP).await?;
    let (after, _) = settle(&client, &tell, &job, seen).await?;
    if record["prLink"] != after["prLink"] || after["prLink"].is_null() {
        bail!("the follow-up did not extend the pull request: {record} then {after}");
    }
    tell.step("What the job changes")?;
    tell.curl("GET", &format!("{job}/diff"), None)?;
    tell.block(&String::from_utf8_lossy(&client.bytes(Request::get(format!("{job}/diff"))).await?))?;
    tell.step("Its pull request")?;
    tell.line(after["prLink"].as_str().unwrap_or_default())?;
    if !exit {
        tell.step("The dashboard")?;
        tell.line("Open this link and choose a password; it makes you the administrator of this demo:")?;
        tell.line(&super::user::link(store, url, None).await?)?;
        tell.line(&format!(
            "Then the conversation of this job is at {url}/projects/demo/jobs/{}",
            job.rsplit('/').next().unwrap_or_default()
        ))?;
        return Ok(tell.onward(url, key, job.rsplit('/').next().unwrap_or_default())?);
    }
    Ok(print(&after.to_string())?)
}

/// Sends a prompt; the record that is answered at once.
async fn send(client: &Client, tell: &Teller, path: &str, prompt: &str) -> anyhow::Result<Value> {
    let body = json!({ "prompt": prompt });
    tell.curl("POST", path, Some(&body))?;
    let key = format!("demo-{:016x}", rand::Rng::next_u64(&mut rand::rng()));
    let record = client.json(Request::post(path).body(&body, Some(&key))).await?;
    tell.document(&record)?;
    Ok(record)
}

/// Waits for the job and tells what its agent did since event `seen`; the record then, and the last event.
async fn settle(client: &Client, tell: &Teller, job: &str, seen: u64) -> anyhow::Result<(Value, u64)> {
    tell.curl("GET", &format!("{job}?wait=30"), None)?;
    let record = loop {
        let record = client.json(Request::get(job).wait(30)).await?;
        if record["status"] != "active" {
            break record;
        }
    };
    tell.document(&record)?;
    let request = Request::get(format!("{job}/events"));
    let request = request.query("after", Some(seen.to_string())).query("limit", Some("1000".to_owned()));
    let page = client.json(request).await?;
    tell.line("what happened meanwhile:")?;
    for event in page["events"].as_array().unwrap_or(&Vec::new()) {
        let lines = told(event["type"].as_str().unwrap_or_default(), &event["data"]);
        lines.iter().try_for_each(|line| tell.block(line))?;
    }
    if record["status"] != "completed" {
        bail!("the job did not complete");
    }
    Ok((record, page["nextAfter"].as_u64().unwrap_or(seen)))
}
