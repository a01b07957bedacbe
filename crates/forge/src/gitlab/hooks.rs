//! Webhooks of GitLab.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::code_host::PullState;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostIssue, HostUser, IssueAction,
};
use journeyman_core::ids::Sha;
use journeyman_core::ports::{HookRefusal, RawHook};
use journeyman_core::secret::SecretValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::Sha256;

use super::position::{Located, thread};
use super::wire::User;
use crate::hooks::{Envelope, is_equal, parsed, pushed, required};
use crate::json::{Id, or_default, sha, version};

/// The prefix of secrets that sign webhooks.
const SIGNING: &str = "whsec_";

/// Returns whether the webhook is signed with the secret, or has the secret as its token. A secret that signs webhooks
/// is never accepted as a token.
pub(crate) fn is_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let signing = secret.0.strip_prefix(SIGNING);
    let is_signed = signature(signing.unwrap_or(&secret.0), hook).is_some_and(|signature| {
        let signatures = hook.header("webhook-signature").unwrap_or_default();
        signatures.split(' ').filter_map(|text| text.strip_prefix("v1,")).any(|known| is_equal(known, &signature))
    });
    let has_token = || header(hook, "x-gitlab-token").is_some_and(|token| is_equal(token, &secret.0));
    is_signed || (signing.is_none() && has_token())
}

/// Returns whether a webhook can be signed, as far as its headers say: it has the token of the secret, or a signature.
pub(crate) fn may_be_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let has_signature = hook.header("webhook-signature").is_some_and(|text| text.contains("v1,"));
    let has_token = || header(hook, "x-gitlab-token").is_some_and(|token| is_equal(token, &secret.0));
    has_signature || (!secret.0.starts_with(SIGNING) && has_token())
}

/// Returns the signature of a webhook as the specification "Standard Webhooks" defines it. Its age does not matter: the
/// signature covers the ID of the delivery, which the inbox accepts once. `None` without the headers
/// that are signed too, and if the key is not in base64.
fn signature(key: &str, hook: &RawHook) -> Option<String> {
    let key = STANDARD_NO_PAD.decode(key.trim_end_matches('=')).ok().filter(|key| !key.is_empty())?;
    let (id, time) = (header(hook, "webhook-id")?, header(hook, "webhook-timestamp")?);
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(&hook.body);
    Some(STANDARD.encode(mac.finalize().into_bytes()))
}

/// Returns a header that is not empty.
fn header<'a>(hook: &'a RawHook, name: &str) -> Option<&'a str> {
    hook.header(name).filter(|value| !value.is_empty())
}

/// Returns the delivery and the event of a webhook. Before version 17.4, only two headers together identify a delivery.
pub(crate) fn envelope(hook: &RawHook) -> Result<Envelope, HookRefusal> {
    let event = required(hook, "x-gitlab-event")?;
    let delivery = match header(hook, "webhook-id").or_else(|| header(hook, "idempotency-key")) {
        Some(delivery) => delivery.to_owned(),
        None => format!("{}/{}", required(hook, "x-gitlab-webhook-uuid")?, required(hook, "x-gitlab-event-uuid")?),
    };
    Ok(Envelope { delivery, event })
}

#[derive(Debug, Deserialize)]
struct Note {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    note: String,
    #[serde(default, deserialize_with = "or_default")]
    url: String,
    #[serde(default)]
    author_id: Id,
    #[serde(default, deserialize_with = "or_default")]
    created_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    /// `MergeRequest`, `Issue`, `Commit` or `Snippet`.
    #[serde(default, deserialize_with = "or_default")]
    noteable_type: String,
    /// `DiffNote` for a comment on a line.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
    /// `true` if GitLab wrote it about a change.
    #[serde(default, deserialize_with = "or_default")]
    system: bool,
    /// `true` if only members of the project see it.
    #[serde(default, deserialize_with = "or_default")]
    internal: bool,
    /// The same in older versions.
    #[serde(default, deserialize_with = "or_default")]
    confidential: bool,
    /// Missing before version 16.11, which reports new comments only.
    #[serde(default)]
    action: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    position: Located,
    #[serde(default)]
    st_diff: Value,
    /// The ID of the discussion.
    #[serde(default)]
    discussion_id: Option<String>,
    /// The time at which the note was marked as resolved.
    #[serde(default)]
    resolved_at: Value,
}

#[derive(Debug, Deserialize)]
struct MergeRequest {
    iid: u64,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    source_branch: String,
    #[serde(default, deserialize_with = "or_default")]
    last_commit: Commit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Commit {
    #[serde(deserialize_with = "or_default")]
    id: String,
}

#[derive(Debug, Deserialize)]
struct Issue {
    iid: u64,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    description: String,
    #[serde(default, deserialize_with = "or_default")]
    url: String,
    #[serde(default)]
    author_id: Id,
    #[serde(default, deserialize_with = "or_default")]
    action: String,
    #[serde(default)]
    labels: Value,
}

/// Reads the body of a webhook.
pub(crate) fn read(event: &str, body: &[u8]) -> Result<HookEvent, String> {
    let body: Value = parsed(body)?;
    let sender = User::deserialize(&body["user"]).ok().map(host_user).filter(is_known);
    let content = content(event, &body, sender.clone())?;
    Ok(HookEvent { repository: repository(&body), sender, content })
}

fn content(event: &str, body: &Value, sender: Option<HostUser>) -> Result<HookContent, String> {
    // Webhooks of a whole server, and those about the projects of a group, have the event in the body.
    let event = match event {
        "System Hook" | "Project Hook" => body["object_kind"].as_str().or(body["event_name"].as_str()),
        event => Some(event),
    };
    Ok(match event.unwrap_or_default() {
        // The answer, and the merge request, may be public.
        "Confidential Note Hook" | "Confidential Issue Hook" => HookContent::Other,
        "Note Hook" | "note" => comment(body, sender)?,
        "Merge Request Hook" | "merge_request" => part::<MergeRequest>(body, "object_attributes")?.into_content(),
        "Issue Hook" | "issue" | "work_item" => issue(body, sender)?,
        "Pipeline Hook" | "pipeline" => {
            checks(&body["object_attributes"]["sha"], body["merge_request"]["iid"].as_u64())
        }
        "Push Hook" | "push" => pushed(body["ref"].as_str()),
        "Job Hook" | "Build Hook" | "build" => checks(&body["sha"], None),
        "project_rename" | "project_transfer" | "project_update" | "project_destroy" => HookContent::Repository,
        _ => HookContent::Other,
    })
}

/// Reads a part of the body.
fn part<T: DeserializeOwned>(body: &Value, name: &str) -> Result<T, String> {
    match body.get(name) {
        None | Some(Value::Null) => Err(format!("the body has no {name}")),
        Some(found) => T::deserialize(found).map_err(|error| format!("{name}: {error}")),
    }
}

/// Returns the project; `None` if the body does not have its path, as that of a job in old versions.
fn repository(body: &Value) -> Option<EventRepository> {
    let id = |value| Id::deserialize(value).ok().map(|id: Id| id.0).filter(|id| !id.is_empty());
    let project = &body["project"];
    let paths = [&project["path_with_namespace"], &body["path_with_namespace"]];
    let path = paths.into_iter().filter_map(Value::as_str).find(|path| !path.is_empty())?;
    Some(EventRepository { id: id(&project["id"]).or_else(|| id(&body["project_id"]))?, path: path.to_owned() })
}

pub(super) fn host_user(user: User) -> HostUser {
    let is_bot = is_of_token(user.name());
    let user = HostUser::from(user);
    HostUser { is_bot: user.is_bot || is_bot, ..user }
}

/// Returns whether a user name is that of the token of a project or a group, such as `project_5_bot_0a1b`, or one that
/// GitLab gives to a service account, such as `service_account_group_5_0a1b`. Webhooks do not say otherwise that a user is
/// a bot. Service accounts can have any name, so the users API is asked before a user counts as one who may push.
fn is_of_token(name: &str) -> bool {
    if name.starts_with("service_account_") {
        return true;
    }
    let rest = ["project_", "group_"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let Some((id, rest)) = rest.and_then(|rest| rest.split_once("_bot")) else { return false };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !id.is_empty() && is_number(id) && (rest.starts_with('_') || is_number(rest))
}

fn is_known(user: &HostUser) -> bool {
    !user.id.is_empty() || !user.name.is_empty()
}

/// Returns the author of a comment or an issue. The body has only the ID, and describes the user who caused the event,
/// so the name is known if both are the same. Old versions do not send the ID of the user.
fn author(id: Id, sender: Option<HostUser>) -> HostUser {
    match sender {
        Some(sender) if id.0.is_empty() || sender.id == id.0 => sender,
        Some(sender) if sender.id.is_empty() => HostUser { id: id.0, ..sender },
        _ => HostUser { id: id.0, name: String::new(), is_bot: false },
    }
}

fn comment(body: &Value, sender: Option<HostUser>) -> Result<HookContent, String> {
    let note: Note = part(body, "object_attributes")?;
    let action = match note.action.as_deref() {
        None | Some("create") => CommentAction::Created,
        Some("update") => CommentAction::Edited,
        Some(_) => return Ok(HookContent::Other),
    };
    let (kind, field) = match note.noteable_type.as_str() {
        _ if note.system || note.internal || note.confidential => return Ok(HookContent::Other),
        _ if is_confidential(&body["issue"]) => return Ok(HookContent::Other),
        "MergeRequest" if note.kind == "DiffNote" => (CommentKind::Line, "merge_request"),
        "MergeRequest" => (CommentKind::Pull, "merge_request"),
        "Issue" => (CommentKind::Issue, "issue"),
        _ => return Ok(HookContent::Other),
    };
    let head = body["merge_request"]["last_commit"]["id"].as_str().and_then(sha);
    let number = body[field]["iid"].as_u64().ok_or_else(|| format!("the body has no {field} with a number"))?;
    Ok(HookContent::Comment { number, action, comment: note.into_comment(kind, sender, head.as_ref()) })
}

impl Note {
    /// Converts the note. `head` is the newest commit of its merge request.
    fn into_comment(self, kind: CommentKind, sender: Option<HostUser>, head: Option<&Sha>) -> HostComment {
        let is_line = kind == CommentKind::Line;
        let hunk = self.st_diff["diff"].as_str().filter(|_| is_line);
        HostComment {
            kind,
            position: self.position.position(head).filter(|_| is_line),
            thread: thread(&self.kind, self.discussion_id, Some(!self.resolved_at.is_null())),
            id: self.id.0,
            version: version(if self.updated_at.is_empty() { &self.created_at } else { &self.updated_at }),
            url: self.url,
            author: author(self.author_id, sender),
            body: self.note,
            hunk: hunk.map(str::to_owned),
            review: None,
        }
    }
}

impl MergeRequest {
    fn into_content(self) -> HookContent {
        let state = match self.state.as_str() {
            "merged" => PullState::Merged,
            "closed" => PullState::Closed,
            // `locked` means that GitLab is merging it.
            _ => PullState::Open,
        };
        HookContent::Pull { number: self.iid, state, head: self.source_branch, head_sha: sha(&self.last_commit.id) }
    }
}

fn is_confidential(issue: &Value) -> bool {
    issue["confidential"].as_bool().unwrap_or_default()
}

fn issue(body: &Value, sender: Option<HostUser>) -> Result<HookContent, String> {
    if is_confidential(&body["object_attributes"]) {
        return Ok(HookContent::Other);
    }
    let issue: Issue = part(body, "object_attributes")?;
    let action = issue_action(&issue.action, &body["changes"]);
    let labels = if issue.labels.is_array() { &issue.labels } else { &body["labels"] };
    let issue = HostIssue {
        number: issue.iid,
        labels: titles(labels),
        title: issue.title,
        body: issue.description,
        url: issue.url,
        author: author(issue.author_id, sender),
        assignees: assignees(body),
    };
    Ok(HookContent::Issue { action, issue })
}

/// Returns what happened to an issue. One event can add several labels and assign several users.
fn issue_action(action: &str, changes: &Value) -> IssueAction {
    match action {
        "open" => IssueAction::Opened,
        "update" | "" => IssueAction::added(added(&changes["labels"], titles), added(&changes["assignees"], users)),
        _ => IssueAction::Other,
    }
}

/// Returns what a change has added to a list.
fn added<T: PartialEq>(change: &Value, read: fn(&Value) -> Vec<T>) -> Vec<T> {
    let (before, mut now) = (read(&change["previous"]), read(&change["current"]));
    now.retain(|one| !before.contains(one));
    now
}

/// Returns the users who are assigned. Old versions describe them without their IDs, which are elsewhere.
fn assignees(body: &Value) -> Vec<HostUser> {
    let mut described = users(&body["assignees"]);
    described.retain(|user| !user.id.is_empty());
    if !described.is_empty() {
        return described;
    }
    let ids = body["object_attributes"]["assignee_ids"].as_array().into_iter().flatten();
    let ids = ids.filter_map(|id| Id::deserialize(id).ok()).filter(|id| !id.0.is_empty());
    ids.map(|id| HostUser { id: id.0, name: String::new(), is_bot: false }).collect()
}

fn titles(labels: &Value) -> Vec<String> {
    let title = |label: &Value| label["title"].as_str().or(label.as_str()).map(str::to_owned);
    labels.as_array().into_iter().flatten().filter_map(title).collect()
}

fn users(users: &Value) -> Vec<HostUser> {
    let read = |user: &Value| User::deserialize(user).ok().map(host_user);
    users.as_array().into_iter().flatten().filter_map(read).collect()
}

fn checks(commit: &Value, pull: Option<u64>) -> HookContent {
    commit.as_str().and_then(sha).map_or(HookContent::Other, |sha| HookContent::Checks { sha, pull })
}

#[cfg(test)]
mod tests;
