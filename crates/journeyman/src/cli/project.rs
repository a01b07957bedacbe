//! `journeyman project`: projects, in the store itself.
//!
//! Flags become the same JSON that a client of the interface would send, and go the same way from there.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{Forges, Store};
use journeyman_core::project::Project;
use journeyman_core::time::Clock;
use journeyman_http::wire::project::{ProjectList, change, create, show};
use serde_json::{Map, Value, json};

use super::store::{StoreArgs, audit, block_on, print_json, print_lines};
use super::table::table;
use crate::app;
use crate::config::Settings;
use crate::system::Machine;

#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON, lists too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Makes a project and prints it
    Create {
        /// Its name in URLs: a-z, 0-9 and '-'
        id: ProjectId,
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Lists all projects
    List,
    /// Prints a project
    Show {
        /// The project
        id: ProjectId,
    },
    /// Changes a project and prints it; what is not named stays
    Update {
        /// The project
        id: ProjectId,
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Removes a project with its jobs, their logs and its secrets; its repository stays
    Delete {
        /// The project
        id: ProjectId,
    },
}

#[derive(Debug, Args)]
struct Fields {
    /// The repository: a URL, an absolute path on this machine, or local:<name> for one on the built-in code host, made
    /// empty if it is not there
    #[arg(long)]
    repository: Option<String>,

    /// The branch, tag or commit that jobs start from
    #[arg(long = "ref")]
    reference: Option<String>,

    /// The agent of its jobs
    #[arg(long)]
    agent: Option<String>,

    /// The model of its jobs
    #[arg(long)]
    model: Option<String>,

    /// A shell command that prepares a fresh workspace, such as "npm ci"
    #[arg(long)]
    setup: Option<String>,

    /// A file with the credential for the repository ("-" for stdin); never on the command line, where others see it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The user name that goes with the credential
    #[arg(long)]
    username: Option<String>,

    /// A variable for the setup command and the agent
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// A secret variable, read from a file; for the setup command alone unless --secret-use says otherwise
    #[arg(long, value_name = "NAME=FILE")]
    secret_file: Vec<String>,

    /// What a secret is for: setup, agent, or model (a key of the model's provider), or several
    #[arg(long, value_name = "NAME=setup,agent,model")]
    secret_use: Vec<String>,

    /// Seconds that one run may take
    #[arg(long, value_name = "NUMBER")]
    run_seconds: Option<u32>,

    /// A file with any of the fields of the interface as JSON ("-" for stdin); null gives a default back
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
}

/// Carries out a command.
pub(crate) fn run(arguments: ProjectArgs) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        match arguments.command {
            ProjectCommand::Create { id, fields } => {
                let mut body = fields.patch()?;
                body.insert("id".to_owned(), Value::String(id.to_string()));
                let (new, secrets) = create(Value::Object(body), Machine.now()).map_err(|error| anyhow!(error))?;
                check_agent(&settings, &new)?;
                if store.project(id).await?.is_some() {
                    bail!("there is a project with this id already; change it with: journeyman project update");
                }
                let subject = prepare(&settings, &store, &new).await?;
                let created = store.create_project(new, secrets).await?;
                store.note(audit("project.created", subject)).await?;
                print_project(&settings, &created)
            }
            ProjectCommand::List => list(&settings, &store.projects().await?, json),
            ProjectCommand::Show { id } => print_project(&settings, &find(&*store, id).await?),
            ProjectCommand::Update { id, fields } => {
                let patch = Value::Object(fields.patch()?);
                let (new, secrets) = change(find(&*store, id).await?, patch).map_err(|error| anyhow!(error))?;
                check_agent(&settings, &new)?;
                let subject = prepare(&settings, &store, &new).await?;
                let changed = store.update_project(new, secrets).await?;
                store.note(audit("project.changed", subject)).await?;
                print_project(&settings, &changed)
            }
            ProjectCommand::Delete { id } => {
                store.delete_project(id.clone()).await?;
                Ok(store.note(audit("project.deleted", id)).await?)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Fields {
    /// The fields as a client of the interface would send them.
    fn patch(&self) -> anyhow::Result<Map<String, Value>> {
        let mut patch = match &self.patch {
            None => Map::new(),
            Some(path) => match serde_json::from_str(&read(path)?) {
                Ok(Value::Object(patch)) => patch,
                Ok(_) => bail!("{} must hold a JSON object", path.display()),
                Err(error) => bail!("{} is not JSON: {error}", path.display()),
            },
        };
        let named = [
            ("repository", &self.repository),
            ("ref", &self.reference),
            ("agent", &self.agent),
            ("model", &self.model),
            ("setup", &self.setup),
        ];
        for (name, value) in named {
            patch.extend(value.clone().map(|value| (name.to_owned(), Value::String(value))));
        }
        if let Some(seconds) = self.run_seconds {
            put(&mut patch, "limits", "runSeconds", json!(seconds))?;
        }
        if let Some(username) = &self.username {
            put(&mut patch, "codeHost", "username", json!(username))?;
        }
        if let Some(path) = &self.token_file {
            put(&mut patch, "codeHost", "token", json!(read(path)?.trim()))?;
        }
        for pair in &self.env {
            let (name, value) = pair.split_once('=').context("--env needs the form NAME=VALUE")?;
            put(&mut patch, "environment", name, json!(value))?;
        }
        for pair in &self.secret_file {
            let (name, path) = pair.split_once('=').context("--secret-file needs the form NAME=FILE")?;
            let value = read(&PathBuf::from(path))?;
            put(&mut patch, "secrets", name, json!(value.trim_end_matches(['\r', '\n'])))?;
        }
        for pair in &self.secret_use {
            let (name, uses) = pair.split_once('=').context("--secret-use needs the form NAME=setup,agent,model")?;
            put(&mut patch, "secretUses", name, json!(uses.split(',').collect::<Vec<_>>()))?;
        }
        Ok(patch)
    }
}

/// Sets a field of a field.
fn put(patch: &mut Map<String, Value>, outer: &str, inner: &str, value: Value) -> anyhow::Result<()> {
    let place = patch.entry(outer).or_insert_with(|| json!({}));
    let Value::Object(place) = place else { bail!("{outer} must be an object") };
    place.insert(inner.to_owned(), value);
    Ok(())
}

/// A file's text; `-` is stdin.
fn read(path: &PathBuf) -> anyhow::Result<String> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

async fn find(store: &dyn Store, id: ProjectId) -> anyhow::Result<Project> {
    let found = store.project(id.clone()).await?;
    found.with_context(|| format!("there is no project {id}; `journeyman project list` shows those there are"))
}

/// Refuses an agent that is not configured, and one that does not ask permission for what the project refuses.
fn check_agent(settings: &Settings, project: &Project) -> anyhow::Result<()> {
    let Some(spec) = settings.agents.get(&project.agent) else {
        let known: Vec<&str> = settings.agents.keys().map(String::as_str).collect();
        bail!("no agent {:?} is configured; there are: {}", project.agent, known.join(", "));
    };
    Ok(spec.check_permissions(&project.agent, &project.settings.sandbox)?)
}

/// Makes the repository on the built-in code host; returns the subject of the audit entry, which names an address that
/// only an administrator may give. The command line counts as an administrator.
async fn prepare(settings: &Settings, store: &Arc<dyn Store>, project: &Project) -> anyhow::Result<String> {
    let hosts = app::code_hosts(settings, store, &settings.public_url(settings.listen))?;
    let restricted = hosts.restricted_host(&project.repository).await;
    hosts.prepare(project).await.context("the repository could not be created")?;
    Ok(restricted.map_or_else(|| project.id.to_string(), |host| format!("{} (repository at {host})", project.id)))
}

fn print_project(settings: &Settings, project: &Project) -> anyhow::Result<()> {
    print_json(&show(project, &settings.public_url(settings.listen)))
}

fn list(settings: &Settings, projects: &[Project], json: bool) -> anyhow::Result<()> {
    if json {
        let url = settings.public_url(settings.listen);
        return print_json(&ProjectList { projects: projects.iter().map(|project| show(project, &url)).collect() });
    }
    let row = |project: &Project| {
        let reference = project.reference.clone().unwrap_or_else(|| "-".to_owned());
        [project.id.to_string(), project.repository.clone(), reference, project.agent.clone(), project.model.clone()]
    };
    let rows = projects.iter().map(row).collect();
    Ok(print_lines(&table(["ID", "REPOSITORY", "REF", "AGENT", "MODEL"], rows))?)
}
