//! Decides whether the author of an event, and whoever has edited it, may do what it asks for.

use journeyman_core::conversation::Permission;
use journeyman_core::hook::{HookEvent, HostUser};
use journeyman_core::inbox::refusal::MAY_NOT_PUSH;
use journeyman_core::inbox::route::addressed;
use journeyman_core::inbox::{InboxState, Next, Outcome};
use journeyman_core::ports::ForgeError;

use super::Problem;
use super::context::Context;
use super::decide::{ends, is_temporary};
use crate::UseCases;

impl UseCases {
    /// Returns the end of an event whose author may not push. A trusted bot needs no permission: GitHub does not know the
    /// permissions of apps.
    pub(super) async fn refused(&self, author: &HostUser, context: &Context) -> Result<Option<Next>, Problem> {
        self.refused_user(Permission::Write, author, context).await
    }

    /// Returns the end of an event of a user with less than this permission.
    async fn refused_user(
        &self,
        least: Permission,
        author: &HostUser,
        context: &Context,
    ) -> Result<Option<Next>, Problem> {
        if context.identity.trusted_bots.contains(&author.id) {
            return Ok(None);
        }
        let detail = match self.read_permission(context, author).await? {
            Ok(found) if found >= least => return Ok(None),
            Ok(_) => format!("{} {MAY_NOT_PUSH}", author.name),
            Err(error) => format!(
                "the service does not know whether {} may push to the repository, so it did nothing: {error}",
                author.name
            ),
        };
        Ok(Some(ends(InboxState::Ignored, Outcome::NotPermitted, Some(detail))))
    }

    /// Returns the end of an event whose author may not push, or that someone who may not push has caused by an edit: on
    /// some code hosts, people edit the comments of others.
    pub(super) async fn refused_event(
        &self,
        read: &HookEvent,
        author: &HostUser,
        context: &Context,
    ) -> Result<Option<Next>, Problem> {
        self.refused_below(Permission::Write, read, author, context).await
    }

    /// As [`Self::refused_event`], for users with less than this permission.
    pub(super) async fn refused_below(
        &self,
        least: Permission,
        read: &HookEvent,
        author: &HostUser,
        context: &Context,
    ) -> Result<Option<Next>, Problem> {
        if let Some(refused) = self.refused_user(least, author, context).await? {
            return Ok(Some(refused));
        }
        let is_edit = addressed(read).is_some_and(|(about, _)| about.is_change);
        match read.sender.as_ref().filter(|sender| !sender.id.is_empty()) {
            _ if !is_edit => Ok(None),
            Some(editor) if editor.id != author.id => self.refused_user(least, editor, context).await,
            Some(_) => Ok(None),
            None => {
                let unknown = self.editor_unknown(context).await?;
                Ok(unknown.map(|detail| ends(InboxState::Ignored, Outcome::NotPermitted, Some(detail))))
            }
        }
    }

    /// Returns why an edit by an unknown person does not count; `None` if only people who may push can have made it.
    pub(super) async fn editor_unknown(&self, context: &Context) -> Result<Option<String>, Problem> {
        let Some(discussion) = context.discussion() else { return Ok(None) };
        let reason = match discussion.lets_others_edit().await {
            Ok(false) => return Ok(None),
            Ok(true) => "members of a team of the organization may edit comments and not push".to_owned(),
            Err(error) if is_temporary(&error) => return Err(error.into()),
            Err(error) => {
                format!("the service does not know whether people who may not push can edit comments: {error}")
            }
        };
        Ok(Some(format!(
            "the comment was edited, and the code host does not show by whom; {reason}; comment again, or set up a webhook"
        )))
    }

    /// Returns the permission of a user. A user whom the host does not know has none, and without an answer, no one has
    /// one.
    pub(super) async fn permission(&self, context: &Context, user: &HostUser) -> Result<Permission, Problem> {
        Ok(self.read_permission(context, user).await?.unwrap_or(Permission::None))
    }

    /// Returns the permission of a user, or the error because of which the credential cannot read it.
    async fn read_permission(
        &self,
        context: &Context,
        user: &HostUser,
    ) -> Result<Result<Permission, ForgeError>, Problem> {
        let Some(discussion) = context.discussion() else { return Ok(Ok(Permission::None)) };
        match discussion.permission(user).await {
            Ok(permission) => Ok(Ok(permission)),
            Err(error) if is_temporary(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!(project = %context.project.id, %error, "the permission of a user could not be read");
                Ok(Err(error))
            }
        }
    }
}
