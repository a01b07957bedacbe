//! `journeyman key`: API keys, in the database of an installation or on a server.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use ipnet::IpNet;
use journeyman_app::{Answered, Caller, CreatedKey, Error, Refusal, RefusalKind, UseCases};
use journeyman_client::models;
use journeyman_core::ids::{KeyId, ProjectId};
use journeyman_core::key::{DEFAULT_LIFETIME_DAYS, KeyOrigin, MAX_OVERLAP, NewKey, Scope, parse_network};
use journeyman_core::time::Timestamp;
use journeyman_core::version::Precondition;
use journeyman_http::wire::key::{self, Key};
use serde_json::{Value, json};

use super::backend::{Backend, BackendArgs};
use super::complete;
use super::confirm::ConfirmArgs;
use super::connection::ConnectionArgs;
use super::exit::{Exit, Failure, HELP, usage};
use super::look::{Look, cell, plain};
use super::paint::ColorWhen;
use super::session::{Session, with_connection};
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use crate::app;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key and print its secret, which is not shown again
    Create(CreateArgs),
    /// List all keys
    List {
        /// List the keys that tokens of CI services were exchanged for instead, which have a list of their own
        #[arg(long)]
        exchanged: bool,
    },
    /// Give a key a new secret and print it; it is not shown again
    Rotate {
        /// ID of the key, as in `key list`
        #[arg(add = ArgValueCandidates::new(complete::keys))]
        id: KeyId,
        /// Time for which the old secret works too, such as 1h, at most 7days [default: it is refused at once]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        keep_old: Option<Duration>,
    },
    /// Revoke a key
    Revoke {
        /// ID of the key, as in `key list`
        #[arg(add = ArgValueCandidates::new(complete::keys))]
        id: KeyId,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  journeyman key create --name me\n  journeyman key create --name ci --scope jobs --project \
                  shop --expires 30days"
)]
struct CreateArgs {
    /// Purpose of the key
    #[arg(long)]
    name: String,

    /// Scope: read (GET and HEAD), jobs (also create jobs and send messages) or write (everything)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write")]
    scope: Vec<ScopeArg>,

    /// Project that the key may access; all projects by default
    #[arg(
        long,
        value_name = "PROJECT",
        value_delimiter = ',',
        add = ArgValueCandidates::new(complete::projects)
    )]
    project: Vec<ProjectId>,

    /// Lifetime, such as 30days, or never [default: 90days]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Lifetime>,

    /// Address or network that may use the key; any by default
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = parse_network)]
    allow_ip: Vec<IpNet>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    Read,
    Jobs,
    Write,
}

#[derive(Debug, Clone, Copy)]
enum Lifetime {
    For(Duration),
    Unlimited,
}

fn lifetime(text: &str) -> Result<Lifetime, humantime::DurationError> {
    if text == "never" { Ok(Lifetime::Unlimited) } else { humantime::parse_duration(text).map(Lifetime::For) }
}

/// Runs a command.
pub(crate) fn run(arguments: KeyArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let KeyArgs { backend, json, command } = arguments;
    match backend.choose()? {
        Backend::Store(store) => in_store(store, command, json, color),
        Backend::Server(connection) => on_server(connection, command, json, color),
    }
}

/// Carries out a command on the database of an installation.
fn in_store(store: StoreArgs, command: KeyCommand, json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let (settings, store) = store.open().await?;
        let cases = app::use_cases(&settings, &store)?;
        let look = Look::for_stdout(color);
        match command {
            KeyCommand::Create(create) => create_key(&cases, look, create, json).await,
            KeyCommand::List { exchanged } => {
                let caller = Caller::command_line();
                let keys = match exchanged {
                    false => cases.keys(&caller).await?,
                    true => cases.keys_after(&caller, KeyOrigin::Exchanged, None, usize::MAX).await?,
                };
                let keys = keys.into_iter();
                let keys: Result<Vec<Value>, _> = keys.map(|key| serde_json::to_value(Key::from(key))).collect();
                print_list(look, &keys?, json)
            }
            KeyCommand::Rotate { id, keep_old } => rotate(&cases, id, keep_old.unwrap_or_default(), json).await,
            KeyCommand::Revoke { id, confirm } => {
                confirm.confirm(&revocation(id), &id.to_string())?;
                known(id, cases.revoke_key(&Caller::command_line(), id, Precondition::None).await)?;
                print_revoked(id, json)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out a command on a server.
fn on_server(
    connection: ConnectionArgs,
    command: KeyCommand,
    json: bool,
    color: ColorWhen,
) -> anyhow::Result<ExitCode> {
    with_connection(connection, json, color, async |session| carry_out(&session, command).await)
}

async fn carry_out(session: &Session, command: KeyCommand) -> Result<Exit, Failure> {
    let (keys, json) = (session.client.keys(), session.json);
    match command {
        KeyCommand::Create(arguments) => {
            let created = keys.create(&request(arguments, session.look.now)).raw().await?;
            show(&created, &expiry_note(session.look, &created["expiresAt"]), json)?;
        }
        KeyCommand::List { exchanged } => {
            let list = if exchanged { keys.list_exchanged() } else { keys.list() };
            print_list(session.look, &list.raw().all().await?, json)?;
        }
        KeyCommand::Rotate { id, keep_old } => {
            let keep_old = keep_old.unwrap_or_default();
            check_overlap(keep_old)?;
            let rotated = keys.rotate(&id.to_string(), keep_old).raw().await?;
            let until = (!keep_old.is_zero()).then(|| (session.look.now + keep_old).to_string());
            show(&rotated, &old_secret(until.as_deref()), json)?;
        }
        KeyCommand::Revoke { id, confirm } => {
            confirm.confirm(&revocation(id), &id.to_string())?;
            keys.revoke(&id.to_string()).await?;
            print_revoked(id, json)?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the sentence that a person confirms.
fn revocation(id: KeyId) -> String {
    format!("This revokes the key {id}; clients that use it are refused")
}

/// Prints that a key was revoked, for people.
fn print_revoked(id: KeyId, json: bool) -> anyhow::Result<()> {
    if json { Ok(()) } else { Ok(print(&format!("Revoked the key {id}. Its secret no longer works."))?) }
}

/// Returns the request that creates a key.
fn request(arguments: CreateArgs, now: Timestamp) -> models::CreateKey {
    let scope = |scope: ScopeArg| match scope {
        ScopeArg::Read => models::Scope::Read,
        ScopeArg::Jobs => models::Scope::Jobs,
        ScopeArg::Write => models::Scope::Write,
    };
    let mut new = models::CreateKey::new(arguments.name).scopes(arguments.scope.into_iter().map(scope).collect());
    if !arguments.project.is_empty() {
        new = new.projects(arguments.project.iter().map(ToString::to_string));
    }
    if !arguments.allow_ip.is_empty() {
        new = new.allowed_ips(arguments.allow_ip.iter().map(ToString::to_string));
    }
    match arguments.expires {
        // The server has the same default.
        None => new,
        Some(Lifetime::Unlimited) => new.expires_at(models::Change::<String>::Reset),
        Some(Lifetime::For(duration)) => new.expires_at((now + duration).to_string()),
    }
}

async fn create_key(cases: &UseCases, look: Look, arguments: CreateArgs, json: bool) -> anyhow::Result<()> {
    let usual = Lifetime::For(Duration::from_secs(u64::from(DEFAULT_LIFETIME_DAYS) * 24 * 3600));
    let listed = |empty: bool| !empty;
    let new = NewKey {
        name: arguments.name,
        scopes: arguments.scope.into_iter().map(scope).collect(),
        projects: Some(arguments.project).filter(|list| listed(list.is_empty())),
        expires_at: expiry(arguments.expires.unwrap_or(usual), look.now),
        allowed_ips: Some(arguments.allow_ip).filter(|list| listed(list.is_empty())),
    };
    let created = match cases.create_key(&Caller::command_line(), new, None, |_| String::new()).await {
        Ok(Answered::New(created)) => created,
        Ok(Answered::Replayed(_)) => bail!("the key was created already"),
        Err(Error::Refused(Refusal { kind: RefusalKind::ProjectNotFound, text })) => {
            bail!("{}; `journeyman project list` lists the projects", text.split(';').next().unwrap_or_default())
        }
        Err(error) => return Err(error.into()),
    };
    let created = document(created)?;
    show(&created, &expiry_note(look, &created["expiresAt"]), json)
}

async fn rotate(cases: &UseCases, id: KeyId, keep_old: Duration, json: bool) -> anyhow::Result<()> {
    check_overlap(keep_old)?;
    let caller = Caller::command_line();
    let rotated = cases.rotate_key(&caller, id, keep_old, Precondition::None, None, |_| String::new()).await;
    let Answered::New(rotated) = known(id, rotated)? else { bail!("the key was rotated already") };
    let until = rotated.key.old_secret.as_ref().map(|old| old.until.to_string());
    show(&document(rotated)?, &old_secret(until.as_deref()), json)
}

fn check_overlap(keep_old: Duration) -> anyhow::Result<()> {
    if keep_old > MAX_OVERLAP {
        return Err(usage(format!("--keep-old must be at most {}", humantime::format_duration(MAX_OVERLAP))));
    }
    Ok(())
}

fn expiry_note(look: Look, expires_at: &Value) -> String {
    if expires_at.is_null() {
        return "does not expire".to_owned();
    }
    let time = cell(expires_at);
    let date = time.split('T').next().unwrap_or_default();
    format!("expires {} ({date})", look.when(expires_at))
}

fn old_secret(until: Option<&str>) -> String {
    until.map_or_else(
        || "the old secret no longer works".to_owned(),
        |until| format!("the old secret works until {until}"),
    )
}

/// Returns a created key as servers return it.
fn document(CreatedKey { key, secret }: CreatedKey) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(key::CreatedKey { key: key.into(), secret })?)
}

/// Prints a key with its new secret, which goes to standard output alone.
fn show(created: &Value, note: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(created);
    }
    let (id, name) = (cell(&created["id"]), cell(&created["name"]));
    writeln!(std::io::stderr(), "key {id} ({name}), {note}; the secret is shown only once:")?;
    Ok(print(&plain(created["secret"].as_str().unwrap_or_default()))?)
}

/// Returns a result with an explanation if the key does not exist.
fn known<T>(id: KeyId, result: Result<T, Error>) -> anyhow::Result<T> {
    match result {
        Err(Error::Refused(Refusal { kind: RefusalKind::KeyNotFound, .. })) => {
            bail!("there is no key {id}; `journeyman key list` lists the keys")
        }
        result => Ok(result?),
    }
}

const fn scope(scope: ScopeArg) -> Scope {
    match scope {
        ScopeArg::Read => Scope::Read,
        ScopeArg::Jobs => Scope::Jobs,
        ScopeArg::Write => Scope::Write,
    }
}

fn expiry(lifetime: Lifetime, now: Timestamp) -> Option<Timestamp> {
    match lifetime {
        Lifetime::Unlimited => None,
        Lifetime::For(duration) => Some(now + duration),
    }
}

fn print_list(look: Look, keys: &[Value], json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(&json!({ "keys": keys, "nextCursor": null }));
    }
    let head = [
        Whole("ID"),
        Text("NAME"),
        Extra("PREFIX"),
        Extra("SCOPES"),
        Text("PROJECTS"),
        Whole("EXPIRES"),
        Extra("LAST USED"),
        Whole("REVOKED"),
    ];
    let table = headed(look, head, keys.iter().map(|key| row(look, key)).collect());
    Ok(print_lines(&listed(table, "No keys; `journeyman key create` creates one."))?)
}

fn row(look: Look, key: &Value) -> [String; 8] {
    let list = |values: &Value| values.as_array().into_iter().flatten().map(cell).collect::<Vec<_>>().join(",");
    let [id, name, prefix] = ["id", "name", "prefix"].map(|field| cell(&key[field]));
    [
        id,
        name,
        prefix,
        list(&key["scopes"]),
        if key["projects"].is_null() { "all".to_owned() } else { list(&key["projects"]) },
        expires(look, &key["expiresAt"]),
        look.ago(&key["lastUsedAt"]),
        look.ago(&key["revokedAt"]),
    ]
}

/// Formats the time at which a key expires, with the color of failures if it has expired.
fn expires(look: Look, at: &Value) -> String {
    if at.is_null() {
        return "never".to_owned();
    }
    let is_past = cell(at).parse::<Timestamp>().is_ok_and(|at| at <= look.now);
    if is_past { look.paint.bad(&look.when(at)) } else { look.when(at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::paint::Paint;

    #[test]
    fn the_time_at_which_a_key_expires_is_relative() {
        let look = Look { paint: Paint::ON, now: Timestamp::from_micros(120_000_000), columns: None };
        let (later, past) = (json!("1970-01-31T00:02:00.000Z"), json!("1970-01-01T00:00:00.000Z"));
        assert_eq!(expiry_note(look, &later), "expires in 30 days (1970-01-31)");
        assert_eq!(expiry_note(look, &Value::Null), "does not expire");
        assert_eq!((expires(look, &later), expires(look, &Value::Null)), ("in 30 days".to_owned(), "never".to_owned()));
        assert_eq!(expires(look, &past), "\u{1b}[31m2 minutes ago\u{1b}[0m");
    }

    #[test]
    fn the_request_for_a_server_has_what_the_options_say() {
        let arguments = |expires| CreateArgs {
            name: "ci".to_owned(),
            scope: vec![ScopeArg::Jobs],
            project: vec!["shop".parse().unwrap()],
            expires,
            allow_ip: vec![parse_network("10.0.0.0/8").unwrap()],
        };
        let sent = |expires| serde_json::to_value(request(arguments(expires), Timestamp::from_micros(0))).unwrap();
        let common = json!({"name": "ci", "scopes": ["jobs"], "projects": ["shop"], "allowedIps": ["10.0.0.0/8"]});
        assert_eq!(sent(None), common);
        assert_eq!(sent(Some(Lifetime::Unlimited))["expiresAt"], Value::Null);
        assert!(sent(Some(Lifetime::Unlimited)).as_object().unwrap().contains_key("expiresAt"));
        assert_eq!(sent(Some(Lifetime::For(Duration::from_secs(60))))["expiresAt"], "1970-01-01T00:01:00.000Z");
    }
}
