//! `journeyman template`: the templates of a project, on any server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use journeyman_client::models::{Change, ChangeTemplate, CreateTemplate, Template};
use journeyman_core::template::name_key;
use serde_json::Value;

use super::complete;
use super::confirm::ConfirmArgs;
use super::exit::{Exit, Failure, HELP};
use super::look::{Look, cell, plain};
use super::paint::ColorWhen;
use super::prompt::prompt;
use super::session::{ServerArgs, Session, with_session};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TemplateArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    /// Create a template, and print it
    Create {
        /// Name of the template
        name: String,
        /// Prompt for the agent; "-" reads it from stdin
        prompt: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// List templates, by name
    List,
    /// Show a template
    Show {
        /// Name or ID of the template
        #[arg(add = ArgValueCandidates::new(complete::templates))]
        template: String,
    },
    /// Change a template, and print it; other fields stay unchanged
    Update {
        /// Name or ID of the template
        #[arg(add = ArgValueCandidates::new(complete::templates))]
        template: String,
        /// New name
        #[arg(long)]
        name: Option<String>,
        /// Prompt for the agent; "-" reads it from stdin
        #[arg(long)]
        prompt: Option<String>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Delete a template; jobs that were created from it stay
    Delete {
        /// Name or ID of the template
        #[arg(add = ArgValueCandidates::new(complete::templates))]
        template: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
struct SettingArgs {
    /// Note for the people who choose a template
    #[arg(long)]
    description: Option<String>,
    /// Agent of the jobs; "" means the project's
    #[arg(long)]
    agent: Option<String>,
    /// Model of the jobs; "" means the project's
    #[arg(long)]
    model: Option<String>,
    /// Label of the jobs; can be repeated, and replaces all labels; "" means none
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
}

impl SettingArgs {
    /// Returns all labels; `None` if none was given.
    fn labels(&self) -> Option<Vec<String>> {
        let labels = || self.label.iter().filter(|label| !label.is_empty()).cloned().collect();
        (!self.label.is_empty()).then(labels)
    }
}

/// Converts an option to a change: an empty text restores the default.
fn change(given: Option<String>) -> Change<String> {
    match given {
        None => Change::Keep,
        Some(text) if text.is_empty() => Change::Reset,
        Some(text) => Change::Set(text),
    }
}

/// Runs a command of `journeyman template`.
pub(crate) fn run(arguments: TemplateArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    with_session(arguments.server, color, async |session| carry_out(&session, arguments.command).await)
}

async fn carry_out(session: &Session, command: TemplateCommand) -> Result<Exit, Failure> {
    let (templates, project, look) = (session.client.templates(), session.project.as_str(), session.look);
    match command {
        TemplateCommand::Create { name, prompt: text, settings } => {
            let mut template = CreateTemplate::new(name, prompt(text)?);
            template.labels = settings.labels();
            template.description = settings.description;
            template.agent = settings.agent.filter(|agent| !agent.is_empty());
            template.model = settings.model.filter(|model| !model.is_empty());
            session.show(&templates.create(project, &template).raw().await?, |made| view(look, made))?;
        }
        TemplateCommand::List => {
            let none = format!("No templates in {project}; `journeyman template create` creates one.");
            let all = templates.list(project).raw().all().await?;
            session.print_rows(&all, |all| listed(rows(look, all), &none))?;
        }
        TemplateCommand::Show { template } => {
            let id = id_of(session, &template).await?;
            session.show(&templates.get(project, &id).raw().await?, |found| view(look, found))?;
        }
        TemplateCommand::Update { template, name, prompt: text, settings } => {
            let id = id_of(session, &template).await?;
            let mut changes = ChangeTemplate::new();
            (changes.name, changes.prompt) = (name, text.map(prompt).transpose()?);
            changes.labels = settings.labels();
            changes.description = settings.description;
            (changes.agent, changes.model) = (change(settings.agent), change(settings.model));
            session.show(&templates.change(project, &id, &changes).raw().await?, |changed| view(look, changed))?;
        }
        TemplateCommand::Delete { template, confirm } => {
            let id = id_of(session, &template).await?;
            confirm.confirm(&format!("This deletes the template {template}"), &template)?;
            templates.delete(project, &id).await?;
            session.say(&format!("Deleted the template {}.", plain(&template)))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns a template by its name or its ID.
pub(super) async fn find(session: &Session, named: &str) -> Result<Template, Failure> {
    let id = id_of(session, named).await?;
    Ok(session.client.templates().get(&session.project, &id).await?)
}

/// Returns the ID of a template. A text that is neither a name nor an ID is returned as it is, so that the answer of the
/// server says that there is no such template.
async fn id_of(session: &Session, named: &str) -> Result<String, Failure> {
    if named.starts_with("tpl_") {
        return Ok(named.to_owned());
    }
    let all = session.client.templates().list(&session.project).all().await?;
    let found = all.into_iter().find(|template| name_key(&template.name) == name_key(named));
    Ok(found.map_or_else(|| named.to_owned(), |template| template.id))
}

fn labels(template: &Value) -> String {
    let labels: Vec<String> = template["labels"].as_array().into_iter().flatten().map(cell).collect();
    if labels.is_empty() { "-".to_owned() } else { labels.join(", ") }
}

fn description(template: &Value) -> String {
    if template["description"] == "" { "-".to_owned() } else { cell(&template["description"]) }
}

fn rows(look: Look, templates: &[Value]) -> Vec<String> {
    let row = |template: &Value| {
        let [id, name, agent, model] = ["id", "name", "agent", "model"].map(|field| cell(&template[field]));
        [name, agent, model, labels(template), description(template), id]
    };
    let head = [Whole("NAME"), Extra("AGENT"), Extra("MODEL"), Extra("LABELS"), Text("DESCRIPTION"), Whole("ID")];
    headed(look, head, templates.iter().map(row).collect())
}

fn view(look: Look, template: &Value) -> Vec<String> {
    let mut lines = look.fields([
        ("id", cell(&template["id"])),
        ("name", cell(&template["name"])),
        ("description", description(template)),
        ("agent", cell(&template["agent"])),
        ("model", cell(&template["model"])),
        ("labels", labels(template)),
        ("created", look.ago(&template["createdAt"])),
    ]);
    lines.push(String::new());
    lines.extend(plain(template["prompt"].as_str().unwrap_or_default()).lines().map(str::to_owned));
    lines
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::cli::paint::Paint;

    #[test]
    fn a_template_is_shown_with_its_prompt_and_without_control_characters() {
        let template = json!({
            "id": "tpl_1", "name": "Fix\u{1b}[2J", "description": "", "prompt": "one\n\ntwo\u{1b}", "agent": null,
            "model": "m", "labels": ["a", "b"], "createdAt": "1970-01-01T00:00:00.000Z",
        });
        let look = Look { paint: Paint::OFF, now: Timestamp::from_micros(120_000_000), columns: None };
        let lines = view(look, &template);
        assert_eq!(lines[1..4], ["name        Fix\u{fffd}[2J", "description -", "agent       -"]);
        assert_eq!(lines[5..], ["labels      a, b", "created     2 minutes ago", "", "one", "", "two\u{fffd}"]);
        let table = rows(look, &[template]);
        assert_eq!(
            table[1].split_whitespace().collect::<Vec<_>>(),
            ["Fix\u{fffd}[2J", "-", "m", "a,", "b", "-", "tpl_1"]
        );
    }

    #[test]
    fn an_empty_option_restores_the_default() {
        assert_eq!(change(None), Change::Keep);
        assert_eq!(change(Some(String::new())), Change::Reset);
        assert_eq!(change(Some("a".to_owned())), Change::Set("a".to_owned()));
        let labels = |label: &[&str]| {
            let label = label.iter().map(|label| (*label).to_owned()).collect();
            SettingArgs { description: None, agent: None, model: None, label }.labels()
        };
        assert_eq!(labels(&[]), None);
        assert_eq!(labels(&[""]), Some(Vec::new()));
        assert_eq!(labels(&["a", "b"]), Some(vec!["a".to_owned(), "b".to_owned()]));
    }
}
