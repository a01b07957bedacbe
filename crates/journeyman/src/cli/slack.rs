//! `journeyman slack`: Slack workspaces, with or without a running service.

mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use journeyman_app::{Answered, Caller, DescribedSlack, Error, SlackEdit, UseCases};
use journeyman_core::finding::first_failure;
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId};
use journeyman_core::ports::Store;
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::slack::manifest::manifest;
use journeyman_core::slack::{SlackMode, SlackSecret, SlackSecretChanges};
use journeyman_core::user::user_name;
use journeyman_core::version::Precondition;
use journeyman_http::wire::code_host::FindingList;
use journeyman_http::wire::slack as wire;

use super::confirm::ConfirmArgs;
use super::doctor::print_findings;
use super::exit::usage;
use super::look::{Look, plain};
use super::paint::ColorWhen;
use super::secret;
use super::store::{StoreArgs, block_on, print, print_json, print_lines};
use super::table::listed;
use crate::app;

/// The number of events and posts that are listed.
const LISTED: usize = 50;

#[derive(Debug, Args)]
pub(crate) struct SlackArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: SlackCommand,
}

#[derive(Debug, Subcommand)]
enum SlackCommand {
    /// Print the manifest from which Slack creates the app
    Manifest {
        /// Way in which events arrive
        #[arg(long, value_enum, default_value = "events")]
        mode: ModeArg,
        /// ID of a connected workspace, whose URL for events the manifest then has
        id: Option<SlackWorkspaceId>,
    },
    /// Connect a workspace, and print its ID and the URL for its events
    Connect(Box<ConnectArgs>),
    /// List all workspaces, without secrets
    List,
    /// Show a workspace with its channels and people
    Show {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
    },
    /// Change the name, the mode or the secrets of a workspace
    Update(Box<UpdateArgs>),
    /// Connect a channel with a project, or disconnect it
    MapChannel {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
        /// ID of the channel, at the end of its details in Slack
        channel: String,
        /// Project in which the channel creates jobs
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        project: Option<ProjectId>,
        /// Disconnect the channel
        #[arg(long)]
        remove: bool,
    },
    /// Connect a person with a user, or disconnect the person
    MapUser {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
        /// Member ID of the person, in the profile in Slack
        account: String,
        /// Name or ID of the user, as in `user list`
        #[arg(required_unless_present = "remove", conflicts_with = "remove")]
        user: Option<String>,
        /// Disconnect the person
        #[arg(long)]
        remove: bool,
    },
    /// Test whether Slack accepts the tokens, whether events arrive, and whether posts are accepted
    Check {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
    },
    /// List the newest events of a workspace, and what became of each
    Events {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
    },
    /// List the newest posts to a workspace, with the error of each that failed
    Posts {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
    },
    /// Disconnect a workspace, and delete its secrets, events and posts; jobs stay
    Disconnect {
        /// ID of the workspace, as in `slack list`
        id: SlackWorkspaceId,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

#[derive(Debug, Args)]
struct ConnectArgs {
    /// Name, for people [default: the name at Slack]
    #[arg(long)]
    name: Option<String>,

    /// Way in which events arrive: HTTP requests of Slack, or a connection of the service (Socket Mode)
    #[arg(long, value_enum, default_value = "events")]
    mode: ModeArg,

    #[command(flatten)]
    secrets: SecretArgs,

    /// Channel and its project, such as C012AB3CD=shop
    #[arg(long, value_name = "CHANNEL=PROJECT", value_parser = pair)]
    channel: Vec<(String, String)>,

    /// Person and the user, such as U012AB3CD=ada@example.com
    #[arg(long, value_name = "ACCOUNT=USER", value_parser = pair)]
    user: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct UpdateArgs {
    /// ID of the workspace, as in `slack list`
    id: SlackWorkspaceId,

    /// New name
    #[arg(long)]
    name: Option<String>,

    /// New way in which events arrive
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,

    #[command(flatten)]
    secrets: SecretArgs,
}

#[derive(Debug, Args)]
struct SecretArgs {
    /// File with the token of the bot (xoxb-…), or "-" for stdin. There is no option for the token itself, because other
    /// users can see command lines
    #[arg(long, value_name = "FILE")]
    bot_token_file: Option<PathBuf>,

    /// File with the signing secret of the app, for the mode events, or "-" for stdin
    #[arg(long, value_name = "FILE")]
    signing_secret_file: Option<PathBuf>,

    /// File with the token of the app (xapp-…), for the mode socket, or "-" for stdin
    #[arg(long, value_name = "FILE")]
    app_token_file: Option<PathBuf>,
}

impl SecretArgs {
    fn read(&self) -> anyhow::Result<SlackSecretChanges> {
        let files = [
            (SlackSecret::BotToken, &self.bot_token_file),
            (SlackSecret::SigningSecret, &self.signing_secret_file),
            (SlackSecret::AppToken, &self.app_token_file),
        ];
        Ok(secret::read_all(files)?.map(|(secret, value)| (secret, Some(value))).collect())
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    Events,
    Socket,
}

impl From<ModeArg> for SlackMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Events => Self::Events,
            ModeArg::Socket => Self::Socket,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((id, value)) if !id.is_empty() && !value.is_empty() => Ok((id.to_owned(), value.to_owned())),
        _ => Err("write the ID at Slack, '=', and the project or the user".to_owned()),
    }
}

/// The use cases and the store of a command.
struct Command {
    cases: UseCases,
    store: Arc<dyn Store>,
    json: bool,
    color: ColorWhen,
}

/// Runs a command. The exit code is 1 if a test fails.
pub(crate) fn run(arguments: SlackArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    let json = arguments.json;
    block_on(async move {
        let (settings, store) = arguments.store.open().await?;
        let at = Command { cases: app::use_cases(&settings, &store)?, store, json, color };
        at.run(arguments.command).await
    })
}

impl Command {
    async fn run(&self, command: SlackCommand) -> anyhow::Result<ExitCode> {
        match command {
            SlackCommand::Manifest { mode, id } => self.manifest(mode.into(), id).await?,
            SlackCommand::Connect(arguments) => self.connect(*arguments).await?,
            SlackCommand::List => self.list().await?,
            SlackCommand::Show { id } => self.show(id).await?,
            SlackCommand::Update(arguments) => self.update(*arguments).await?,
            SlackCommand::MapChannel { id, channel, project, remove } => {
                let done = match &project {
                    Some(project) => format!("Connected the channel {} with the project {project}.", plain(&channel)),
                    None => format!("Disconnected the channel {}.", plain(&channel)),
                };
                let channels = [(channel, project.filter(|_| !remove))].into();
                self.change(id, SlackEdit { channels, ..SlackEdit::default() }, &done).await?;
            }
            SlackCommand::MapUser { id, account, user, remove } => {
                let done = match &user {
                    Some(user) => format!("Connected {} with the user {}.", plain(&account), plain(user)),
                    None => format!("Disconnected {}.", plain(&account)),
                };
                let user = match user.filter(|_| !remove) {
                    Some(user) => Some(self.user(&user).await?),
                    None => None,
                };
                let users = [(account, user)].into();
                self.change(id, SlackEdit { users, ..SlackEdit::default() }, &done).await?;
            }
            SlackCommand::Check { id } => return self.check(id).await,
            SlackCommand::Events { id } => self.events(id).await?,
            SlackCommand::Posts { id } => self.posts(id).await?,
            SlackCommand::Disconnect { id, confirm } => {
                let effect = format!(
                    "This disconnects the workspace {id}, and deletes its secrets, events and posts; jobs stay"
                );
                confirm.confirm(&effect, &id.to_string())?;
                let caller = Caller::command_line();
                known(id, self.cases.remove_slack_workspace(&caller, id, Precondition::None).await)?;
                if !self.json {
                    print(&format!("Disconnected the workspace {id}, and deleted its secrets, events and posts."))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn manifest(&self, mode: SlackMode, id: Option<SlackWorkspaceId>) -> anyhow::Result<()> {
        let Some(id) = id else { return Ok(print(&manifest(mode, None))?) };
        let described = self.described(id).await?;
        Ok(print(&manifest(described.workspace.settings.mode, Some(&self.cases.slack_url(id))))?)
    }

    async fn connect(&self, arguments: ConnectArgs) -> anyhow::Result<()> {
        let ConnectArgs { name, mode, secrets, channel, user } = arguments;
        let mut edit = SlackEdit { name, mode: Some(mode.into()), secrets: secrets.read()?, ..SlackEdit::default() };
        for (channel, project) in channel {
            let project = project.parse::<ProjectId>().with_context(|| format!("--channel {channel}={project}"))?;
            edit.channels.insert(channel, Some(project));
        }
        for (account, user) in user {
            edit.users.insert(account, Some(self.user(&user).await?));
        }
        let made = self.cases.create_slack_workspace(&Caller::command_line(), edit, None, |_| String::new()).await?;
        let Answered::New(described) = made else { bail!("the workspace was connected already") };
        if self.json {
            return self.print_workspace(&described);
        }
        let id = described.workspace.id;
        print(&id.to_string())?;
        if described.workspace.settings.mode == SlackMode::Events {
            print(&self.cases.slack_url(id))?;
        }
        Ok(())
    }

    async fn list(&self) -> anyhow::Result<()> {
        let all = self.cases.slack_workspaces(&Caller::command_line()).await?;
        if self.json {
            let show = |one: &DescribedSlack| wire::show(one, self.cases.slack_url(one.workspace.id));
            return print_json(&wire::SlackWorkspaceList { workspaces: all.iter().map(show).collect() });
        }
        Ok(print_lines(&listed(show::workspaces(Look::for_stdout(self.color), &all), "No workspaces found."))?)
    }

    async fn show(&self, id: SlackWorkspaceId) -> anyhow::Result<()> {
        let described = self.described(id).await?;
        if self.json {
            return self.print_workspace(&described);
        }
        let users = self.store.users().await?;
        Ok(print_lines(&show::workspace(&described, &self.cases.slack_url(id), &users))?)
    }

    async fn update(&self, arguments: UpdateArgs) -> anyhow::Result<()> {
        let UpdateArgs { id, name, mode, secrets } = arguments;
        let edit = SlackEdit { name, mode: mode.map(Into::into), secrets: secrets.read()?, ..SlackEdit::default() };
        if edit == SlackEdit::default() {
            return Err(usage(
                "nothing to change: use --name, --mode, --bot-token-file, --signing-secret-file or --app-token-file",
            ));
        }
        self.change(id, edit, &format!("Changed the workspace {id}.")).await
    }

    /// Changes a workspace, and prints `done`, or the workspace as JSON.
    async fn change(&self, id: SlackWorkspaceId, edit: SlackEdit, done: &str) -> anyhow::Result<()> {
        let changed = self.cases.change_slack_workspace(&Caller::command_line(), id, Precondition::None, edit).await;
        let changed = known(id, changed)?;
        if self.json { self.print_workspace(&changed) } else { Ok(print(done)?) }
    }

    async fn check(&self, id: SlackWorkspaceId) -> anyhow::Result<ExitCode> {
        let findings = known(id, self.cases.check_slack_workspace(&Caller::command_line(), id).await)?;
        let code = if first_failure(&findings).is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        match self.json {
            true => print_json(&FindingList::from(findings))?,
            false => print_findings(&findings, self.color)?,
        }
        Ok(code)
    }

    async fn events(&self, id: SlackWorkspaceId) -> anyhow::Result<()> {
        let events = known(id, self.cases.slack_events(&Caller::command_line(), id, None, LISTED).await)?;
        if self.json {
            let events = events.into_iter().map(Into::into).collect();
            return print_json(&wire::SlackEventPage { events, next_cursor: None });
        }
        Ok(print_lines(&listed(show::events(Look::for_stdout(self.color), events), "No events found."))?)
    }

    async fn posts(&self, id: SlackWorkspaceId) -> anyhow::Result<()> {
        let posts = known(id, self.cases.slack_posts(&Caller::command_line(), id, None, LISTED).await)?;
        if self.json {
            let posts = posts.into_iter().map(Into::into).collect();
            return print_json(&wire::SlackPostPage { posts, next_cursor: None });
        }
        Ok(print_lines(&listed(show::posts(Look::for_stdout(self.color), posts), "No posts found."))?)
    }

    async fn described(&self, id: SlackWorkspaceId) -> anyhow::Result<DescribedSlack> {
        known(id, self.cases.slack_workspace(&Caller::command_line(), id).await)
    }

    fn print_workspace(&self, described: &DescribedSlack) -> anyhow::Result<()> {
        print_json(&wire::show(described, self.cases.slack_url(described.workspace.id)))
    }

    /// Finds a user by name or ID.
    async fn user(&self, text: &str) -> anyhow::Result<UserId> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let found = self.store.user_by_name(user_name(text)?).await?;
        let found =
            found.with_context(|| format!("there is no user {text}; `journeyman user list` lists the users"))?;
        Ok(found.id)
    }
}

/// Returns a result with an explanation if the workspace does not exist.
fn known<T>(id: SlackWorkspaceId, result: Result<T, Error>) -> anyhow::Result<T> {
    result.map_err(|error| match error {
        Error::Admin(refusal) if refusal.is(RefusalKind::NotFound, ResourceKind::SlackWorkspace) => {
            anyhow!("there is no Slack workspace {id}; `journeyman slack list` lists the workspaces")
        }
        error => error.into(),
    })
}
