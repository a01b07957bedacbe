//! Slack: the management of workspaces, for administrators, and the codes with which people connect their accounts.

mod decide;
mod outcome;
mod posts;
mod receive;
mod socket;

use std::collections::{BTreeMap, BTreeSet};

use journeyman_core::decision::user::UserToChange;
use journeyman_core::decision::{Change, Once, Row};
use journeyman_core::finding::Finding;
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId};
use journeyman_core::key::Scope;
use journeyman_core::ports::{SlackError, SlackEventFilter, SlackIdentity, StoreError};
use journeyman_core::resource::{Key, Put, Resource as _, not_found};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::check::{InvalidSlack, changed_secrets, check_complete, check_secrets};
use journeyman_core::slack::{
    CODE_LIFETIME, SlackInboxEvent, SlackMode, SlackPost, SlackSecret, SlackSecretChanges, SlackSecrets, SlackSettings,
    SlackWorkspace,
};
use journeyman_core::time::Timestamp;
use journeyman_core::user::new_token;
use journeyman_core::version::{FIRST_VERSION, Precondition};

use crate::{Actor, Answered, Caller, Error, Idempotency, RefusalKind, UseCases, claim};

pub use receive::SlackReceived;

/// A workspace, and which of its secrets are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedSlack {
    /// The workspace.
    pub workspace: SlackWorkspace,
    /// The secrets that are set.
    pub secrets: BTreeSet<SlackSecret>,
}

/// The changes of a workspace. Absent fields keep their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlackEdit {
    /// The name.
    pub name: Option<String>,
    /// The way in which events arrive.
    pub mode: Option<SlackMode>,
    /// The projects of channels; `None` disconnects a channel.
    pub channels: BTreeMap<String, Option<ProjectId>>,
    /// The users of people; `None` disconnects an account.
    pub users: BTreeMap<String, Option<UserId>>,
    /// The secrets.
    pub secrets: SlackSecretChanges,
}

impl SlackEdit {
    fn apply(&self, known: &SlackSettings, identity: Option<&SlackIdentity>) -> SlackSettings {
        let mut settings = known.clone();
        settings.name = self.name.clone().unwrap_or(settings.name);
        settings.mode = self.mode.unwrap_or(settings.mode);
        if let Some(identity) = identity {
            settings.bot_user.clone_from(&identity.bot_user);
            settings.enterprise.clone_from(&identity.enterprise);
        }
        merge(&mut settings.channels, &self.channels);
        merge(&mut settings.users, &self.users);
        settings
    }
}

fn merge<T: Clone>(known: &mut BTreeMap<String, T>, changes: &BTreeMap<String, Option<T>>) {
    for (key, value) in changes {
        match value {
            Some(value) => known.insert(key.clone(), value.clone()),
            None => known.remove(key),
        };
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the function that converts an error")]
fn invalid(error: InvalidSlack) -> Error {
    Error::invalid(error.to_string())
}

impl UseCases {
    /// Returns the workspaces, oldest first.
    ///
    /// # Errors
    /// The caller is not an administrator, or the store failed.
    pub async fn slack_workspaces(&self, caller: &Caller) -> Result<Vec<DescribedSlack>, Error> {
        caller.needs_administrator_to_read()?;
        let mut described = Vec::new();
        for workspace in self.stored_workspaces().await? {
            described.push(self.described(workspace).await?);
        }
        Ok(described)
    }

    /// Returns a workspace.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace does not exist, or the store failed.
    pub async fn slack_workspace(&self, caller: &Caller, id: SlackWorkspaceId) -> Result<DescribedSlack, Error> {
        caller.needs_administrator_to_read()?;
        let found = self.stored_workspace(id).await?;
        self.described(found.ok_or_else(|| Error::Admin(not_found::<SlackWorkspace>()))?).await
    }

    /// Returns all workspaces as they are stored, oldest first.
    async fn stored_workspaces(&self) -> Result<Vec<SlackWorkspace>, StoreError> {
        self.parts().store.resources(None).await
    }

    /// Finds a workspace as it is stored.
    async fn stored_workspace(&self, id: SlackWorkspaceId) -> Result<Option<SlackWorkspace>, StoreError> {
        self.parts().store.resource(id).await
    }

    async fn described(&self, workspace: SlackWorkspace) -> Result<DescribedSlack, Error> {
        let secrets = self.parts().store.slack_secrets(workspace.id).await?.into_keys().collect();
        Ok(DescribedSlack { workspace, secrets })
    }

    /// Returns the URL to which Slack sends the events of a workspace.
    #[must_use]
    pub fn slack_url(&self, id: SlackWorkspaceId) -> String {
        format!("{}/hooks/slack/{id}", self.parts().public_url)
    }

    /// Connects a workspace. Slack is asked for the identity of the bot token. `answer` renders the answer that is stored
    /// for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, a field is not valid, Slack refuses the token, the workspace is connected
    /// already, or the store failed.
    pub async fn create_slack_workspace(
        &self,
        caller: &Caller,
        edit: SlackEdit,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&DescribedSlack) -> String,
    ) -> Result<Answered<DescribedSlack>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let claim = claim(caller, None, idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        let mode = edit.mode.unwrap_or(SlackMode::Events);
        check_secrets(&edit.secrets).map_err(invalid)?;
        let secrets = changed_secrets(&SlackSecrets::new(), &edit.secrets);
        check_complete(mode, &secrets).map_err(invalid)?;
        self.check_mappings(&edit).await?;
        let identity = self.identify(&secrets).await?;
        let now = self.parts().engine.now();
        let SlackIdentity { team, enterprise, name, bot_user } = identity;
        let name = if name.trim().is_empty() { team.clone() } else { name };
        let (channels, users) = (BTreeMap::new(), BTreeMap::new());
        let settings = SlackSettings { name, team, bot_user, enterprise, mode, channels, users };
        let settings = edit.apply(&settings, None);
        let id = SlackWorkspaceId::from_uuid(self.parts().ids.uuid(now));
        let workspace = SlackWorkspace { id, settings, created_at: now, version: FIRST_VERSION };
        let audit = self.audit(caller, "slack_workspace.created", id);
        let described = DescribedSlack { workspace: workspace.clone(), secrets: secrets.into_keys().collect() };
        let once = claim.map(|claim| Once { claim, answer: answer(&described) });
        let new = Put { resource: workspace, secrets: edit.secrets };
        Ok(self.create_resource(new, once, audit).await?.map(|_| described))
    }

    /// Changes a workspace. With a new bot token, Slack is asked whether it belongs to the same workspace.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace does not exist or has another version, a field is not valid, Slack
    /// refuses the token, or the store failed.
    pub async fn change_slack_workspace(
        &self,
        caller: &Caller,
        id: SlackWorkspaceId,
        precondition: Precondition,
        edit: SlackEdit,
    ) -> Result<DescribedSlack, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let known = self.slack_workspace(caller, id).await?.workspace;
        precondition.check(SlackWorkspace::KIND, known.version).map_err(Error::Admin)?;
        check_secrets(&edit.secrets).map_err(invalid)?;
        let secrets = changed_secrets(&self.parts().store.slack_secrets(id).await?, &edit.secrets);
        check_complete(edit.mode.unwrap_or(known.settings.mode), &secrets).map_err(invalid)?;
        self.check_mappings(&edit).await?;
        let identity = match edit.secrets.contains_key(&SlackSecret::BotToken) {
            true => Some(self.identify(&secrets).await?),
            false => None,
        };
        if identity.as_ref().is_some_and(|identity| identity.team != known.settings.team) {
            return Err(Error::invalid("botToken: belongs to another workspace; connect that one separately"));
        }
        let audit = self.audit(caller, "slack_workspace.changed", id);
        let key = known.key();
        // The secrets were checked together with those that were stored then.
        let depends_on_secrets = !edit.secrets.is_empty() || edit.mode.is_some();
        let precondition = if depends_on_secrets && precondition == Precondition::None {
            Precondition::Version(vec![known.version])
        } else {
            precondition
        };
        let apply = move |known: &SlackWorkspace| {
            let settings = edit.apply(&known.settings, identity.as_ref());
            Ok(Put { resource: SlackWorkspace { settings, ..known.clone() }, secrets: edit.secrets.clone() })
        };
        self.change_resource(key, precondition, apply, audit).await?;
        self.slack_workspace(caller, id).await
    }

    /// Disconnects a workspace, and removes its secrets, events, threads and posts. Removing it again changes nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace never existed or has another version, or the store failed.
    pub async fn remove_slack_workspace(
        &self,
        caller: &Caller,
        id: SlackWorkspaceId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let audit = self.audit(caller, "slack_workspace.removed", id);
        self.remove_resource(Key::<SlackWorkspace>::new(id, None), precondition, audit).await
    }

    /// Tests whether Slack accepts the tokens, whether events arrive, and whether posts are accepted. Stores nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace does not exist, or the store failed.
    pub async fn check_slack_workspace(&self, caller: &Caller, id: SlackWorkspaceId) -> Result<Vec<Finding>, Error> {
        caller.needs_administrator()?;
        self.confirm(caller).await?;
        let SlackWorkspace { settings, .. } = self.slack_workspace(caller, id).await?.workspace;
        let secrets = self.parts().store.slack_secrets(id).await?;
        let mut findings = vec![match self.identify(&secrets).await {
            Ok(identity) if identity.team == settings.team => {
                Finding::ok("bot token", format!("Slack accepts the token for the workspace {}", identity.name))
            }
            Ok(_) => {
                Finding::failure("bot token", "the token belongs to another workspace; set the one of this workspace")
            }
            Err(error) => Finding::failure("bot token", error.to_string()),
        }];
        if settings.mode == SlackMode::Socket {
            findings.push(match self.app_socket(&secrets).await {
                Ok(_) => Finding::ok("socket mode", "a connection can be opened"),
                Err(error) => Finding::failure("socket mode", error.to_string()),
            });
        }
        findings.push(self.arrivals(id).await?);
        if settings.channels.is_empty() {
            let text = "no channel is connected with a project; connect one, and invite the bot to it";
            findings.push(Finding::warning("channels", text));
        }
        let posts = self.parts().store.slack_posts(id, None, 100).await?;
        if let Some((channel, error)) = posts.iter().find_map(|post| Some((&post.thread.channel, post.error()?))) {
            findings.push(Finding::warning("posts", format!("in {channel}: {error}")));
        }
        Ok(findings)
    }

    async fn arrivals(&self, id: SlackWorkspaceId) -> Result<Finding, Error> {
        let filter = SlackEventFilter { workspace: id, thread: None, before: None, limit: 1 };
        let last = self.parts().store.slack_events(filter).await?.into_iter().next();
        Ok(match last {
            Some(event) => Finding::ok_at("events", "the last one arrived", event.received_at),
            None => {
                let text = format!(
                    "none has arrived; with HTTP, set the request URL of the event subscriptions to {}; then mention the \
                     bot in a connected channel",
                    self.slack_url(id)
                );
                Finding::warning("events", text)
            }
        })
    }

    /// Returns the events of a workspace with numbers below `before`, newest first.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace does not exist, or the store failed.
    pub async fn slack_events(
        &self,
        caller: &Caller,
        id: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, Error> {
        self.slack_workspace(caller, id).await?;
        let filter = SlackEventFilter { workspace: id, thread: None, before, limit };
        Ok(self.parts().store.slack_events(filter).await?)
    }

    /// Returns the posts of a workspace with numbers below `before`, newest first.
    ///
    /// # Errors
    /// The caller is not an administrator, the workspace does not exist, or the store failed.
    pub async fn slack_posts(
        &self,
        caller: &Caller,
        id: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, Error> {
        self.slack_workspace(caller, id).await?;
        Ok(self.parts().store.slack_posts(id, before, limit).await?)
    }

    /// Creates a code with which the caller connects an account of Slack, and returns it with the time at which it
    /// expires. An earlier code of the caller is no longer valid.
    ///
    /// # Errors
    /// The caller is neither a user nor a key of a user that may do what its user may, or the store failed.
    pub async fn create_slack_code(&self, caller: &Caller) -> Result<(String, Timestamp), Error> {
        // A connected account has all rights of its user, so a limited key must not connect one.
        caller.needs(Scope::Jobs)?;
        let is_limited = match &caller.actor {
            Actor::Key(key) => key.projects.is_some() || !key.allows(Scope::Write),
            Actor::User(_) | Actor::CommandLine => false,
        };
        let Some(user) = caller.owner().filter(|_| !is_limited) else {
            let text =
                "only a user, or an API key of a user for all projects with the scope write, can connect an account";
            return Err(Error::refused(RefusalKind::ScopeMissing, text));
        };
        self.confirm(caller).await?;
        let (code, hash) = new_token(&*self.parts().ids);
        let expires_at = self.parts().engine.now() + CODE_LIFETIME;
        let row = Row::SlackCode { hash, user, expires_at };
        let audit = self.audit(caller, "slack_code.created", user);
        let decide = move |_: &_| Ok(Change::new([row.clone()], audit.clone()));
        self.administer(UserToChange(user), None, decide).await?;
        Ok((code, expires_at))
    }

    /// Returns the identity of the bot token.
    async fn identify(&self, secrets: &SlackSecrets) -> Result<SlackIdentity, Error> {
        let failed = |error: SlackError| Error::refused(RefusalKind::SlackFailed, format!("botToken: {error}"));
        self.parts().slack.identity(token(secrets, SlackSecret::BotToken)?).await.map_err(failed)
    }

    /// Checks that the projects and users that channels and people are connected with exist.
    async fn check_mappings(&self, edit: &SlackEdit) -> Result<(), Error> {
        let store = &self.parts().store;
        for (channel, project) in &edit.channels {
            if let Some(project) = project
                && store.project(project.clone()).await?.is_none()
            {
                return Err(Error::invalid(format!("channels.{channel}: there is no project {project}")));
            }
        }
        for (account, user) in &edit.users {
            if let Some(user) = user
                && store.user(*user).await?.is_none()
            {
                return Err(Error::invalid(format!("users.{account}: there is no user {user}")));
            }
        }
        Ok(())
    }
}

/// Returns a secret, which [`check_complete`] has required.
fn token(secrets: &SlackSecrets, name: SlackSecret) -> Result<&SecretValue, Error> {
    secrets.get(&name).ok_or_else(|| Error::invalid(format!("{}: is not set", name.field())))
}
