//! `journeyman project`: projects, in the store itself.
//!
//! Flags become the same JSON that a client of the interface would send, and go the same way from there.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use journeyman_app::{Answered, Caller, Error, Refusal, RefusalKind, UseCases};
use journeyman_core::admin::{AdminRefusal, Precondition};
use journeyman_core::ids::ProjectId;
use journeyman_core::project::Project;
use journeyman_core::time::Clock;
use journeyman_http::wire::project::{ProjectList, change, create, show};
use serde_json::{Map, Value, json};

use super::store::{StoreArgs, block_on, print_json, print_lines};
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
        let (cases, caller) = (app::use_cases(&settings, &store)?, Caller::command_line());
        match arguments.command {
            ProjectCommand::Create { id, fields } => {
                let mut body = fields.patch()?;
                body.insert("id".to_owned(), Value::String(id.to_string()));
                let proposal = create(Value::Object(body), Machine.now()).map_err(|error| anyhow!(error))?;
                match cases.create_project(&caller, proposal, None, |_| String::new()).await {
                    Ok(Answered::New(created)) => print_project(&settings, &created),
                    Ok(Answered::Replayed(_)) => Ok(()),
                    Err(Error::Admin(AdminRefusal::ProjectExists)) => {
                        bail!("there is a project with this ID already; change it with: journeyman project update")
                    }
                    Err(error) => Err(error.into()),
                }
            }
            ProjectCommand::List => list(&settings, &cases.projects(&caller).await?, json),
            ProjectCommand::Show { id } => print_project(&settings, &find(&cases, &caller, &id).await?),
            ProjectCommand::Update { id, fields } => {
                find(&cases, &caller, &id).await?;
                let patch = Value::Object(fields.patch()?);
                let edit = Box::new(move |project| change(project, patch.clone()));
                print_project(&settings, &cases.change_project(&caller, &id, Precondition::None, edit).await?)
            }
            ProjectCommand::Delete { id } => Ok(cases.delete_project(&caller, &id, Precondition::None).await?),
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

async fn find(cases: &UseCases, caller: &Caller, id: &ProjectId) -> anyhow::Result<Project> {
    let missing = || format!("there is no project {id}; `journeyman project list` lists the projects");
    cases.project(caller, id).await.map_err(|error| match error {
        Error::Refused(Refusal { kind: RefusalKind::ProjectNotFound, .. }) => anyhow!(missing()),
        error => error.into(),
    })
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
