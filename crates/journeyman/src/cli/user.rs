//! `journeyman user`: people who use the dashboard, in the store itself.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use journeyman_core::ids::UserId;
use journeyman_core::ports::{Store, StoreError};
use journeyman_core::time::{Clock, IdGen};
use journeyman_core::user::{Role, SETUP_LINK_LIFETIME, SIGN_IN_LINK_LIFETIME, SignInLink, User, new_token, user_name};

use super::store::{StoreArgs, audit, block_on, print, print_lines};
use super::table::table;
use crate::system::Machine;

#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// Lists who may sign in
    List,
    /// Adds somebody, and prints the link by which they set a password
    Add {
        /// The name to sign in with, such as an address
        name: String,
        /// What they may do
        #[arg(long, value_enum, default_value = "member")]
        role: RoleArg,
    },
    /// Prints a link by which somebody sets a new password, once; without a name, by which the first administrator does
    Link {
        /// Whose password
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

/// Carries out a command.
pub(crate) fn run(arguments: UserArgs) -> anyhow::Result<ExitCode> {
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        let url = settings.public_url(settings.listen);
        match arguments.command {
            UserCommand::List => list(&*store).await,
            UserCommand::Add { name, role } => {
                let user = add(&*store, &name, role.into()).await?;
                Ok(print(&link(&*store, &url, Some(&user)).await?)?)
            }
            UserCommand::Link { name: Some(name) } => {
                let name = user_name(&name)?;
                let user = store.user_by_name(name.clone()).await?;
                let user =
                    user.with_context(|| format!("there is no user {name}; `journeyman user list` shows all"))?;
                Ok(print(&link(&*store, &url, Some(&user)).await?)?)
            }
            UserCommand::Link { name: None } => {
                if let Some(user) = administrator(&*store).await? {
                    bail!("there is an administrator, {}; say whose password is to be set", user.name);
                }
                Ok(print(&link(&*store, &url, None).await?)?)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Somebody who may do everything, if there is anybody.
pub(super) async fn administrator(store: &dyn Store) -> Result<Option<User>, StoreError> {
    let is_one = |user: &User| user.role == Role::Administrator && user.disabled_at.is_none();
    Ok(store.users().await?.into_iter().find(is_one))
}

/// A link by which a password is set, once: somebody's, or the first administrator's.
pub(super) async fn link(store: &dyn Store, url: &str, user: Option<&User>) -> Result<String, StoreError> {
    let (token, hash) = new_token(&Machine);
    let lifetime = if user.is_some() { SIGN_IN_LINK_LIFETIME } else { SETUP_LINK_LIFETIME };
    let link = SignInLink { hash, user: user.map(|user| user.id), expires_at: Machine.now() + lifetime };
    let subject = user.map_or_else(|| "the first administrator".to_owned(), |user| user.id.to_string());
    store.create_link(link, audit("user.link", subject)).await?;
    Ok(format!("{url}/setup?link={token}"))
}

async fn add(store: &dyn Store, name: &str, role: Role) -> anyhow::Result<User> {
    let now = Machine.now();
    let user = User {
        id: UserId::from_uuid(Machine.uuid(now)),
        name: user_name(name)?,
        role,
        password: None,
        identity: None,
        created_at: now,
        signed_in_at: None,
        disabled_at: None,
    };
    store.create_user(user.clone(), audit("user.created", user.id)).await?;
    Ok(user)
}

async fn list(store: &dyn Store) -> anyhow::Result<()> {
    let row = |user: User| {
        let way = match (&user.identity, &user.password) {
            (Some(_), _) => "provider",
            (None, Some(_)) => "password",
            (None, None) => "not yet",
        };
        let state = if user.disabled_at.is_some() { "disabled" } else { "" };
        let seen = user.signed_in_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
        [user.name, user.role.name().to_owned(), way.to_owned(), seen, state.to_owned()]
    };
    let rows: Vec<_> = store.users().await?.into_iter().map(row).collect();
    Ok(print_lines(&table(["name", "role", "signs in", "last time", ""], rows))?)
}
