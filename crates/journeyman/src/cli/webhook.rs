//! `journeyman webhook`: the webhooks of a project, on any server.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use journeyman_client::models::{ChangeWebhook, CreateWebhook, DeliveryStatus, ProjectEventType, WebhookFormat};
use serde_json::Value;

use super::complete;
use super::confirm::ConfirmArgs;
use super::exit::{Exit, Failure, HELP};
use super::look::{Look, cell, plain};
use super::number;
use super::paint::ColorWhen;
use super::session::{ServerArgs, Session, with_session};
use super::store::print;
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use crate::config::whole;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    /// Create a webhook, and print its secret, which is shown only once
    Create {
        /// URL of the endpoint. The option --url is that of the server
        endpoint: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// List webhooks, without secrets
    List,
    /// Change a webhook
    Change {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        /// URL of the endpoint
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        #[command(flatten)]
        settings: SettingArgs,
        /// Enable the webhook again; it receives the events from then on
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Disable the webhook
        #[arg(long)]
        disable: bool,
    },
    /// Delete a webhook with its deliveries
    Delete {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Give a webhook a new secret, and print it
    Rotate {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        /// Sign requests with the old secret too for this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = whole::<u64>)]
        keep_old: u64,
    },
    /// Send an example event now; the exit code is 1 if the endpoint does not accept it
    Test {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
    },
    /// List the deliveries of a webhook, newest first
    Deliveries {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        /// Filter by state
        #[arg(long, value_parser = ["pending", "delivered", "failed"])]
        state: Option<String>,
        /// Maximum number of deliveries to list
        #[arg(long, default_value_t = 20, value_parser = number::page)]
        limit: u32,
    },
    /// Deliver an event again
    Redeliver {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        /// ID of the delivery
        delivery: String,
    },
    /// Deliver all events since a time again
    Replay {
        /// ID of the webhook
        #[arg(add = ArgValueCandidates::new(complete::webhooks))]
        webhook: String,
        /// Time of the first event (ISO 8601)
        #[arg(long, value_name = "TIME")]
        since: String,
    },
}

#[derive(Debug, Args)]
struct SettingArgs {
    /// Type of event to deliver, such as job.completed; can be repeated [default: all types]
    #[arg(long, value_name = "TYPE")]
    event: Vec<String>,
    /// Form of the requests: standard, slack, teams or discord
    #[arg(long)]
    format: Option<String>,
    /// Note for people
    #[arg(long)]
    description: Option<String>,
}

impl SettingArgs {
    fn events(&self) -> Option<Vec<ProjectEventType>> {
        let events: Vec<_> = self.event.iter().map(|event| ProjectEventType::from(event.as_str())).collect();
        Some(events).filter(|events| !events.is_empty())
    }

    fn format(&self) -> Option<WebhookFormat> {
        self.format.as_deref().map(WebhookFormat::from)
    }
}

/// Runs a command of `journeyman webhook`.
pub(crate) fn run(arguments: WebhookArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    with_session(arguments.server, color, async |session| carry_out(&session, arguments.command).await)
}

async fn carry_out(session: &Session, command: WebhookCommand) -> Result<Exit, Failure> {
    let (hooks, project, look) = (session.client.webhooks(), session.project.as_str(), session.look);
    match command {
        WebhookCommand::Create { endpoint, settings } => {
            let mut webhook = CreateWebhook::new(endpoint);
            (webhook.events, webhook.format) = (settings.events(), settings.format());
            webhook.description = settings.description;
            session.print_rows(&[hooks.create(project, &webhook).raw().await?], |all| webhooks(look, all))?;
        }
        WebhookCommand::List => {
            let none = format!("No webhooks in {project}.");
            let all = hooks.list(project).raw().all().await?;
            session.print_rows(&all, |all| listed(webhooks(look, all), &none))?;
        }
        WebhookCommand::Change { webhook, endpoint, settings, enable, disable } => {
            let mut changes = ChangeWebhook::new();
            (changes.events, changes.format) = (settings.events(), settings.format());
            (changes.url, changes.description) = (endpoint, settings.description);
            changes.enabled = (enable || disable).then_some(enable);
            session.print_rows(&[hooks.change(project, &webhook, &changes).raw().await?], |all| webhooks(look, all))?;
        }
        WebhookCommand::Delete { webhook, confirm } => {
            confirm.confirm(&format!("This deletes the webhook {webhook} with its deliveries"), &webhook)?;
            hooks.delete(project, &webhook).await?;
            session.say(&format!("Deleted the webhook {} with its deliveries.", plain(&webhook)))?;
        }
        WebhookCommand::Rotate { webhook, keep_old } => {
            let rotated = hooks.rotate(project, &webhook, Duration::from_secs(keep_old)).raw().await?;
            session.print_rows(&[rotated], |all| webhooks(look, all))?;
        }
        WebhookCommand::Test { webhook } => {
            let result = hooks.test(project, &webhook).raw().await?;
            session.print_rows(std::slice::from_ref(&result), attempts)?;
            let is_accepted = result["status"].as_u64().is_some_and(|status| (200..300).contains(&status));
            return Ok(if is_accepted { Exit::Done } else { Exit::Failed });
        }
        WebhookCommand::Deliveries { webhook, state, limit } => {
            let state = state.as_deref().map(DeliveryStatus::from);
            let mut list = hooks.deliveries(project, &webhook, state).page_size(limit).raw();
            let found = list.page().await?.map(|page| page.items).unwrap_or_default();
            session.print_rows(&found, |found| listed(deliveries(look, found), "No deliveries found."))?;
        }
        WebhookCommand::Redeliver { webhook, delivery } => {
            hooks.redeliver(project, &webhook, &delivery).await?;
            session.say(&format!("The delivery {} is pending again.", plain(&delivery)))?;
        }
        WebhookCommand::Replay { webhook, since } => {
            let count = hooks.replay(project, &webhook, &since).await?;
            let text = if count == 1 { "delivery is" } else { "deliveries are" };
            print(&format!("{count} {text} pending"))?;
        }
    }
    Ok(Exit::Done)
}

fn webhooks(look: Look, webhooks: &[Value]) -> Vec<String> {
    let state = |webhook: &Value| match (webhook["disabledReason"].as_str(), webhook["failingSince"].as_str()) {
        (Some(reason), _) => format!("disabled ({})", reason.replace('_', " ")),
        (None, Some(since)) => format!("failing since {since}"),
        (None, None) => "enabled".to_owned(),
    };
    let events = |webhook: &Value| {
        let names: Vec<&str> = webhook["events"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() { "all".to_owned() } else { names.join(",") }
    };
    let row = |webhook: &Value| {
        let [id, url, format] = ["id", "url", "format"].map(|name| cell(&webhook[name]));
        [id, state(webhook), format, events(webhook), url]
    };
    let head = [Whole("ID"), Text("STATE"), Extra("FORMAT"), Text("EVENTS"), Whole("URL")];
    let mut lines = headed(look, head, webhooks.iter().map(row).collect());
    // Only the answers to a creation and a rotation have a secret.
    let secrets = webhooks.iter().filter_map(|webhook| webhook["secret"].as_str());
    lines.extend(secrets.map(|secret| format!("secret: {secret} (it is not shown again)")));
    lines
}

fn deliveries(look: Look, deliveries: &[Value]) -> Vec<String> {
    let row = |delivery: &Value| {
        let [id, kind, state, attempts, job] =
            ["id", "type", "state", "attempts", "job"].map(|name| cell(&delivery[name]));
        [id, kind, state, attempts, result(&delivery["lastAttempt"]), cell(&delivery["nextAttemptAt"]), job]
    };
    let head = [
        Whole("ID"),
        Whole("EVENT"),
        Whole("STATE"),
        Extra("ATTEMPTS"),
        Text("LAST RESULT"),
        Extra("NEXT ATTEMPT"),
        Extra("JOB"),
    ];
    headed(look, head, deliveries.iter().map(row).collect())
}

fn attempts(attempts: &[Value]) -> Vec<String> {
    attempts.iter().map(|attempt| format!("{} after {} ms", result(attempt), cell(&attempt["durationMs"]))).collect()
}

/// Returns the status of an attempt, or the reason why there was no answer.
fn result(attempt: &Value) -> String {
    if attempt["status"].is_null() { cell(&attempt["error"]) } else { cell(&attempt["status"]) }
}
