//! `journeyman project`: projects, with or without a running service.
//!
//! Flags are converted to the JSON that a client of the HTTP interface would send, and are then processed by the same
//! code.

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
    /// Print JSON, also for lists
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Create a project and print it
    Create {
        /// ID of the project in URLs: a-z, 0-9 and '-'
        id: ProjectId,
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// List all projects
    List,
    /// Print a project
    Show {
        /// ID of the project
        id: ProjectId,
    },
    /// Change a project and print it; other fields stay unchanged
    Update {
        /// ID of the project
        id: ProjectId,
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Delete a project with its jobs, their logs and its secrets; the repository is not deleted
    Delete {
        /// ID of the project
        id: ProjectId,
    },
}

#[derive(Debug, Args)]
struct Fields {
    /// Repository: a URL, an absolute path on this machine, or local:<name> for the built-in code host, which creates
    /// an empty repository if it does not exist
    #[arg(long)]
    repository: Option<String>,

    /// Branch, tag or commit that jobs start from
    #[arg(long = "ref")]
    reference: Option<String>,

    /// Agent of the project's jobs
    #[arg(long)]
    agent: Option<String>,

    /// Model of the project's jobs
    #[arg(long)]
    model: Option<String>,

    /// Shell command that prepares a new workspace, such as "npm ci"
    #[arg(long)]
    setup: Option<String>,

    /// File with the credential for the repository, or "-" for stdin. There is no option for the credential itself,
    /// because other users can see command lines
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// User name for the credential
    #[arg(long)]
    username: Option<String>,

    /// Environment variable for the setup command and the agent
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// Secret environment variable, read from a file; only for the setup command unless --secret-use says otherwise
    #[arg(long, value_name = "NAME=FILE")]
    secret_file: Vec<String>,

    /// Uses of a secret, separated by commas: setup, agent, or model (a key of the model's provider)
    #[arg(long, value_name = "NAME=setup,agent,model")]
    secret_use: Vec<String>,

    /// Time limit of a run, in seconds
    #[arg(long, value_name = "NUMBER")]
    run_seconds: Option<u32>,

    /// File with any fields of the HTTP interface as a JSON object, or "-" for stdin; null restores a default
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
}

/// Runs a command.
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
                        bail!("a project with this ID already exists; change it with: journeyman project update")
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
    /// Returns the fields as a client of the HTTP interface would send them.
    fn patch(&self) -> anyhow::Result<Map<String, Value>> {
        let mut patch = match &self.patch {
            None => Map::new(),
            Some(path) => match serde_json::from_str(&read(path)?) {
                Ok(Value::Object(patch)) => patch,
                Ok(_) => bail!("{} must contain a JSON object", path.display()),
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

/// Sets the field `inner` of the object in the field `outer`.
fn put(patch: &mut Map<String, Value>, outer: &str, inner: &str, value: Value) -> anyhow::Result<()> {
    let place = patch.entry(outer).or_insert_with(|| json!({}));
    let Value::Object(place) = place else { bail!("{outer} must be an object") };
    place.insert(inner.to_owned(), value);
    Ok(())
}

/// Reads a file, or stdin if the path is `-`.
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
        return print_json(&ProjectList {
            projects: projects.iter().map(|project| show(project, &url)).collect(),
            next_cursor: None,
        });
    }
    let row = |project: &Project| {
        let reference = project.reference.clone().unwrap_or_else(|| "-".to_owned());
        [project.id.to_string(), project.repository.clone(), reference, project.agent.clone(), project.model.clone()]
    };
    let rows = projects.iter().map(row).collect();
    Ok(print_lines(&table(["ID", "REPOSITORY", "REF", "AGENT", "MODEL"], rows))?)
}
