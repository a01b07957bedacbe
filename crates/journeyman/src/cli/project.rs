//! `journeyman project`: projects, in the database of an installation or on a server.
//!
//! Flags are converted to the JSON that a client of the HTTP interface would send, and are then processed by the same
//! code.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use journeyman_app::{Answered, Caller, Error, Refusal, RefusalKind, UseCases};
use journeyman_client::Method;
use journeyman_core::ids::ProjectId;
use journeyman_core::model::Effort;
use journeyman_core::project::Project;
use journeyman_core::refusal::{self, ResourceKind};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::version::Precondition;
use journeyman_http::wire::project::{change, create, show};
use serde_json::{Map, Value, json};

use super::backend::{Backend, BackendArgs};
use super::confirm::ConfirmArgs;
use super::connection::ConnectionArgs;
use super::exit::{Exit, Failure, HELP, usage};
use super::look::{Look, cell};
use super::paint::ColorWhen;
use super::session::{Session, with_connection};
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use super::{browser, complete, effort};
use crate::app;
use crate::config::{client_environment, whole};
use crate::system::Machine;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct ProjectArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Create a project and print it
    #[command(
        after_help = "Examples:\n  journeyman project create shop --repository local:shop\n  journeyman project create \
                      shop --repository https://github.com/acme/shop.git --token-file token.txt --model \
                      anthropic/claude-sonnet-5-5"
    )]
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
        #[arg(add = ArgValueCandidates::new(complete::projects))]
        id: ProjectId,
        /// Open the project's page in the browser instead
        #[arg(short, long)]
        web: bool,
    },
    /// Change a project and print it; other fields stay unchanged
    Update {
        /// ID of the project
        #[arg(add = ArgValueCandidates::new(complete::projects))]
        id: ProjectId,
        #[command(flatten)]
        fields: Box<Fields>,
    },
    /// Delete a project with its jobs, their logs and its secrets; the repository is not deleted
    Delete {
        /// ID of the project
        #[arg(add = ArgValueCandidates::new(complete::projects))]
        id: ProjectId,
        #[command(flatten)]
        confirm: ConfirmArgs,
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
    #[arg(long, add = ArgValueCandidates::new(complete::agents))]
    agent: Option<String>,

    /// Model of the project's jobs
    #[arg(long, add = ArgValueCandidates::new(complete::models))]
    model: Option<String>,

    /// Effort of the model in the project's jobs
    #[arg(long, value_parser = effort::parser())]
    effort: Option<Effort>,

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
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>)]
    run_seconds: Option<u32>,

    /// File with any fields of the HTTP interface as a JSON object, or "-" for stdin; null restores a default
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
}

/// Runs a command.
pub(crate) fn run(arguments: ProjectArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let ProjectArgs { backend, json, command } = arguments;
    match backend.choose()? {
        Backend::Store(store) => in_store(store, command, json, color),
        Backend::Server(connection) => on_server(connection, command, json, color),
    }
}

/// Carries out a command on the database of an installation.
fn in_store(store: StoreArgs, command: ProjectCommand, json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let (settings, store) = store.open().await?;
        let (cases, caller) = (app::use_cases(&settings, &store)?, Caller::command_line());
        let url = settings.public_url(settings.listen);
        let look = Look::for_stdout(color);
        let print_project = |project: &Project| print_project(look, &serde_json::to_value(show(project, &url))?, json);
        match command {
            ProjectCommand::Create { id, fields } => {
                let proposal = create(body(&id, &fields)?, Machine.now()).map_err(usage)?;
                match cases.create_project(&caller, proposal, None, |_| String::new()).await {
                    Ok(Answered::New(created)) => print_project(&created),
                    Ok(Answered::Replayed(_)) => Ok(()),
                    Err(Error::Admin(refusal)) if refusal.is(refusal::RefusalKind::Exists, ResourceKind::Project) => {
                        bail!("a project with this ID already exists; change it with: journeyman project update")
                    }
                    Err(error) => Err(error.into()),
                }
            }
            ProjectCommand::List => {
                let all = cases.projects(&caller).await?;
                let all: Result<Vec<Value>, _> = all.iter().map(|one| serde_json::to_value(show(one, &url))).collect();
                print_list(look, &all?, json)
            }
            ProjectCommand::Show { id, web } => {
                let project = find(&cases, &caller, &id).await?;
                if web { open_page(&format!("{url}/"), &id) } else { print_project(&project) }
            }
            ProjectCommand::Update { id, fields } => {
                find(&cases, &caller, &id).await?;
                let patch = Value::Object(fields.patch()?);
                let edit = Box::new(move |project| change(project, patch.clone()));
                print_project(&cases.change_project(&caller, &id, Precondition::None, edit).await?)
            }
            ProjectCommand::Delete { id, confirm } => {
                confirm.confirm(&deletion(&id), id.as_str())?;
                cases.delete_project(&caller, &id, Precondition::None).await?;
                print_deleted(&id, json)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out a command on a server.
fn on_server(
    connection: ConnectionArgs,
    command: ProjectCommand,
    json: bool,
    color: ColorWhen,
) -> anyhow::Result<ExitCode> {
    with_connection(connection, json, color, async |session| carry_out(&session, command).await)
}

async fn carry_out(session: &Session, command: ProjectCommand) -> Result<Exit, Failure> {
    let (client, look, json) = (&session.client, session.look, session.json);
    match command {
        ProjectCommand::Create { id, fields } => {
            let key = Machine.uuid(look.now).to_string();
            let call = client.request(Method::POST, "/v2/projects").idempotency_key(&key).json(&body(&id, &fields)?);
            print_project(look, &call.await?.json::<Value>()?, json)?;
        }
        ProjectCommand::List => print_list(look, &client.projects().list().raw().all().await?, json)?,
        ProjectCommand::Show { id, web } => {
            let project = client.projects().get(id.as_str()).raw().await?;
            if web {
                open_page(client.url().as_str(), &id)?;
            } else {
                print_project(look, &project, json)?;
            }
        }
        ProjectCommand::Update { id, fields } => {
            let call = client.request(Method::PATCH, &format!("/v2/projects/{id}"));
            let changed = call.json(&Value::Object(fields.patch()?)).await?.json::<Value>()?;
            print_project(look, &changed, json)?;
        }
        ProjectCommand::Delete { id, confirm } => {
            confirm.confirm(&deletion(&id), id.as_str())?;
            client.projects().delete(id.as_str()).await?;
            print_deleted(&id, json)?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the request that creates a project.
fn body(id: &ProjectId, fields: &Fields) -> anyhow::Result<Value> {
    let mut body = fields.patch()?;
    body.insert("id".to_owned(), Value::String(id.to_string()));
    Ok(Value::Object(body))
}

fn open_page(url: &str, id: &ProjectId) -> anyhow::Result<()> {
    browser::open(&format!("{url}projects/{id}"), &client_environment())
}

impl Fields {
    /// Returns the fields as a client of the HTTP interface would send them.
    fn patch(&self) -> anyhow::Result<Map<String, Value>> {
        let mut patch = match &self.patch {
            None => Map::new(),
            Some(path) => match serde_json::from_str(&read(path)?) {
                Ok(Value::Object(patch)) => patch,
                Ok(_) => return Err(usage(format!("{} must contain a JSON object", path.display()))),
                Err(error) => return Err(usage(format!("{} is not JSON: {error}", path.display()))),
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
        if let Some(effort) = self.effort {
            patch.insert("effort".to_owned(), json!(effort));
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
            let (name, value) = pair.split_once('=').ok_or_else(|| usage("--env needs the form NAME=VALUE"))?;
            put(&mut patch, "environment", name, json!(value))?;
        }
        for pair in &self.secret_file {
            let (name, path) = pair.split_once('=').ok_or_else(|| usage("--secret-file needs the form NAME=FILE"))?;
            let value = read(&PathBuf::from(path))?;
            put(&mut patch, "secrets", name, json!(value.trim_end_matches(['\r', '\n'])))?;
        }
        for pair in &self.secret_use {
            let form = || usage("--secret-use needs the form NAME=setup,agent,model");
            let (name, uses) = pair.split_once('=').ok_or_else(form)?;
            put(&mut patch, "secretUses", name, json!(uses.split(',').collect::<Vec<_>>()))?;
        }
        Ok(patch)
    }
}

/// Sets the field `inner` of the object in the field `outer`.
fn put(patch: &mut Map<String, Value>, outer: &str, inner: &str, value: Value) -> anyhow::Result<()> {
    let field = patch.entry(outer).or_insert_with(|| json!({}));
    let Value::Object(field) = field else { return Err(usage(format!("{outer} must be an object"))) };
    field.insert(inner.to_owned(), value);
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

fn print_project(look: Look, project: &Value, json: bool) -> anyhow::Result<()> {
    if json { print_json(project) } else { Ok(print_lines(&lines(look, project))?) }
}

/// What becomes of the repository of a deleted project.
const REPOSITORY: &str = "a repository local:NAME is removed with its branches and pull requests unless another project \
                          uses it, and a repository elsewhere remains";

/// Returns the sentence that a person confirms.
fn deletion(id: &ProjectId) -> String {
    format!("This deletes the project {id} with its jobs, their logs and its secrets; {REPOSITORY}")
}

/// Prints that a project was deleted, for people.
fn print_deleted(id: &ProjectId, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(());
    }
    let text = format!("Deleted the project {id} with its jobs, their logs and its secrets; {REPOSITORY}.");
    Ok(print(&text)?)
}

fn print_list(look: Look, projects: &[Value], json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(&json!({ "projects": projects, "nextCursor": null }));
    }
    Ok(print_lines(&listed(rows(look, projects), "No projects; `journeyman project create` creates one."))?)
}

fn rows(look: Look, projects: &[Value]) -> Vec<String> {
    let row = |project: &Value| ["id", "repository", "ref", "agent", "model"].map(|field| cell(&project[field]));
    let head = [Whole("ID"), Text("REPOSITORY"), Extra("REF"), Extra("AGENT"), Extra("MODEL")];
    headed(look, head, projects.iter().map(row).collect())
}

/// Formats the fields of a project that people look at most; `--json` has all.
fn lines(look: Look, project: &Value) -> Vec<String> {
    let names = |names: Vec<String>| if names.is_empty() { "-".to_owned() } else { names.join(", ") };
    let environment = project["environment"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    let uses = |name: &str| {
        let uses = project["secretUses"][name].as_array().into_iter().flatten().map(cell).collect::<Vec<_>>();
        if uses.is_empty() { name.to_owned() } else { format!("{name} ({})", uses.join(", ")) }
    };
    let secrets = project["secrets"].as_array().into_iter().flatten().map(|name| uses(&cell(name)));
    let seconds = &project["limits"]["runSeconds"];
    look.fields([
        ("id", cell(&project["id"])),
        ("repository", cell(&project["repository"])),
        ("clone URL", look.link(&project["cloneUrl"])),
        ("ref", cell(&project["ref"])),
        ("agent", cell(&project["agent"])),
        ("model", cell(&project["model"])),
        ("effort", cell(&project["effort"])),
        ("setup", cell(&project["setup"])),
        ("run limit", if seconds.is_null() { "-".to_owned() } else { format!("{} s", cell(seconds)) }),
        ("environment", names(environment.collect())),
        ("secrets", names(secrets.collect())),
        ("created", look.ago(&project["createdAt"])),
    ])
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::*;
    use crate::cli::paint::Paint;

    const LOOK: Look = Look { paint: Paint::OFF, now: Timestamp::from_micros(60_000_000), columns: None };

    #[test]
    fn a_project_is_printed_as_lines_without_values_of_its_environment() {
        let project = json!({
            "id": "shop", "repository": "local:shop", "cloneUrl": "http://h/git/shop.git", "ref": null, "agent": "a",
            "model": "m", "setup": null, "limits": {"runSeconds": 600}, "environment": {"CI": "s3cret"},
            "secrets": ["NPM", "X"], "secretUses": {"NPM": ["setup", "agent"]}, "createdAt": "1970-01-01T00:00:00.000Z",
        });
        let lines = lines(LOOK, &project);
        for line in [
            "id          shop",
            "clone URL   http://h/git/shop.git",
            "ref         -",
            "run limit   600 s",
            "environment CI",
            "secrets     NPM (setup, agent), X",
            "created     1 minute ago",
        ] {
            assert!(lines.contains(&line.to_owned()), "{line}: {lines:#?}");
        }
        assert!(!lines.concat().contains("s3cret"));
        assert_eq!(rows(LOOK, &[project])[1], "shop  local:shop  -    a      m");
    }
}
