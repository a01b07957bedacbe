//! `journeyman key`: API keys, in the store itself.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use ipnet::IpNet;
use journeyman_core::ids::{KeyId, ProjectId};
use journeyman_core::key::{DEFAULT_LIFETIME_DAYS, NewKey, Scope, parse_network};
use journeyman_core::ports::{KeyStore, Store};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_http::wire::key::{CreatedKey, Key, KeyList};

use super::store::{StoreArgs, audit, block_on, print, print_json, print_lines};
use super::table::table;
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
    /// Makes a key and prints its secret, which is shown this once
    Create(CreateArgs),
    /// Lists all keys
    List,
    /// Revokes a key, at once
    Revoke {
        /// The key's id, as `key list` shows it
        id: KeyId,
    },
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// What the key is for
    #[arg(long)]
    name: String,

    /// What it may do: read (GET and HEAD) or write (everything)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "write")]
    scope: Vec<ScopeArg>,

    /// A project that it may be used for; all unless given
    #[arg(long, value_name = "PROJECT", value_delimiter = ',')]
    project: Vec<ProjectId>,

    /// How long it lives, such as 30days, or never [default: 90days]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Lifetime>,

    /// An address or network that it may be used from; everywhere unless given
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = parse_network)]
    allow_ip: Vec<IpNet>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
enum Lifetime {
    For(Duration),
    Ever,
}

fn lifetime(text: &str) -> Result<Lifetime, humantime::DurationError> {
    if text == "never" { Ok(Lifetime::Ever) } else { humantime::parse_duration(text).map(Lifetime::For) }
}

/// Carries out a command.
pub(crate) fn run(arguments: KeyArgs) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (_, store) = arguments.store.open().await?;
        match arguments.command {
            KeyCommand::Create(create) => create_key(&*store, create, json).await,
            KeyCommand::List => list(&*store, json).await,
            KeyCommand::Revoke { id } => {
                if !store.revoke_key(id, audit("key.revoked", id)).await? {
                    bail!("there is no key {id}; `journeyman key list` shows those there are");
                }
                Ok(())
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn create_key(store: &dyn Store, arguments: CreateArgs, json: bool) -> anyhow::Result<()> {
    for project in &arguments.project {
        if store.project(project.clone()).await?.is_none() {
            bail!("there is no project {project}; `journeyman project list` lists the projects");
        }
    }
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
    let (key, secret) = new.make(("cli", None), now, &Machine)?;
    store.create_key(key.clone(), audit("key.created", key.id)).await?;
    if json {
        return print_json(&CreatedKey { key: key.into(), secret });
    }
    let until = key.expires_at.map_or_else(|| "does not expire".to_owned(), |end| format!("expires {end}"));
    writeln!(std::io::stderr(), "key {} ({}), {until}; its secret is shown this once:", key.id, key.name)?;
    Ok(print(&secret)?)
}

const fn scope(scope: ScopeArg) -> Scope {
    match scope {
        ScopeArg::Read => Scope::Read,
        ScopeArg::Write => Scope::Write,
    }
}

fn expiry(lifetime: Lifetime, now: Timestamp) -> Option<Timestamp> {
    match lifetime {
        Lifetime::Ever => None,
        Lifetime::For(duration) => Some(now + duration),
    }
}

async fn list(store: &dyn KeyStore, json: bool) -> anyhow::Result<()> {
    let keys: Vec<Key> = store.keys().await?.into_iter().map(Key::from).collect();
    if json {
        return print_json(&KeyList { keys });
    }
    let head = ["ID", "NAME", "PREFIX", "SCOPES", "PROJECTS", "EXPIRES", "LAST USED", "REVOKED"];
    Ok(print_lines(&table(head, keys.into_iter().map(row).collect()))?)
}

fn row(key: Key) -> [String; 8] {
    let scopes: Vec<&str> = key
        .scopes
        .iter()
        .map(|scope| match scope {
            journeyman_http::wire::key::Scope::Read => "read",
            journeyman_http::wire::key::Scope::Write => "write",
        })
        .collect();
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
