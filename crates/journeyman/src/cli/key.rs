//! `journeyman key`: API keys, with or without a running service.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use journeyman_app::{Answered, Caller, CreatedKey, Error, Refusal, RefusalKind, UseCases};
use journeyman_core::admin::Precondition;
use journeyman_core::ids::{KeyId, ProjectId};
use journeyman_core::key::{DEFAULT_LIFETIME_DAYS, MAX_OVERLAP, NewKey, Scope, parse_network};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_http::wire::key::{self, Key, KeyList};

use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::table;
use crate::app;
use crate::system::Machine;

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Create a key and print its secret, which is not shown again
    Create(CreateArgs),
    /// List all keys
    List,
    /// Give a key a new secret and print it; it is not shown again
    Rotate {
        /// ID of the key, as in `key list`
        id: KeyId,
        /// Time for which the old secret works too, such as 1h, at most 7days [default: it is refused at once]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        keep_old: Option<Duration>,
    },
    /// Revoke a key
    Revoke {
        /// ID of the key, as in `key list`
        id: KeyId,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Purpose of the key
    #[arg(long)]
    name: String,

    /// Scope: read (GET and HEAD), jobs (also create jobs and send messages) or write (everything)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write")]
    scope: Vec<ScopeArg>,

    /// Project that the key may access; all projects by default
    #[arg(long, value_name = "PROJECT", value_delimiter = ',')]
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
pub(crate) fn run(arguments: KeyArgs) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        let cases = app::use_cases(&settings, &store)?;
        match arguments.command {
            KeyCommand::Create(create) => create_key(&cases, create, json).await,
            KeyCommand::List => list(&cases, json).await,
            KeyCommand::Rotate { id, keep_old } => rotate(&cases, id, keep_old.unwrap_or_default(), json).await,
            KeyCommand::Revoke { id } => {
                known(id, cases.revoke_key(&Caller::command_line(), id, Precondition::None).await)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn create_key(cases: &UseCases, arguments: CreateArgs, json: bool) -> anyhow::Result<()> {
    let now = Machine.now();
    let usual = Lifetime::For(Duration::from_secs(u64::from(DEFAULT_LIFETIME_DAYS) * 24 * 3600));
    let listed = |empty: bool| !empty;
    let new = NewKey {
        name: arguments.name,
        scopes: arguments.scope.into_iter().map(scope).collect(),
        projects: Some(arguments.project).filter(|list| listed(list.is_empty())),
        expires_at: expiry(arguments.expires.unwrap_or(usual), now),
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
    let until = created.key.expires_at.map_or_else(|| "does not expire".to_owned(), |end| format!("expires {end}"));
    show(created, &until, json)
}

async fn rotate(cases: &UseCases, id: KeyId, keep_old: Duration, json: bool) -> anyhow::Result<()> {
    if keep_old > MAX_OVERLAP {
        bail!("--keep-old must be at most {}", humantime::format_duration(MAX_OVERLAP));
    }
    let caller = Caller::command_line();
    let rotated = cases.rotate_key(&caller, id, keep_old, Precondition::None, None, |_| String::new()).await;
    let Answered::New(rotated) = known(id, rotated)? else { bail!("the key was rotated already") };
    let old = rotated.key.old_secret.map_or_else(
        || "the old secret no longer works".to_owned(),
        |old| format!("the old secret works until {}", old.until),
    );
    show(rotated, &old, json)
}

/// Prints a key with its new secret, which goes to standard output alone.
fn show(CreatedKey { key, secret }: CreatedKey, note: &str, json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(&key::CreatedKey { key: key.into(), secret });
    }
    writeln!(std::io::stderr(), "key {} ({}), {note}; the secret is shown only once:", key.id, key.name)?;
    Ok(print(&secret)?)
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

async fn list(cases: &UseCases, json: bool) -> anyhow::Result<()> {
    let keys: Vec<Key> = cases.keys(&Caller::command_line()).await?.into_iter().map(Key::from).collect();
    if json {
        return print_json(&KeyList { keys, next_cursor: None });
    }
    let head = ["ID", "NAME", "PREFIX", "SCOPES", "PROJECTS", "EXPIRES", "LAST USED", "REVOKED"];
    Ok(print_lines(&table(head, keys.into_iter().map(row).collect()))?)
}

fn row(key: Key) -> [String; 8] {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| Scope::from(*scope).name()).collect();
    let or = |text: Option<String>, none: &str| text.unwrap_or_else(|| none.to_owned());
    [
        key.id,
        key.name,
        key.prefix,
        scopes.join(","),
        key.projects.map_or_else(|| "all".to_owned(), |projects| projects.join(",")),
        or(key.expires_at, "never"),
        or(key.last_used_at, "-"),
        or(key.revoked_at, "-"),
    ]
}
