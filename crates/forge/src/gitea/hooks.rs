//! Webhooks of Gitea and Forgejo.

use journeyman_core::code_host::PullState;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostIssue, HostReview, HostUser,
    IssueAction,
};
use journeyman_core::ports::{HookRefusal, RawHook};
use journeyman_core::secret::SecretValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::hooks::{Envelope, parsed, pushed};
use crate::json::{Id, User, or_default, sha};

/// The products whose names the headers have. Hosts send the headers of their predecessors too.
const PRODUCTS: [&str; 3] = ["gitea", "forgejo", "gogs"];

/// Returns a header that begins with the name of a product and is not empty.
fn header<'a>(hook: &'a RawHook, name: &str) -> Option<&'a str> {
    PRODUCTS.iter().filter_map(|product| hook.header(&format!("x-{product}-{name}"))).find(|value| !value.is_empty())
}

/// Returns whether the webhook is signed with the secret. Without a secret, hosts send empty signatures. The signature of
/// a form is that of the JSON in it.
pub(crate) fn is_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let common = hook.header("x-hub-signature-256").and_then(|value| value.strip_prefix("sha256="));
    let signatures = [header(hook, "signature"), common].into_iter().flatten();
    let body = crate::hooks::payload(&hook.body);
    signatures.filter(|known| !known.is_empty()).any(|known| crate::hooks::is_signed(secret, &body, known))
}

/// Returns whether a webhook has a header with a signature.
pub(crate) fn has_signature(hook: &RawHook) -> bool {
    let common = hook.header("x-hub-signature-256").and_then(|value| value.strip_prefix("sha256="));
    [header(hook, "signature"), common].into_iter().flatten().any(|known| known.len() == 64)
}

/// Returns the delivery and the event of a webhook. The type of the event says more than its name.
pub(crate) fn envelope(hook: &RawHook) -> Result<Envelope, HookRefusal> {
    let event = header(hook, "event-type").or_else(|| header(hook, "event"));
    let delivery = header(hook, "delivery").ok_or(HookRefusal::Header("x-gitea-delivery"))?;
    let event = event.ok_or(HookRefusal::Header("x-gitea-event"))?;
    Ok(Envelope { delivery: delivery.to_owned(), event: event.to_owned() })
}

#[derive(Debug, Deserialize)]
struct Repository {
    id: Id,
    full_name: String,
}

impl From<Repository> for EventRepository {
    fn from(repository: Repository) -> Self {
        Self { id: repository.id.0, path: repository.full_name }
    }
}

#[derive(Debug, Deserialize)]
struct Comment {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
}

#[derive(Debug, Deserialize)]
struct Review {
    #[serde(default, deserialize_with = "or_default")]
    content: String,
}

#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    merged: bool,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    #[serde(default, deserialize_with = "or_default")]
    head: Head,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Head {
    /// The name of the branch, also after it was deleted.
    #[serde(deserialize_with = "or_default")]
    label: String,
    /// The name of the branch, or `refs/pull/…` after it was deleted.
    #[serde(rename = "ref", deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    sha: String,
}

#[derive(Debug, Deserialize)]
struct Issue {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    labels: Value,
    #[serde(default, deserialize_with = "or_default")]
    assignees: Vec<User>,
    /// Present if the issue is a pull request.
    #[serde(default)]
    pull_request: Option<Value>,
}

/// Reads the body of a webhook.
pub(crate) fn read(event: &str, body: &[u8]) -> Result<HookEvent, String> {
    let version = fingerprint(body);
    let body: Value = parsed(body)?;
    // The webhooks of Forgejo about runs of Actions have the repository only there.
    let run = &body["run"];
    let repository = [&body["repository"], &run["repository"]].into_iter().find_map(optional);
    let sender = [&body["sender"], &run["trigger_user"]].into_iter().find_map(optional::<User>);
    let sender = sender.map(HostUser::from).filter(|user| !user.id.is_empty() || !user.name.is_empty());
    let content = content(event, &body, version, sender.clone())?;
    Ok(HookEvent { repository: repository.map(Repository::into), sender, content })
}

/// Returns a text that differs between two webhooks unless one is a redelivery of the other.
fn fingerprint(body: &[u8]) -> String {
    Sha256::digest(body).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn content(event: &str, body: &Value, version: String, sender: Option<HostUser>) -> Result<HookContent, String> {
    Ok(match event {
        "pull_request_review_approved" | "pull_request_approved" => review(body, version, sender, true)?,
        "pull_request_review_rejected" | "pull_request_rejected" | "pull_request_review_comment" => {
            review(body, version, sender, false)?
        }
        // The name of this event is the type of another.
        "pull_request_comment" if !body["review"].is_null() => review(body, version, sender, false)?,
        "issue_comment" | "pull_request_comment" => comment(event, body)?,
        "pull_request" => pull(body)?,
        event if event.starts_with("pull_request_") => pull(body)?,
        "issues" | "issue_assign" | "issue_label" | "issue_milestone" => issue(body)?,
        "status" => checks(body),
        "push" => pushed(body["ref"].as_str()),
        event if event.starts_with("action_run_") || event.starts_with("workflow_") => checks(body),
        "repository" => HookContent::Repository,
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

/// Reads a value that may be missing.
fn optional<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

fn comment(event: &str, body: &Value) -> Result<HookContent, String> {
    let action = match body["action"].as_str() {
        Some("created") => CommentAction::Created,
        Some("edited") => CommentAction::Edited,
        Some("deleted") => CommentAction::Deleted,
        _ => return Ok(HookContent::Other),
    };
    let (issue, comment): (Issue, Comment) = (part(body, "issue")?, part(body, "comment")?);
    let is_pull = body["is_pull"] == true || issue.pull_request.is_some() || event == "pull_request_comment";
    let comment = HostComment {
        kind: if is_pull { CommentKind::Pull } else { CommentKind::Issue },
        id: comment.id.0,
        version: comment.updated_at,
        url: comment.html_url,
        author: comment.user.into(),
        body: comment.body,
        position: None,
        hunk: None,
        thread: None,
        review: None,
    };
    Ok(HookContent::Comment { number: issue.number, action, comment })
}

/// Reads a submitted review. Hosts say neither its ID nor its time, and send no comments on lines. The review is not
/// older than the last change of the pull request, whose time the version begins with.
fn review(body: &Value, version: String, sender: Option<HostUser>, approves: bool) -> Result<HookContent, String> {
    let (pull, review): (Pull, Review) = (part(body, "pull_request")?, part(body, "review")?);
    let author = sender.ok_or("the body has no sender")?;
    let version = format!("{}/{version}", pull.updated_at);
    let review = HostReview { id: String::new(), version, url: pull.html_url, author, body: review.content, approves };
    Ok(HookContent::Review { number: pull.number, action: CommentAction::Created, review })
}

fn pull(body: &Value) -> Result<HookContent, String> {
    let pull: Pull = part(body, "pull_request")?;
    let state = match pull.state.as_str() {
        _ if pull.merged => PullState::Merged,
        "open" if body["action"] != "deleted" => PullState::Open,
        _ => PullState::Closed,
    };
    let head = if pull.head.label.is_empty() { pull.head.name } else { pull.head.label };
    // After the end, the commit is the newest of the branch.
    let head_sha = sha(&pull.head.sha).filter(|_| state == PullState::Open);
    Ok(HookContent::Pull { number: pull.number, state, head, head_sha })
}

fn issue(body: &Value) -> Result<HookContent, String> {
    let issue: Issue = part(body, "issue")?;
    let labels = names(&issue.labels);
    let assignees: Vec<HostUser> = issue.assignees.into_iter().map(HostUser::from).collect();
    let action = match (body["action"].as_str(), assignees.as_slice()) {
        (Some("opened"), _) => IssueAction::Opened,
        (Some("label_updated"), _) => changed_labels(body, &labels),
        // Hosts send all assigned users.
        (Some("assigned"), [user]) => IssueAction::Assigned(user.clone()),
        (Some("assigned"), [_, ..]) => IssueAction::Updated,
        _ => IssueAction::Other,
    };
    let issue = HostIssue {
        number: issue.number,
        title: issue.title,
        body: issue.body,
        url: issue.html_url,
        author: issue.user.into(),
        labels,
        assignees,
    };
    Ok(HookContent::Issue { action, issue })
}

/// Returns which labels were added. Most versions send only the labels that the issue has now.
fn changed_labels(body: &Value, labels: &[String]) -> IssueAction {
    let changes = &body["changes"];
    let (added, removed) = (names(&changes["added_labels"]), names(&changes["removed_labels"]));
    match body["label"]["name"].as_str() {
        _ if !added.is_empty() => IssueAction::added(added, Vec::new()),
        // The label was added or removed.
        Some(label) if labels.iter().any(|known| known == label) => IssueAction::Labeled(label.to_owned()),
        None if removed.is_empty() && !labels.is_empty() => IssueAction::Updated,
        _ => IssueAction::Other,
    }
}

fn names(labels: &Value) -> Vec<String> {
    let name = |label: &Value| label["name"].as_str().map(str::to_owned);
    labels.as_array().into_iter().flatten().filter_map(name).collect()
}

fn checks(body: &Value) -> HookContent {
    let pointers = ["/sha", "/workflow_run/head_sha", "/workflow_job/head_sha", "/run/commit_sha"];
    let found = pointers.iter().find_map(|pointer| body.pointer(pointer)?.as_str().and_then(sha));
    found.map_or(HookContent::Other, |sha| HookContent::Checks { sha, pull: None })
}

#[cfg(test)]
mod tests;
