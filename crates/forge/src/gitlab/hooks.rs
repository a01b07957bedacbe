//! Webhooks of GitLab.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::hook::{
    CommentAction, EventRepository, HookContent, HookEvent, HostComment, HostIssue, IssueAction,
};
use journeyman_core::ports::{CommentKind, HookRefusal, HostUser, RawHook};
use journeyman_core::project::SecretValue;
use journeyman_core::pull::PullState;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::Sha256;

use super::wire::User;
use crate::hooks::{Envelope, is_equal, parsed, required};
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
    /// Missing before version 16.11, which reports new comments only.
    #[serde(default)]
    action: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    position: Position,
    #[serde(default)]
    st_diff: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Position {
    new_path: Option<String>,
    old_path: Option<String>,
    new_line: Option<u64>,
    old_line: Option<u64>,
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
        "Note Hook" | "Confidential Note Hook" | "note" => comment(body, sender)?,
        "Merge Request Hook" | "merge_request" => part::<MergeRequest>(body, "object_attributes")?.into_content(),
        "Issue Hook" | "Confidential Issue Hook" | "issue" | "work_item" => issue(body, sender)?,
        "Pipeline Hook" | "pipeline" => checks(&body["object_attributes"]["sha"]),
        "Job Hook" | "Build Hook" | "build" => checks(&body["sha"]),
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

fn host_user(user: User) -> HostUser {
    let is_bot = is_of_token(user.name());
    let user = HostUser::from(user);
    HostUser { is_bot: user.is_bot || is_bot, ..user }
}

/// Returns whether a user name is that of the token of a project or a group, such as `project_5_bot_0a1b`. Webhooks do
/// not say otherwise that a user is a bot.
fn is_of_token(name: &str) -> bool {
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
    let (kind, place) = match note.noteable_type.as_str() {
        _ if note.system => return Ok(HookContent::Other),
        "MergeRequest" if note.kind == "DiffNote" => (CommentKind::Line, "merge_request"),
        "MergeRequest" => (CommentKind::Pull, "merge_request"),
        "Issue" => (CommentKind::Issue, "issue"),
        _ => return Ok(HookContent::Other),
    };
    let number = body[place]["iid"].as_u64().ok_or_else(|| format!("the body has no {place} with a number"))?;
    Ok(HookContent::Comment { number, action, comment: note.into_comment(kind, sender) })
}

impl Note {
    fn into_comment(self, kind: CommentKind, sender: Option<HostUser>) -> HostComment {
        let position = if kind == CommentKind::Line { self.position } else { Position::default() };
        let hunk = self.st_diff["diff"].as_str().filter(|_| kind == CommentKind::Line);
        HostComment {
            kind,
            id: self.id.0,
            version: version(if self.updated_at.is_empty() { &self.created_at } else { &self.updated_at }),
            url: self.url,
            author: author(self.author_id, sender),
            body: self.note,
            path: position.new_path.or(position.old_path),
            line: position.new_line.or(position.old_line),
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

fn issue(body: &Value, sender: Option<HostUser>) -> Result<HookContent, String> {
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

fn checks(commit: &Value) -> HookContent {
    commit.as_str().and_then(sha).map_or(HookContent::Other, |sha| HookContent::Checks { sha })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const SIGNATURE: &str = "v1,sIihleF/lWWqAw56Vyw1/kOTc0bt2S192EVeitT2lXg=";
    const ID: (&str, &str) = ("webhook-id", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f");
    const TIME: (&str, &str) = ("webhook-timestamp", "1700000000");

    fn hook(headers: &[(&str, &str)]) -> RawHook {
        RawHook {
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: b"{\"object_kind\":\"note\"}".to_vec(),
        }
    }

    fn verifies(secret: &str, headers: &[(&str, &str)]) -> bool {
        is_signed(&SecretValue(secret.to_owned()), &hook(headers))
    }

    fn read_json(event: &str, mut body: Value) -> HookEvent {
        let project = json!({"id": 5, "path_with_namespace": "gitlab-org/gitlab-test", "default_branch": "master"});
        body["project"] = project;
        if body["user"].is_null() {
            body["user"] = json!({"id": 1, "name": "Administrator", "username": "root", "email": "[REDACTED]"});
        }
        read(event, body.to_string().as_bytes()).unwrap()
    }

    /// Returns the body of a note with other attributes.
    fn note(attributes: Value) -> Value {
        let mut body = json!({
            "object_kind": "note",
            "event_type": "note",
            "project_id": 5,
            "object_attributes": {
                "id": 50_772_639, "note": "check spelling", "noteable_type": "MergeRequest", "noteable_id": 6_632_669,
                "author_id": 1, "created_at": "2017-12-10 17:05:56 UTC", "updated_at": "2017-12-10 17:06:00 UTC",
                "system": false, "type": null, "action": "create", "st_diff": null, "position": null,
                "url": "http://example.com/gitlab-org/gitlab-test/merge_requests/1#note_50772639",
            },
            "merge_request": {"id": 7, "iid": 1, "state": "opened", "source_branch": "feature"},
            "issue": {"id": 92, "iid": 17, "title": "test", "labels": [], "state": "closed"},
        });
        for (name, value) in attributes.as_object().unwrap() {
            body["object_attributes"][name] = value.clone();
        }
        body
    }

    fn comment_of(event: HookEvent) -> (u64, CommentAction, HostComment) {
        let HookContent::Comment { number, action, comment } = event.content else { panic!("{:?}", event.content) };
        (number, action, comment)
    }

    fn issue_of(event: HookEvent) -> (IssueAction, HostIssue) {
        let HookContent::Issue { action, issue } = event.content else { panic!("{:?}", event.content) };
        (action, issue)
    }

    #[test]
    fn a_signature_is_verified() {
        let others = format!("v1a,AAAA v1,AAAA {SIGNATURE}");
        for (secret, signature, expected) in [
            (SECRET, SIGNATURE, true),
            (SECRET, others.as_str(), true),
            (SECRET.trim_start_matches(SIGNING), SIGNATURE, true),
            (SECRET.trim_end_matches('='), SIGNATURE, true),
            ("whsec_AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SIGNATURE, false),
            (SECRET, &SIGNATURE[3..], false),
            (SECRET, "v1,", false),
            (SECRET, "", false),
            ("whsec_no base64", SIGNATURE, false),
        ] {
            assert_eq!(
                verifies(secret, &[ID, TIME, ("webhook-signature", signature)]),
                expected,
                "{secret} {signature}"
            );
        }
    }

    #[test]
    fn the_delivery_and_the_time_are_signed_too() {
        let signature = ("webhook-signature", SIGNATURE);
        for headers in [
            vec![ID, TIME],
            vec![ID, signature],
            vec![TIME, signature],
            vec![("webhook-id", "another"), TIME, signature],
            vec![ID, ("webhook-timestamp", "1700000001"), signature],
        ] {
            assert!(!verifies(SECRET, &headers), "{headers:?}");
        }
        let mut changed = hook(&[ID, TIME, signature]);
        changed.body.push(b' ');
        assert!(!is_signed(&SecretValue(SECRET.to_owned()), &changed));
    }

    #[test]
    fn a_signature_with_an_empty_key_is_refused() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"").unwrap();
        mac.update(format!("{}.{}.", ID.1, TIME.1).as_bytes());
        mac.update(&hook(&[]).body);
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        for secret in ["whsec_", "whsec_=", ""] {
            assert!(!verifies(secret, &[ID, TIME, ("webhook-signature", &signature)]), "{secret}");
        }
    }

    #[test]
    fn a_token_is_verified_unless_the_secret_signs() {
        for (secret, token, expected) in [
            ("a secret", "a secret", true),
            ("a secret", "a secret ", false),
            ("a secret", "", false),
            ("", "", false),
            (SECRET, SECRET, false),
        ] {
            assert_eq!(verifies(secret, &[("x-gitlab-token", token)]), expected, "{secret} {token}");
        }
        assert!(!verifies("a secret", &[]));
    }

    #[test]
    fn the_delivery_is_in_the_newest_header_that_there_is() {
        let event = ("x-gitlab-event", "Note Hook");
        let (key, one, two) =
            (("idempotency-key", "key"), ("x-gitlab-webhook-uuid", "one"), ("x-gitlab-event-uuid", "two"));
        for (headers, expected) in [
            (vec![event, one, two, key, ID], ID.1),
            (vec![event, one, two, key], "key"),
            (vec![event, one, two, ("idempotency-key", "")], "one/two"),
        ] {
            let found = envelope(&hook(&headers)).unwrap();
            assert_eq!((found.delivery.as_str(), found.event.as_str()), (expected, "Note Hook"));
        }
        for (headers, missing) in [
            (vec![key], "x-gitlab-event"),
            (vec![event, two], "x-gitlab-webhook-uuid"),
            (vec![event, one], "x-gitlab-event-uuid"),
        ] {
            assert_eq!(envelope(&hook(&headers)).err(), Some(HookRefusal::Header(missing)));
        }
    }

    #[test]
    fn a_comment_on_a_merge_request_is_told_from_one_on_an_issue() {
        let event = read_json("Note Hook", note(json!({})));
        let repository = event.repository.clone().unwrap();
        assert_eq!((repository.id.as_str(), repository.path.as_str()), ("5", "gitlab-org/gitlab-test"));
        let (number, action, comment) = comment_of(event);
        assert_eq!((number, action, comment.kind), (1, CommentAction::Created, CommentKind::Pull));
        assert_eq!(comment.id, "50772639");
        assert_eq!(comment.version, "2017-12-10T17:06:00Z");
        assert_eq!(comment.body, "check spelling");
        assert_eq!(comment.author, HostUser { id: "1".to_owned(), name: "root".to_owned(), is_bot: false });
        assert!(comment.url.ends_with("#note_50772639"));
        assert_eq!((comment.path, comment.line, comment.hunk, comment.review), (None, None, None, None));
        let body = note(json!({"noteable_type": "Issue", "action": "update"}));
        let (number, action, comment) = comment_of(read_json("Confidential Note Hook", body));
        assert_eq!((number, action, comment.kind), (17, CommentAction::Edited, CommentKind::Issue));
    }

    #[test]
    fn a_comment_on_a_line_has_its_place() {
        let position = |old_line: Value, new_line: Value| {
            json!({
                "base_sha": "2adc", "old_path": "OLD.md", "new_path": "README.md", "position_type": "text",
                "old_line": old_line, "new_line": new_line, "line_range": null,
            })
        };
        for (old, new, line) in
            [(json!(null), json!(3), Some(3)), (json!(4), json!(null), Some(4)), (json!(5), json!(6), Some(6))]
        {
            let body = note(json!({"type": "DiffNote", "position": position(old, new)}));
            let (_, _, comment) = comment_of(read_json("Note Hook", body));
            assert_eq!((comment.kind, comment.line, comment.hunk), (CommentKind::Line, line, None));
            assert_eq!(comment.path.as_deref(), Some("README.md"));
        }
        let body = note(json!({"type": "DiffNote", "st_diff": {"diff": "@@ -1 +1 @@\n-a\n+b", "new_path": "a"}}));
        let (_, _, comment) = comment_of(read_json("Note Hook", body));
        assert_eq!((comment.path, comment.hunk.as_deref()), (None, Some("@@ -1 +1 @@\n-a\n+b")));
    }

    #[test]
    fn a_comment_without_an_action_is_new() {
        let mut body = note(json!({"updated_at": null}));
        body["object_attributes"].as_object_mut().unwrap().remove("action");
        let (_, action, comment) = comment_of(read_json("Note Hook", body));
        assert_eq!((action, comment.version.as_str()), (CommentAction::Created, "2017-12-10T17:05:56Z"));
    }

    #[test]
    fn the_author_of_a_comment_is_told_from_the_user_who_edits_it() {
        let known = |id: &str, name: &str, is_bot| HostUser { id: id.to_owned(), name: name.to_owned(), is_bot };
        for (user, author_id, expected) in [
            (json!({"id": 51, "username": "ada"}), json!(51), known("51", "ada", false)),
            (json!({"id": 52, "username": "bob"}), json!(51), known("51", "", false)),
            (json!({"name": "Ada", "username": "ada"}), json!(51), known("51", "ada", false)),
            (json!({"id": "51", "username": "ada", "name": ["x"]}), json!(null), known("51", "ada", false)),
            (json!({"id": 51, "username": null, "bot": null, "type": null}), json!(51), known("51", "", false)),
            (json!("ada"), json!(51), known("51", "", false)),
            (json!({"id": 9, "username": "project_5_bot"}), json!(9), known("9", "project_5_bot", true)),
            (json!({"id": 9, "username": "group_12_bot_0a"}), json!(9), known("9", "group_12_bot_0a", true)),
            (json!({"id": 9, "username": "project_x_bot"}), json!(9), known("9", "project_x_bot", false)),
            (json!({"id": 9, "username": "project_5_bottle"}), json!(9), known("9", "project_5_bottle", false)),
        ] {
            let mut body = note(json!({"author_id": author_id}));
            body["user"] = user;
            assert_eq!(comment_of(read_json("Note Hook", body)).2.author, expected);
        }
    }

    #[test]
    fn a_body_without_a_user_has_no_sender() {
        for user in [json!(null), json!({}), json!({"id": null, "username": null}), json!("root")] {
            let mut body = note(json!({}));
            body["user"] = user;
            let event = read("Note Hook", body.to_string().as_bytes()).unwrap();
            assert_eq!((event.sender, event.repository), (None, None));
        }
    }

    #[test]
    fn states_of_merge_requests_are_mapped() {
        for (state, action, expected) in [
            ("opened", "open", PullState::Open),
            ("opened", "update", PullState::Open),
            ("opened", "approved", PullState::Open),
            ("locked", "update", PullState::Open),
            ("closed", "close", PullState::Closed),
            ("merged", "merge", PullState::Merged),
        ] {
            let body = json!({
                "object_kind": "merge_request",
                "object_attributes": {
                    "id": 99, "iid": 12, "action": action, "state": state, "source_branch": "ms-viewport",
                    "target_branch": "master", "last_commit": {"id": "a".repeat(40)},
                },
                "changes": {"reviewers": [[], [{"id": 6, "state": "unreviewed"}]]},
            });
            let expected = HookContent::Pull {
                number: 12,
                state: expected,
                head: "ms-viewport".to_owned(),
                head_sha: sha(&"a".repeat(40)),
            };
            for event in ["Merge Request Hook", "System Hook"] {
                assert_eq!(read_json(event, body.clone()).content, expected, "{event} {state} {action}");
            }
        }
        let body = json!({"object_attributes": {"iid": 12, "source_branch": "b", "last_commit": null}});
        assert!(matches!(
            read_json("Merge Request Hook", body).content,
            HookContent::Pull { state: PullState::Open, head_sha: None, .. }
        ));
    }

    fn changed_issue(action: &str, changes: Value) -> Value {
        json!({
            "object_kind": "issue",
            "object_attributes": {
                "id": 301, "iid": 23, "action": action, "state": "opened", "title": "New API", "description": null,
                "author_id": 1, "url": "http://example.com/diaspora/issues/23",
            },
            "labels": [{"id": 206, "title": "API"}],
            "changes": changes,
        })
    }

    #[test]
    fn an_opened_issue_is_read() {
        for event in ["Issue Hook", "Confidential Issue Hook"] {
            let (action, issue) = issue_of(read_json(event, changed_issue("open", json!({}))));
            assert_eq!((action, issue.number, issue.title.as_str()), (IssueAction::Opened, 23, "New API"));
            assert_eq!((issue.body.as_str(), issue.author.name.as_str()), ("", "root"));
            assert_eq!(issue.labels, ["API"]);
            assert_eq!(issue.url, "http://example.com/diaspora/issues/23");
        }
        let mut body = changed_issue("open", json!({}));
        body["object_attributes"]["labels"] = json!([{"id": 1, "title": "bug"}, {"id": 2, "title": "Journeyman"}]);
        assert_eq!(issue_of(read_json("Issue Hook", body)).1.labels, ["bug", "Journeyman"]);
        for (assignees, ids, expected) in [
            (json!([{"id": 6, "username": "ada"}, {"id": 7, "username": "bob"}]), json!([6, 7]), vec!["6", "7"]),
            (json!([{"name": "Ada", "username": "ada"}]), json!([6]), vec!["6"]),
            (json!(null), json!(null), vec![]),
        ] {
            let mut body = changed_issue("open", json!({}));
            body["assignees"] = assignees;
            body["object_attributes"]["assignee_ids"] = ids;
            let (_, issue) = issue_of(read_json("Issue Hook", body));
            assert_eq!(issue.assignees.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn all_labels_and_users_of_the_change_of_an_issue_are_read() {
        let labels = |previous: &[&str], current: &[&str]| {
            let all = |titles: &[&str]| titles.iter().map(|title| json!({"id": 1, "title": title})).collect::<Vec<_>>();
            json!({"previous": all(previous), "current": all(current)})
        };
        let users = |previous: &[(u64, &str)], current: &[(u64, &str)]| {
            let one = |user: &(u64, &str)| json!({"id": user.0, "username": user.1, "name": "x"});
            let all = |users: &[(u64, &str)]| users.iter().map(one).collect::<Vec<_>>();
            json!({"previous": all(previous), "current": all(current)})
        };
        let ada = HostUser { id: "6".to_owned(), name: "ada".to_owned(), is_bot: false };
        let bot = HostUser { id: "8".to_owned(), name: "project_5_bot".to_owned(), is_bot: true };
        for (action, changes, labels, users) in [
            ("update", json!({"labels": labels(&[], &["critical"])}), vec!["critical"], vec![]),
            ("update", json!({"labels": labels(&["a"], &["a", "b", "Journeyman"])}), vec!["b", "Journeyman"], vec![]),
            ("update", json!({"labels": labels(&["journeyman"], &["journeyman", "b"])}), vec!["b"], vec![]),
            ("update", json!({"labels": labels(&["a"], &[])}), vec![], vec![]),
            ("update", json!({"assignees": users(&[], &[(6, "ada")])}), vec![], vec![&ada]),
            (
                "update",
                json!({"assignees": users(&[(6, "ada")], &[(6, "ada"), (8, "project_5_bot")])}),
                vec![],
                vec![&bot],
            ),
            ("update", json!({"assignees": users(&[], &[(6, "ada"), (8, "project_5_bot")])}), vec![], vec![&ada, &bot]),
            ("update", json!({"assignees": users(&[(6, "ada")], &[])}), vec![], vec![]),
            (
                "update",
                json!({
                    "title": {"previous": "a", "current": "b"},
                    "labels": labels(&[], &["bug", "journeyman"]),
                    "assignees": users(&[], &[(6, "ada")]),
                }),
                vec!["bug", "journeyman"],
                vec![&ada],
            ),
            ("update", json!({"title": {"previous": "a", "current": "b"}}), vec![], vec![]),
            ("update", json!(null), vec![], vec![]),
            ("close", json!({"labels": labels(&[], &["critical"])}), vec![], vec![]),
            ("reopen", json!({}), vec![], vec![]),
        ] {
            let (found, _) = issue_of(read_json("Issue Hook", changed_issue(action, changes.clone())));
            let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
            let expected = IssueAction::added(labels, users.into_iter().cloned().collect());
            assert_eq!(found, expected, "{action} {changes}");
        }
    }

    #[test]
    fn pipelines_and_jobs_are_checks_of_their_commit() {
        let commit = "b".repeat(40);
        let expected = HookContent::Checks { sha: commit.parse().unwrap() };
        let pipeline = json!({
            "object_kind": "pipeline",
            "object_attributes": {"id": 31, "ref": "master", "sha": commit, "status": "failed"},
            "merge_request": null,
            "commit": {"id": commit},
        });
        assert_eq!(read_json("Pipeline Hook", pipeline).content, expected);
        let job = json!({
            "object_kind": "build", "ref": "main", "sha": commit, "build_id": 1977, "build_status": "failed",
            "project_id": 380, "project_name": "Gitlab Org / Gitlab Test", "commit": {"id": 2366, "sha": "x"},
        });
        assert_eq!(read_json("Job Hook", job.clone()).content, expected);
        let event = read("Job Hook", job.to_string().as_bytes()).unwrap();
        assert_eq!((event.content, event.repository), (expected, None));
        for (event, body) in
            [("Job Hook", json!({"sha": "main"})), ("Pipeline Hook", json!({"object_kind": "pipeline"}))]
        {
            assert_eq!(read_json(event, body).content, HookContent::Other);
        }
    }

    #[test]
    fn a_renamed_project_is_read() {
        let body = json!({
            "event_name": "project_rename", "path": "underscore", "path_with_namespace": "jsmith/underscore",
            "project_id": 74, "old_path_with_namespace": "jsmith/overscore",
        });
        let event = read("System Hook", body.to_string().as_bytes()).unwrap();
        assert_eq!(event.content, HookContent::Repository);
        let expected = EventRepository { id: "74".to_owned(), path: "jsmith/underscore".to_owned() };
        assert_eq!(event.repository, Some(expected));
    }

    #[test]
    fn other_events_are_read_without_an_error() {
        for (event, body) in [
            ("Push Hook", json!({"object_kind": "push", "ref": "refs/heads/main", "project_id": "x", "commits": 7})),
            ("Emoji Hook", json!({"object_kind": "emoji", "object_attributes": {"action": "award"}})),
            ("Member Hook", json!({"event_name": "user_add_to_group"})),
            ("System Hook", json!({"event_name": "user_create"})),
            ("System Hook", json!({})),
            ("Note Hook", note(json!({"system": true}))),
            ("Note Hook", note(json!({"action": "destroy"}))),
            ("Note Hook", note(json!({"noteable_type": "Commit"}))),
            ("Note Hook", note(json!({"noteable_type": "Snippet"}))),
            ("note", json!({"object_attributes": {"id": 1}})),
        ] {
            assert_eq!(read_json(event, body).content, HookContent::Other, "{event}");
        }
    }

    #[test]
    fn an_unreadable_body_is_an_error() {
        for (event, body) in [
            ("Note Hook", "no json"),
            ("Push Hook", ""),
            ("Note Hook", "[]"),
            ("Note Hook", r#"{"object_attributes": null}"#),
            ("Note Hook", r#"{"object_attributes": {"id": 1, "noteable_type": "Issue"}}"#),
            ("Note Hook", r#"{"object_attributes": {"note": "x"}}"#),
            ("Merge Request Hook", r#"{"object_attributes": {"iid": 1}}"#),
            ("Merge Request Hook", r#"{"object_attributes": {"iid": "x", "source_branch": "b"}}"#),
            ("Issue Hook", "{}"),
        ] {
            assert!(read(event, body.as_bytes()).is_err(), "{event} {body}");
        }
    }
}
