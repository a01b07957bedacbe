//! `journeyman user`: users of the dashboard, in the database of an installation or on a server.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use journeyman_app::{Answered, Caller, CreatedLink, Error, UseCases};
use journeyman_client::models::{self, ChangeUser, CreateUser};
use journeyman_core::decision::user::UserChanges;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::user::{Role, user_name};
use journeyman_core::version::Precondition;
use journeyman_http::wire::user::{CreatedUser, User, UserLink};
use serde_json::{Value, json};

use super::backend::{Backend, BackendArgs};
use super::complete;
use super::confirm::ConfirmArgs;
use super::exit::{Exit, Failure, HELP};
use super::look::{Look, cell, plain};
use super::paint::ColorWhen;
use super::session::{Session, with_connection};
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::Column::{Extra, Text, Whole};
use super::table::{headed, listed};
use crate::app;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct UserArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// List all users
    List,
    /// Add a user and print a link to set the password
    Add {
        /// Name to sign in with, such as an email address
        name: String,
        /// Role of the user
        #[arg(long, value_enum, default_value = "member")]
        role: RoleArg,
    },
    /// Print a link to set a password once; without a name, and not on a server, a link for the first administrator
    Link {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: Option<String>,
    },
    /// Give a user another role; keys that exceed it are revoked
    Role {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: String,
        /// Role of the user
        #[arg(value_enum)]
        role: RoleArg,
    },
    /// Disable a user: end the sessions, delete the links, and revoke the keys
    Disable {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Let a disabled user sign in again
    Enable {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: String,
    },
    /// Remove the second factor of a user who has lost it; on the machine of the service
    RemoveSecondFactor {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Disconnect a user who has a password from the OpenID provider, and end the user's sessions
    Disconnect {
        /// Name or ID of the user
        #[arg(add = ArgValueCandidates::new(complete::users))]
        name: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleArg {
    Administrator,
    Member,
    Viewer,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Administrator => Self::Administrator,
            RoleArg::Member => Self::Member,
            RoleArg::Viewer => Self::Viewer,
        }
    }
}

impl From<RoleArg> for models::Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Administrator => Self::Administrator,
            RoleArg::Member => Self::Member,
            RoleArg::Viewer => Self::Viewer,
        }
    }
}

/// Runs a command.
pub(crate) fn run(arguments: UserArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let UserArgs { backend, json, command } = arguments;
    match backend.choose()? {
        Backend::Store(store) => in_store(store, command, json, color),
        Backend::Server(connection) => {
            with_connection(connection, json, color, async |session| carry_out(&session, command).await)
        }
    }
}

/// Carries out a command on the database of an installation.
fn in_store(store: StoreArgs, command: UserCommand, json: bool, color: ColorWhen) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let (settings, store) = store.open().await?;
        let (cases, caller) = (app::use_cases(&settings, &store)?, Caller::command_line());
        let change = async |name: String, changes: UserChanges| {
            let id = stored(&cases, &name).await?;
            let changed = cases.change_user(&caller, id, Precondition::None, changes).await?;
            show_changed(&serde_json::to_value(User::from(changed))?, json)
        };
        match command {
            UserCommand::List => {
                let users = cases.users(&caller).await?.into_iter();
                let users: Result<Vec<Value>, _> = users.map(|user| serde_json::to_value(User::from(user))).collect();
                print_list(Look::for_stdout(color), &users?, json)
            }
            UserCommand::Add { name, role } => {
                let created = cases.create_user(&caller, &name, role.into(), None, |_| String::new()).await?;
                let Answered::New(created) = created else { bail!("the user was added already") };
                let created = serde_json::to_value(CreatedUser::from(created))?;
                show(&created, &created["link"], json)
            }
            UserCommand::Link { name } => {
                let link = match name {
                    None => cases.create_first_link(&caller).await?,
                    Some(name) => {
                        let id = stored(&cases, &name).await?;
                        match cases.create_link(&caller, id, None, |_| String::new()).await? {
                            Answered::New(link) => link,
                            Answered::Replayed(_) => bail!("the link was created already"),
                        }
                    }
                };
                let link = serde_json::to_value(UserLink::from(link))?;
                show(&link, &link, json)
            }
            UserCommand::Role { name, role } => {
                change(name, UserChanges { role: Some(role.into()), ..UserChanges::default() }).await
            }
            UserCommand::Disable { name, confirm } => {
                confirm.confirm(&disabling(&name), &name)?;
                change(name, UserChanges { disabled: Some(true), ..UserChanges::default() }).await
            }
            UserCommand::Enable { name } => {
                change(name, UserChanges { disabled: Some(false), ..UserChanges::default() }).await
            }
            UserCommand::RemoveSecondFactor { name, confirm } => {
                confirm.confirm(&removing(&name), &name)?;
                let id = stored(&cases, &name).await?;
                if !cases.user(&caller, id).await?.has_second_factor() {
                    bail!("the user {} has no second factor", user_name(&name)?);
                }
                change(name, UserChanges { has_second_factor: Some(false), ..UserChanges::default() }).await
            }
            UserCommand::Disconnect { name, confirm } => {
                confirm.confirm(&disconnecting(&name), &name)?;
                change(name, UserChanges { has_identity: Some(false), ..UserChanges::default() }).await
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out a command on a server.
async fn carry_out(session: &Session, command: UserCommand) -> Result<Exit, Failure> {
    let (users, json) = (session.client.users(), session.json);
    let change = async |name: String, changes: ChangeUser| {
        let id = on_server(session, &name).await?;
        let changed = users.change(&id, &changes).raw().await?;
        Ok::<(), Failure>(show_changed(&changed, json)?)
    };
    match command {
        UserCommand::List => print_list(session.look, &users.list().raw().all().await?, json)?,
        UserCommand::Add { name, role } => {
            let created = users.create(&CreateUser::new(name).role(role.into())).raw().await?;
            show(&created, &created["link"], json)?;
        }
        UserCommand::Link { name } => {
            let missing = "name the user: a link for the first administrator is made on the machine of the service, \
                           with `journeyman user link --local`";
            let name = name.ok_or_else(|| Failure::Usage(missing.to_owned()))?;
            let id = on_server(session, &name).await?;
            let link = users.create_link(&id).raw().await?;
            show(&link, &link, json)?;
        }
        UserCommand::Role { name, role } => change(name, ChangeUser::new().role(role.into())).await?,
        UserCommand::Disable { name, confirm } => {
            confirm.confirm(&disabling(&name), &name)?;
            change(name, ChangeUser::new().disabled(true)).await?;
        }
        UserCommand::RemoveSecondFactor { .. } => {
            let text = "a second factor is removed on the page Users, or on the machine of the service, with `journeyman \
                        user remove-second-factor NAME --local`";
            return Err(Failure::Usage(text.to_owned()));
        }
        UserCommand::Enable { name } => change(name, ChangeUser::new().disabled(false)).await?,
        UserCommand::Disconnect { name, confirm } => {
            confirm.confirm(&disconnecting(&name), &name)?;
            change(name, ChangeUser::new().has_identity(false)).await?;
        }
    }
    Ok(Exit::Done)
}

/// Finds a user of an installation by name or ID.
async fn stored(cases: &UseCases, text: &str) -> anyhow::Result<UserId> {
    let name = user_name(text)?;
    let users = cases.users(&Caller::command_line()).await?;
    let found = users.iter().find(|user| user.name == name || user.id.to_string() == name);
    found.map(|user| user.id).with_context(|| unknown(&name))
}

/// Finds a user of a server by name or ID.
async fn on_server(session: &Session, text: &str) -> Result<String, Failure> {
    let name = user_name(text).map_err(|error| Failure::Usage(error.to_string()))?;
    let users = session.client.users().list().all().await?;
    let found = users.into_iter().find(|user| user.name == name || user.id == name);
    found.map(|user| user.id).ok_or_else(|| Failure::Usage(unknown(&name)))
}

fn unknown(name: &str) -> String {
    format!("there is no user {name}; `journeyman user list` lists the users")
}

/// Returns whether there is an administrator who may sign in.
pub(super) async fn has_administrator(store: &dyn Store) -> Result<bool, StoreError> {
    let users = store.users().await?;
    Ok(users.iter().any(|user| user.role == Role::Administrator && user.disabled_at.is_none()))
}

/// Creates a link that makes the person who opens it the first administrator. Returns `None` if there is an
/// administrator, whom another command may have just created.
pub(super) async fn first_link(cases: &UseCases) -> anyhow::Result<Option<String>> {
    unless_claimed(cases.create_first_link(&Caller::command_line()).await)
}

fn unless_claimed(created: Result<CreatedLink, Error>) -> anyhow::Result<Option<String>> {
    match created {
        Ok(link) => Ok(Some(link.url)),
        Err(Error::Admin(refusal)) if refusal.is(RefusalKind::Exists, ResourceKind::Administrator) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Prints a new link, or the whole document with it as JSON.
fn show(document: &Value, link: &Value, json: bool) -> anyhow::Result<()> {
    if json { print_json(document) } else { Ok(print(&plain(link["url"].as_str().unwrap_or_default()))?) }
}

/// Returns the sentence that a person confirms.
fn disabling(name: &str) -> String {
    format!("This disables the user {name}: the sessions end, and the user's links and keys stop working")
}

fn removing(name: &str) -> String {
    format!("This removes the second factor of the user {name}: the password alone is then enough to sign in")
}

fn disconnecting(name: &str) -> String {
    format!("This disconnects the user {name} from the provider: the sessions end, and only the user can connect again")
}

/// Prints a user who was changed.
fn show_changed(user: &Value, json: bool) -> anyhow::Result<()> {
    if json { print_json(user) } else { Ok(print(&changed(user))?) }
}

/// Returns a sentence about the state of a user.
fn changed(user: &Value) -> String {
    let (name, role) = (cell(&user["name"]), cell(&user["role"]));
    if user["disabledAt"].is_null() {
        format!("The user {name} has the role {role}, and can sign in.")
    } else {
        format!("The user {name} has the role {role}, and is disabled.")
    }
}

fn print_list(look: Look, users: &[Value], json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(&json!({ "users": users, "nextCursor": null }));
    }
    let head = [Text("NAME"), Whole("ROLE"), Extra("SIGN-IN"), Extra("LAST SIGN-IN"), Whole("STATE")];
    let table = headed(look, head, users.iter().map(|user| row(look, user)).collect());
    Ok(print_lines(&listed(table, "No users; `journeyman user add` adds one."))?)
}

fn row(look: Look, user: &Value) -> [String; 5] {
    let method = match (&user["hasIdentity"], &user["hasPassword"]) {
        (Value::Bool(true), _) => "provider",
        (_, Value::Bool(true)) => "password",
        _ => "not yet",
    };
    let seen = if user["signedInAt"].is_null() { "never".to_owned() } else { look.ago(&user["signedInAt"]) };
    let state = if user["disabledAt"].is_null() { "" } else { "disabled" };
    [cell(&user["name"]), cell(&user["role"]), method.to_owned(), seen, state.to_owned()]
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use journeyman_core::refusal::Refusal;

    use super::*;
    use crate::cli::paint::Paint;

    #[test]
    fn an_administrator_who_was_just_created_needs_no_link() {
        let link = CreatedLink { url: "http://x/setup?link=y".to_owned(), expires_at: Timestamp::default() };
        assert_eq!(unless_claimed(Ok(link)).unwrap().as_deref(), Some("http://x/setup?link=y"));
        let exists = Refusal::new(RefusalKind::Exists, ResourceKind::Administrator, "there is one");
        assert_eq!(unless_claimed(Err(Error::Admin(exists))).unwrap(), None);
        assert!(unless_claimed(Err(Error::Internal("the disk is full".to_owned()))).is_err());
    }

    #[test]
    fn a_change_is_described_by_the_state_of_the_user() {
        let user = |disabled: Value| json!({"name": "a\u{1b}da", "role": "viewer", "disabledAt": disabled});
        assert_eq!(changed(&user(Value::Null)), "The user a\u{fffd}da has the role viewer, and can sign in.");
        let disabled = user(json!("1970-01-01T00:00:00.000Z"));
        assert!(changed(&disabled).ends_with("and is disabled."), "{}", changed(&disabled));
    }

    #[test]
    fn a_row_says_how_a_user_signs_in() {
        let look = Look { paint: Paint::OFF, now: Timestamp::from_micros(60_000_000), columns: None };
        let user = |password: bool, identity: bool, at: Value| {
            json!({"name": "ada", "role": "member", "hasPassword": password, "hasIdentity": identity, "signedInAt": at,
                   "disabledAt": at})
        };
        let at = json!("1970-01-01T00:00:00.000Z");
        for (user, expected) in [
            (user(false, false, Value::Null), ["ada", "member", "not yet", "never", ""]),
            (user(true, false, Value::Null), ["ada", "member", "password", "never", ""]),
            (user(true, true, at), ["ada", "member", "provider", "1 minute ago", "disabled"]),
        ] {
            assert_eq!(row(look, &user), expected);
        }
    }
}
