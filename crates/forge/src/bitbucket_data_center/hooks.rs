//! Webhooks of Bitbucket Data Center.
//!
//! There are no events for builds, and no reviews with several comments: each comment has its own webhook, and an
//! approval has no text.

use journeyman_core::code_host::PullState;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostUser,
};
use journeyman_core::ports::{HookRefusal, RawHook};
use journeyman_core::position::Thread;
use journeyman_core::secret::SecretValue;
use serde::Deserialize;
use serde_json::Value;

use super::owner_page;
use super::position::Anchor;
use super::wire::{User, with_visible_comments};
use crate::hooks::{Envelope, parsed, pushed, required};
use crate::http::encoded;
use crate::json::{Id, or_default, sha};

/// Returns whether the webhook is signed with the secret.
pub(crate) fn is_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let signature = hook.header("x-hub-signature").and_then(|value| value.strip_prefix("sha256="));
    signature.is_some_and(|signature| crate::hooks::is_signed(secret, &hook.body, signature))
}

/// Returns the delivery and the event of a webhook.
pub(crate) fn envelope(hook: &RawHook) -> Result<Envelope, HookRefusal> {
    Ok(Envelope { delivery: required(hook, "x-request-id")?, event: required(hook, "x-event-key")? })
}

/// The body of a webhook, as far as the service needs it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Body {
    actor: Option<User>,
    /// Missing in events of pull requests.
    repository: Option<Repository>,
    /// The changed object, before and after: the repository, or the project in an event of a project.
    old: Value,
    new: Value,
    pull_request: Option<Pull>,
    comment: Option<Comment>,
    /// The comment that a reply answers.
    comment_parent_id: Option<Id>,
    /// The refs of a push.
    changes: Value,
    /// The text before the comment was edited.
    previous_comment: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Repository {
    id: Id,
    #[serde(deserialize_with = "or_default")]
    slug: String,
    #[serde(deserialize_with = "or_default")]
    project: Project,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Project {
    /// `~` and the user for a personal repository.
    #[serde(deserialize_with = "or_default")]
    key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pull {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    from_ref: End,
    #[serde(default, deserialize_with = "or_default")]
    to_ref: End,
    #[serde(default)]
    links: Value,
}

/// The source or the target of a pull request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct End {
    /// The full name, such as `refs/heads/main`.
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default")]
    latest_commit: String,
    #[serde(deserialize_with = "or_default")]
    repository: Repository,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Comment {
    id: Id,
    /// A number that each change increases.
    #[serde(default)]
    version: Option<Id>,
    /// Milliseconds since 1970; a text since version 10.3.
    #[serde(default)]
    updated_date: Option<Id>,
    #[serde(default, deserialize_with = "or_default")]
    text: String,
    #[serde(default, deserialize_with = "or_default")]
    author: User,
    /// Whether the thread is resolved. Missing before version 8.9.
    #[serde(default)]
    thread_resolved: Option<bool>,
    /// The position of a comment on a line. No known version sends it.
    #[serde(default)]
    anchor: Option<Anchor>,
}

/// Reads the body of a webhook.
pub(crate) fn read(event: &str, body: &[u8]) -> Result<HookEvent, String> {
    let mut body: Body = parsed(body)?;
    let sender = body.actor.take().filter(|user| !user.id.0.is_empty());
    Ok(HookEvent {
        repository: body.repository(event),
        sender: sender.map(HostUser::from),
        content: body.into_content(event)?,
    })
}

fn missing(what: &str) -> String {
    format!("the body has no {what}")
}

impl Body {
    /// Returns the repository of the event; `None` if it concerns none.
    fn repository(&self, event: &str) -> Option<EventRepository> {
        let target = self.pull_request.as_ref().map(|pull| &pull.to_ref.repository);
        let known = target.or(self.repository.as_ref()).and_then(Repository::described);
        let changed =
            || [&self.new, &self.old].into_iter().find_map(|one| Repository::deserialize(one).ok()?.described());
        known.or_else(|| if event == "repo:modified" { changed() } else { None })
    }

    fn into_content(self, event: &str) -> Result<HookContent, String> {
        match event {
            "diagnostics:ping" => Ok(HookContent::Ping),
            "pr:comment:added" => self.into_comment(CommentAction::Created),
            "pr:comment:edited" => self.into_comment(CommentAction::Edited),
            "pr:comment:deleted" => self.into_comment(CommentAction::Deleted),
            "pr:deleted" => self.into_pull()?.into_deleted(),
            "pr:opened"
            | "pr:from_ref_updated"
            | "pr:modified"
            | "pr:merged"
            | "pr:declined"
            | "pr:reviewer:approved"
            | "pr:reviewer:unapproved"
            | "pr:reviewer:needs_work"
            | "pr:reviewer:changes_requested" => self.into_pull()?.into_content(),
            "repo:refs_changed" => {
                let changes = self.changes.as_array().into_iter().flatten();
                Ok(pushed(changes.filter_map(|change| change["ref"]["id"].as_str())))
            }
            "repo:modified" => Ok(HookContent::Repository),
            _ => Ok(HookContent::Other),
        }
    }

    fn into_pull(self) -> Result<Pull, String> {
        self.pull_request.ok_or_else(|| missing("pull request"))
    }

    fn into_comment(self, action: CommentAction) -> Result<HookContent, String> {
        let comment = self.comment.ok_or_else(|| missing("comment"))?;
        let pull = self.pull_request.ok_or_else(|| missing("pull request"))?;
        // The state of a task or a thread was changed, but not the text.
        if action == CommentAction::Edited && self.previous_comment.as_str() == Some(comment.text.as_str()) {
            return Ok(HookContent::Other);
        }
        let mut comment = comment.into_comment(&pull, self.comment_parent_id);
        // The host still sends the text of a deleted comment.
        if action == CommentAction::Deleted {
            comment.body.clear();
        }
        Ok(HookContent::Comment { number: pull.id, action, comment })
    }
}

impl Repository {
    /// Returns the repository in the form of all hosts; `None` if the fields of a repository are missing.
    fn described(&self) -> Option<EventRepository> {
        let is_complete = [&self.id.0, &self.slug, &self.project.key].into_iter().all(|field| !field.is_empty());
        is_complete
            .then(|| EventRepository { id: self.id.0.clone(), path: format!("{}/{}", self.project.key, self.slug) })
    }
}

impl Pull {
    fn into_content(self) -> Result<HookContent, String> {
        let state = match self.state.as_str() {
            "" => return Err(missing("state of the pull request")),
            "OPEN" => PullState::Open,
            "MERGED" => PullState::Merged,
            _ => PullState::Closed,
        };
        Ok(self.in_state(state))
    }

    /// Describes a deleted pull request. The host sends the state before the deletion.
    fn into_deleted(self) -> Result<HookContent, String> {
        let state = if self.state == "MERGED" { PullState::Merged } else { PullState::Closed };
        Ok(self.in_state(state))
    }

    fn in_state(self, state: PullState) -> HookContent {
        let head = self.from_ref.id.strip_prefix("refs/heads/").unwrap_or(&self.from_ref.id).to_owned();
        HookContent::Pull { number: self.id, state, head, head_sha: sha(&self.from_ref.latest_commit) }
    }

    /// Returns the page: its full address if the host sends it, which old versions do not, otherwise the path below the
    /// address of the host.
    fn page(&self) -> String {
        let link = self.links.pointer("/self/0/href").and_then(Value::as_str);
        if let Some(link) = link.filter(|link| link.starts_with("http")) {
            return link.to_owned();
        }
        let Repository { slug, project, .. } = &self.to_ref.repository;
        format!("/{}/repos/{}/pull-requests/{}", owner_page(&project.key), encoded(slug), self.id)
    }
}

impl Comment {
    fn into_comment(self, pull: &Pull, parent: Option<Id>) -> HostComment {
        let parent = parent.map(|parent| parent.0).filter(|parent| !parent.is_empty());
        let thread = parent.map_or_else(|| Thread::begun_by(&self.id.0), Thread::answering);
        HostComment {
            // All comments share their IDs, and the webhook does not say which ones are on lines.
            kind: CommentKind::Pull,
            version: self.version.or(self.updated_date).unwrap_or_default().0,
            url: format!("{}/overview?commentId={}", pull.page(), self.id.0),
            id: self.id.0,
            author: self.author.into(),
            body: with_visible_comments(&self.text),
            position: self.anchor.unwrap_or_default().position(),
            hunk: None,
            thread: Some(Thread { is_resolved: self.thread_resolved, ..thread }),
            review: None,
        }
    }
}

#[cfg(test)]
mod tests;
