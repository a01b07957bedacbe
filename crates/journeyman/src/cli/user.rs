//! `journeyman user`: users of the dashboard, with or without a running service.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use journeyman_app::{Caller, UseCases};
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::user::{Role, User, user_name};

use super::place::PlaceArgs;
use super::store::{block_on, print, print_lines};
use super::table::table;
use crate::app;

#[derive(Debug, Args)]
#[command(
    after_help = "Users are managed on the machine of the service, or on the dashboard's page System → Users: servers \
                  have no operations for them. JOURNEYMAN_URL and contexts are not used."
)]
pub(crate) struct UserArgs {
    #[command(flatten)]
    place: PlaceArgs,
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
    /// Print a link to set a password once; without a name, a link for the first administrator
    Link {
        /// Name of the user
        name: Option<String>,
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

/// Runs a command.
pub(crate) fn run(arguments: UserArgs) -> anyhow::Result<ExitCode> {
    let store = arguments.place.store_only("users", "System → Users")?;
    block_on(async move {
        let (settings, store) = store.open().await?;
        let (cases, caller) = (app::use_cases(&settings, &store)?, Caller::command_line());
        let url = settings.public_url(settings.listen);
        match arguments.command {
            UserCommand::List => list(&*store).await,
            UserCommand::Add { name, role } => {
                let user = cases.add_user(&caller, &name, role.into()).await?;
                Ok(print(&link(&cases, &url, Some(&user)).await?)?)
            }
            UserCommand::Link { name: Some(name) } => {
                let name = user_name(&name)?;
                let user = store.user_by_name(name.clone()).await?;
                let user =
                    user.with_context(|| format!("there is no user {name}; `journeyman user list` lists the users"))?;
                Ok(print(&link(&cases, &url, Some(&user)).await?)?)
            }
            UserCommand::Link { name: None } => Ok(print(&link(&cases, &url, None).await?)?),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns whether there is an administrator who may sign in.
pub(super) async fn has_administrator(store: &dyn Store) -> Result<bool, StoreError> {
    let is_one = |user: &User| user.role == Role::Administrator && user.disabled_at.is_none();
    Ok(store.users().await?.iter().any(is_one))
}

/// Creates a link with which a user can set a password once. Without a user, the link creates the first administrator.
pub(super) async fn link(cases: &UseCases, url: &str, user: Option<&User>) -> anyhow::Result<String> {
    let token = cases.create_link(&Caller::command_line(), user.map(|user| user.id)).await?;
    Ok(format!("{url}/setup?link={token}"))
}

async fn list(store: &dyn Store) -> anyhow::Result<()> {
    let row = |user: User| {
        let method = match (&user.identity, &user.password) {
            (Some(_), _) => "provider",
            (None, Some(_)) => "password",
            (None, None) => "not yet",
        };
        let state = if user.disabled_at.is_some() { "disabled" } else { "" };
        let seen = user.signed_in_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        [user.name, user.role.name().to_owned(), method.to_owned(), seen, state.to_owned()]
    };
    let rows: Vec<_> = store.users().await?.into_iter().map(row).collect();
    Ok(print_lines(&table(["name", "role", "sign-in", "last sign-in", ""], rows))?)
}
