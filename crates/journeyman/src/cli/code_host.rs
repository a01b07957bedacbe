//! `journeyman code-host`: code hosts of the database, with or without a running service. Those of the configuration file
//! are listed and tested too.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use journeyman_app::{Answered, Caller, Error, UseCases};
use journeyman_core::code_host::draft::Draft;
use journeyman_core::code_host::{Access, CodeHostId, DefinedIn, HostKind, HostSecret, HostSecretChanges};
use journeyman_core::finding::{Finding, first_failure};
use journeyman_core::ports::DescribedHost;
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::version::Precondition;
use journeyman_http::wire::code_host::{CodeHostList, FindingList, show};

use super::confirm::ConfirmArgs;
use super::doctor::print_findings;
use super::exit::usage;
use super::look::Look;
use super::paint::ColorWhen;
use super::secret;
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use crate::app;
use crate::config::whole;

#[derive(Debug, Args)]
pub(crate) struct CodeHostArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: CodeHostCommand,
}

#[derive(Debug, Subcommand)]
enum CodeHostCommand {
    /// Add a code host, and print the URL for its webhooks
    Add(Box<AddArgs>),
    /// Replace the token, the private key or the webhook secret of a code host
    Edit(Box<EditArgs>),
    /// List all code hosts, without secrets
    List,
    /// Remove a code host with its secrets
    Remove {
        /// ID of the code host, as in `code-host list`
        id: CodeHostId,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Test whether a code host answers and accepts the credential, and whether webhooks arrive
    Check {
        /// ID of the code host; all code hosts by default
        id: Option<CodeHostId>,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// ID of the code host, which is part of the URL for webhooks: a-z, 0-9, '-' and '.'
    id: CodeHostId,

    /// Software: github, gitlab, gitea, forgejo, bitbucket (Cloud) or bitbucket-data-center
    #[arg(long, value_parser = kind)]
    kind: HostKind,

    /// URL of its pages, such as https://github.com
    #[arg(long)]
    url: String,

    /// URL of its HTTP interface, if it is not the usual one
    #[arg(long)]
    api_url: Option<String>,

    #[command(flatten)]
    secrets: SecretArgs,

    /// User name that belongs to the token: for Bitbucket Cloud, the email address of the account
    #[arg(long)]
    username: Option<String>,

    /// ID of a GitHub App, in place of a token
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = whole::<u64>,
        requires = "private_key_file",
        conflicts_with = "token_file"
    )]
    app_id: Option<u64>,

    /// Name of the GitHub App in URLs; by default, the service asks GitHub
    #[arg(long, value_name = "NAME", requires = "app_id")]
    app_slug: Option<String>,

    /// ID of a bot whose comments become messages
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    trusted_bot: Vec<String>,
}

#[derive(Debug, Args)]
struct EditArgs {
    /// ID of the code host, as in `code-host list`
    id: CodeHostId,

    #[command(flatten)]
    secrets: SecretArgs,

    /// User name that belongs to the new token; by default, the stored one
    #[arg(long, requires = "token_file")]
    username: Option<String>,
}

#[derive(Debug, Args)]
struct SecretArgs {
    /// File with the token of the service's user, or "-" for stdin. There is no option for the token itself, because
    /// other users can see command lines
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// File with the private key of the GitHub App, or "-" for stdin
    #[arg(long, value_name = "FILE")]
    private_key_file: Option<PathBuf>,

    /// File with the secret that signs webhooks, or "-" for stdin
    #[arg(long, value_name = "FILE")]
    webhook_secret_file: Option<PathBuf>,
}

fn kind(text: &str) -> Result<HostKind, String> {
    let kinds = || HostKind::ALL.map(|kind| kind.name().replace('_', "-")).join(", ");
    HostKind::parse(text).ok_or_else(|| format!("use one of {}", kinds()))
}

/// The hint if this command does not know the URL of the service. `serve` may know it from an option.
const NO_PUBLIC_URL: &str = "public-url is not set for this command, so the URL for webhooks has the address on this \
    machine. Set public-url in the configuration file, which all commands read.";

/// Runs a command. The exit code is 1 if a test fails.
pub(crate) fn run(arguments: CodeHostArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        let cases = app::use_cases(&settings, &store)?;
        match arguments.command {
            CodeHostCommand::Add(add) => {
                let added = add_host(&cases, &add, json).await;
                if added.is_ok() && !settings.has_public_url() {
                    writeln!(std::io::stderr(), "{NO_PUBLIC_URL}")?;
                }
                added
            }
            CodeHostCommand::Edit(edit) => edit_host(&cases, &edit, json).await,
            CodeHostCommand::List => list(&cases, json, color).await,
            CodeHostCommand::Remove { id, confirm } => {
                confirm.confirm(&format!("This removes the code host {id} with its secrets"), id.as_str())?;
                let removed = cases.remove_code_host(&Caller::command_line(), &id, Precondition::None).await;
                removed.map_err(|error| explained(error, &id))?;
                if !json {
                    print(&format!("Removed the code host {id} with its secrets."))?;
                }
                Ok(ExitCode::SUCCESS)
            }
            CodeHostCommand::Check { id: Some(id) } => check(&cases, &[id], json, color).await,
            CodeHostCommand::Check { id: None } => {
                let all = cases.code_hosts(&Caller::command_line()).await?;
                let ids: Vec<CodeHostId> = all.into_iter().map(|described| described.host.id).collect();
                check(&cases, &ids, json, color).await
            }
        }
    })
}

impl AddArgs {
    fn draft(&self) -> anyhow::Result<Draft> {
        if self.secrets.private_key_file.is_some() && self.app_id.is_none() {
            return Err(usage("--private-key-file needs --app-id"));
        }
        Ok(Draft {
            kind: self.kind,
            url: self.url.clone(),
            api_url: self.api_url.clone(),
            username: self.username.clone(),
            app_id: self.app_id,
            app_slug: self.app_slug.clone(),
            trusted_bots: self.trusted_bot.iter().cloned().collect(),
            secrets: self.secrets.read()?,
        })
    }
}

impl SecretArgs {
    /// Reads the secrets whose files are given.
    fn read(&self) -> anyhow::Result<HostSecretChanges> {
        let files = [
            (HostSecret::Token, &self.token_file),
            (HostSecret::PrivateKey, &self.private_key_file),
            (HostSecret::Webhook, &self.webhook_secret_file),
        ];
        Ok(secret::read_all(files)?.map(|(secret, value)| (secret, Some(value))).collect())
    }
}

async fn add_host(cases: &UseCases, arguments: &AddArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (id, draft) = (&arguments.id, arguments.draft()?);
    let made = cases.create_code_host(&Caller::command_line(), id, &draft, None, |_| String::new()).await;
    let described = match made.map_err(|error| explained(error, id))? {
        Answered::New(described) => described,
        Answered::Replayed(_) => bail!("the code host was created already"),
    };
    let url = cases.webhook_url(id);
    if json {
        print_json(&show(&described, url))?;
    } else {
        print(&url)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces secrets of a code host. Its other fields stay as they are: if someone changes them at the same time, the
/// command fails.
async fn edit_host(cases: &UseCases, arguments: &EditArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (id, secrets) = (&arguments.id, arguments.secrets.read()?);
    if secrets.is_empty() {
        return Err(usage("nothing to change: use --token-file, --private-key-file or --webhook-secret-file"));
    }
    let caller = Caller::command_line();
    let current = cases.code_host(&caller, id).await.map_err(|error| explained(error, id))?.host;
    if secrets.contains_key(&HostSecret::PrivateKey) && current.needed_secret() != Some(HostSecret::PrivateKey) {
        bail!("the code host {id} has no GitHub App, so it needs no private key");
    }
    let mut draft = Draft { secrets, ..Draft::of(&current) };
    draft.username = arguments.username.clone().or(draft.username);
    let precondition = Precondition::Version(vec![current.version]);
    let changed = cases.replace_code_host(&caller, id, precondition, draft).await;
    let described = changed.map_err(|error| explained(error, id))?;
    if json {
        print_json(&show(&described, cases.webhook_url(id)))?;
    } else {
        print(&format!("Replaced the secrets of the code host {id}."))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(cases: &UseCases, json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let all = cases.code_hosts(&Caller::command_line()).await?;
    if json {
        let code_hosts = all.iter().map(|one| show(one, cases.webhook_url(&one.host.id))).collect();
        print_json(&CodeHostList { code_hosts, next_cursor: None })?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = all.iter().map(row).collect();
    let head =
        [Whole("ID"), Extra("KIND"), Text("URL"), Extra("CREDENTIAL"), Extra("WEBHOOK SECRET"), Extra("DEFINED IN")];
    let table = headed(Look::for_stdout(color), head, rows);
    print_lines(&listed(table, "No code hosts; `journeyman code-host add` adds one."))?;
    Ok(ExitCode::SUCCESS)
}

fn row(described: &DescribedHost) -> [String; 6] {
    let host = &described.host;
    let credential = match &host.access {
        Some(Access::App { app_id, .. }) => format!("app {app_id}"),
        Some(Access::Token { .. }) => "token".to_owned(),
        None => "of each project".to_owned(),
    };
    let defined = match host.defined_in {
        DefinedIn::Configuration => "configuration file",
        DefinedIn::Store | DefinedIn::Project => "database",
    };
    let secret = if described.has_webhook_secret { "set" } else { "-" };
    let kind = host.kind.name().replace('_', "-");
    [host.id.to_string(), kind, host.url.clone(), credential, secret.to_owned(), defined.to_owned()]
}

async fn check(cases: &UseCases, ids: &[CodeHostId], json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let mut findings: Vec<Finding> = Vec::new();
    for id in ids {
        let found = cases.check_code_host(&Caller::command_line(), id).await;
        let found = found.map_err(|error| explained(error, id))?;
        findings.extend(found.into_iter().map(|one| Finding { check: format!("{id}, {}", one.check), ..one }));
    }
    let code = if first_failure(&findings).is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    match json {
        true => print_json(&FindingList::from(findings))?,
        false => print_findings(&findings, color)?,
    }
    Ok(code)
}

/// Returns an error with the command that helps.
fn explained(error: Error, id: &CodeHostId) -> anyhow::Error {
    match error {
        Error::Admin(refusal) if refusal.is(RefusalKind::NotFound, ResourceKind::CodeHost) => {
            anyhow!("there is no code host {id}; `journeyman code-host list` lists the code hosts")
        }
        Error::Admin(refusal) if refusal.is_version_mismatch() => {
            anyhow!("the code host {id} was changed at the same time; run the command again")
        }
        error => error.into(),
    }
}
