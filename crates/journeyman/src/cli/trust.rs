//! `journeyman trust`: rules about which tokens of CI services are exchanged for keys, with or without a running service.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use journeyman_app::{Answered, Caller, Error, Refusal, RefusalKind, UseCases};
use journeyman_core::ids::{ProjectId, TrustId};
use journeyman_core::key::Scope;
use journeyman_core::refusal::{self, ResourceKind};
use journeyman_core::trust::{self, TrustSettings};
use journeyman_core::version::Precondition;
use journeyman_http::wire::trust::{Trust, TrustList};

use super::confirm::ConfirmArgs;
use super::exit::usage;
use super::look::Look;
use super::paint::ColorWhen;
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed, table};
use crate::app;

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: TrustCommand,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Create a trust, and print its ID
    Create(CreateArgs),
    /// List all trusts
    List,
    /// Show a trust
    Show {
        /// ID of the trust, as in `trust list`
        id: TrustId,
    },
    /// Change a trust; its keys are revoked, unless only the name changes
    Update(UpdateArgs),
    /// Delete a trust, and revoke its keys
    Delete {
        /// ID of the trust, as in `trust list`
        id: TrustId,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Name of the trust: a letter, then letters, digits, '.', '-' and '_'
    #[arg(long)]
    name: String,

    /// URL of the issuer, such as https://token.actions.githubusercontent.com or https://gitlab.com
    #[arg(long, value_name = "URL")]
    issuer: String,

    /// Audience that tokens must have [default: the public URL of the service]
    #[arg(long)]
    audience: Option<String>,

    /// Claim that tokens must have, such as repository=acme/shop; * matches within a segment of a path, ** across segments
    #[arg(long, value_name = "CLAIM=PATTERN", value_parser = claim, required = true)]
    claim: Vec<(String, String)>,

    /// Project that the keys may access
    #[arg(long, value_name = "PROJECT", value_delimiter = ',', required = true)]
    project: Vec<ProjectId>,

    /// Scope of the keys: read, or jobs (also create jobs and send messages)
    #[arg(long, value_enum, default_value = "jobs")]
    scope: ScopeArg,
}

#[derive(Debug, Args)]
struct UpdateArgs {
    /// ID of the trust, as in `trust list`
    id: TrustId,

    /// New name
    #[arg(long)]
    name: Option<String>,

    /// New URL of the issuer
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,

    /// New audience
    #[arg(long)]
    audience: Option<String>,

    /// Claim that tokens must have; replaces all claims
    #[arg(long, value_name = "CLAIM=PATTERN", value_parser = claim)]
    claim: Vec<(String, String)>,

    /// Project that the keys may access; replaces all projects
    #[arg(long, value_name = "PROJECT", value_delimiter = ',')]
    project: Vec<ProjectId>,

    /// New scope of the keys
    #[arg(long, value_enum)]
    scope: Option<ScopeArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    Read,
    Jobs,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Read => Self::Read,
            ScopeArg::Jobs => Self::Jobs,
        }
    }
}

fn claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, pattern)) if !name.is_empty() => Ok((name.to_owned(), pattern.to_owned())),
        _ => Err("write CLAIM=PATTERN, such as repository=acme/shop".to_owned()),
    }
}

/// Collects claims. A claim has one pattern.
fn claims(given: Vec<(String, String)>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut claims = BTreeMap::new();
    for (name, pattern) in given {
        if claims.insert(name.clone(), pattern).is_some() {
            return Err(usage(format!("--claim {name} is given twice; a claim has one pattern")));
        }
    }
    Ok(claims)
}

/// Runs a command.
pub(crate) fn run(arguments: TrustArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        let cases = app::use_cases(&settings, &store)?;
        match arguments.command {
            TrustCommand::Create(create) => create_trust(&cases, create, json).await,
            TrustCommand::List => list(&cases, json, color).await,
            TrustCommand::Show { id } => show(known(id, cases.trust(&Caller::command_line(), id).await)?, json),
            TrustCommand::Update(update) => update_trust(&cases, update, json).await,
            TrustCommand::Delete { id, confirm } => {
                let effect = format!("This deletes the trust {id}, and revokes its keys");
                confirm.confirm(&effect, &id.to_string())?;
                known(id, cases.remove_trust(&Caller::command_line(), id, Precondition::None).await)?;
                print_done(&format!("Deleted the trust {id}, and revoked its keys."), json)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn create_trust(cases: &UseCases, arguments: CreateArgs, json: bool) -> anyhow::Result<()> {
    let settings = TrustSettings {
        name: arguments.name,
        issuer: arguments.issuer,
        audience: arguments.audience.unwrap_or_else(|| cases.default_audience().to_owned()),
        claims: claims(arguments.claim)?,
        projects: arguments.project,
        scope: arguments.scope.into(),
    };
    let made = cases.create_trust(&Caller::command_line(), settings, None, |_| String::new()).await;
    let Answered::New(made) = of_projects(made)? else { bail!("the trust was created already") };
    if json { print_json(&Trust::from(made)) } else { Ok(print(&made.id.to_string())?) }
}

async fn update_trust(cases: &UseCases, arguments: UpdateArgs, json: bool) -> anyhow::Result<()> {
    let UpdateArgs { id, name, issuer, audience, claim, project, scope } = arguments;
    let claims = claims(claim)?;
    let edit = Box::new(move |known: &TrustSettings| TrustSettings {
        name: name.clone().unwrap_or_else(|| known.name.clone()),
        issuer: issuer.clone().unwrap_or_else(|| known.issuer.clone()),
        audience: audience.clone().unwrap_or_else(|| known.audience.clone()),
        claims: if claims.is_empty() { known.claims.clone() } else { claims.clone() },
        projects: if project.is_empty() { known.projects.clone() } else { project.clone() },
        scope: scope.map_or(known.scope, Scope::from),
    });
    let changed = cases.change_trust(&Caller::command_line(), id, Precondition::None, edit).await;
    let changed = known(id, changed)?;
    if json { print_json(&Trust::from(changed)) } else { Ok(print(&format!("Changed the trust {id}."))?) }
}

/// Prints what was done, for people.
fn print_done(text: &str, json: bool) -> anyhow::Result<()> {
    if json { Ok(()) } else { Ok(print(text)?) }
}

/// Returns a result with an explanation for the command line if a project does not exist.
fn of_projects<T>(result: Result<T, Error>) -> anyhow::Result<T> {
    match result {
        Err(Error::Refused(Refusal { kind: RefusalKind::ProjectNotFound, text })) => {
            bail!("{}; `journeyman project list` lists the projects", text.split(';').next().unwrap_or_default())
        }
        result => Ok(result?),
    }
}

/// Returns a result with an explanation if the trust does not exist.
fn known<T>(id: TrustId, result: Result<T, Error>) -> anyhow::Result<T> {
    match result {
        Err(Error::Admin(refusal)) if refusal.is(refusal::RefusalKind::NotFound, ResourceKind::Trust) => {
            bail!("there is no trust {id}; `journeyman trust list` lists the trusts")
        }
        result => of_projects(result),
    }
}

async fn list(cases: &UseCases, json: bool, color: ColorWhen) -> anyhow::Result<()> {
    let trusts: Vec<Trust> = cases.trusts(&Caller::command_line()).await?.into_iter().map(Trust::from).collect();
    if json {
        return print_json(&TrustList { trusts, next_cursor: None });
    }
    let head = [
        Whole("ID"),
        Text("NAME"),
        Extra("ISSUER"),
        Text("CLAIMS"),
        Text("PROJECTS"),
        Extra("SCOPE"),
        Extra("LAST USED"),
    ];
    let table = headed(Look::for_stdout(color), head, trusts.into_iter().map(row).collect());
    Ok(print_lines(&listed(table, "No trusts; `journeyman trust create` creates one."))?)
}

fn show(trust: trust::Trust, json: bool) -> anyhow::Result<()> {
    let trust = Trust::from(trust);
    if json {
        return print_json(&trust);
    }
    let claims = trust.claims.iter().map(|(name, pattern)| ["claim".to_owned(), format!("{name}={pattern}")]);
    let claims: Vec<[String; 2]> = claims.collect();
    let audience = trust.audience.clone();
    let [id, name, issuer, _, projects, scope, used] = row(trust);
    let fields = [("name", name), ("issuer", issuer), ("audience", audience), ("projects", projects)];
    let mut lines: Vec<[String; 2]> = fields.map(|(field, value)| [field.to_owned(), value]).into();
    lines.extend(claims);
    lines.extend([("scope", scope), ("last used", used)].map(|(field, value)| [field.to_owned(), value]));
    Ok(print_lines(&table(["id", &id], lines))?)
}

fn row(trust: Trust) -> [String; 7] {
    let claims: Vec<String> = trust.claims.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
    [
        trust.id,
        trust.name,
        trust.issuer,
        claims.join(" "),
        trust.projects.join(","),
        Scope::from(trust.scope).name().to_owned(),
        trust.last_used_at.unwrap_or_else(|| "-".to_owned()),
    ]
}
