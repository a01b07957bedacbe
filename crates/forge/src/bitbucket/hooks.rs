//! Webhooks of Bitbucket Cloud.
//!
//! The body does not name the event; only a header does. There are no reviews with several comments: each comment has
//! its own webhook, and an approval has no text.

use std::collections::BTreeSet;

use journeyman_core::code_host::PullState;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostUser,
};
use journeyman_core::ids::Sha;
use journeyman_core::ports::{HookRefusal, RawHook};
use journeyman_core::secret::SecretValue;
use serde::Deserialize;
use serde_json::Value;

use super::position::{Inline, Parent, thread};
use super::wire::{Content, Named, User, shown, without_braces};
use crate::hooks::{Envelope, parsed, pushed, required};
use crate::json::{Id, or_default, sha};

/// Returns whether the webhook is signed with the secret.
pub(crate) fn is_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let signature = hook.header("x-hub-signature").and_then(|value| value.strip_prefix("sha256="));
    signature.is_some_and(|signature| crate::hooks::is_signed(secret, &hook.body, signature))
}

/// Returns the delivery and the event of a webhook.
pub(crate) fn envelope(hook: &RawHook) -> Result<Envelope, HookRefusal> {
    Ok(Envelope { delivery: required(hook, "x-request-uuid")?, event: required(hook, "x-event-key")? })
}

/// The body of a webhook, as far as the service needs it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    actor: Option<User>,
    /// The destination, for an event of a pull request.
    repository: Option<Repository>,
    pullrequest: Option<Pull>,
    comment: Option<Comment>,
    commit_status: Option<CommitStatus>,
    push: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Repository {
    /// The UUID, in braces.
    #[serde(deserialize_with = "or_default")]
    uuid: String,
    #[serde(deserialize_with = "or_default")]
    full_name: String,
}

#[derive(Debug, Deserialize)]
struct Pull {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    source: Source,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    #[serde(deserialize_with = "or_default")]
    branch: Named,
    #[serde(deserialize_with = "or_default")]
    commit: Commit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Commit {
    /// The hash, or its first 12 characters.
    #[serde(deserialize_with = "or_default")]
    hash: String,
    links: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommitStatus {
    #[serde(deserialize_with = "or_default")]
    commit: Commit,
    links: Value,
}

#[derive(Debug, Deserialize)]
struct Comment {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    content: Content,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    created_on: Option<String>,
    #[serde(default)]
    updated_on: Option<String>,
    #[serde(default)]
    inline: Option<Inline>,
    #[serde(default)]
    parent: Option<Parent>,
    #[serde(default)]
    resolution: Value,
    #[serde(default)]
    links: Value,
}

/// Reads the body of a webhook.
pub(crate) fn read(event: &str, body: &[u8]) -> Result<HookEvent, String> {
    let mut body: Body = parsed(body)?;
    let repository = body.repository.take().filter(|repository| !repository.uuid.is_empty());
    let sender = body.actor.take().filter(|user| !user.uuid.is_empty());
    Ok(HookEvent {
        repository: repository.map(EventRepository::from),
        sender: sender.map(HostUser::from),
        content: body.into_content(event)?,
    })
}

fn missing(what: &str) -> String {
    format!("the body has no {what}")
}

impl Body {
    fn into_content(self, event: &str) -> Result<HookContent, String> {
        match event {
            "pullrequest:comment_created" => self.into_comment(CommentAction::Created),
            "pullrequest:comment_updated" => self.into_comment(CommentAction::Edited),
            "pullrequest:comment_deleted" => self.into_comment(CommentAction::Deleted),
            "pullrequest:created"
            | "pullrequest:updated"
            | "pullrequest:push"
            | "pullrequest:approved"
            | "pullrequest:changes_request_created"
            | "pullrequest:fulfilled"
            | "pullrequest:rejected" => self.pullrequest.ok_or_else(|| missing("pull request"))?.into_content(),
            "repo:commit_status_created" | "repo:commit_status_updated" => {
                let status = self.commit_status.ok_or_else(|| missing("commit status"))?;
                Ok(status.sha().map_or(HookContent::Other, |sha| HookContent::Checks { sha, pull: None }))
            }
            "repo:push" => Ok(self.pushed()),
            "repo:updated" | "repo:transfer" | "repo:deleted" => Ok(HookContent::Repository),
            _ => Ok(HookContent::Other),
        }
    }

    /// Reads the branches of a push. A branch that was created has no old state, and one that was deleted no new one.
    fn pushed(&self) -> HookContent {
        let changes = self.push["changes"].as_array().into_iter().flatten();
        let ends = changes.flat_map(|change| [&change["new"], &change["old"]]).filter(|end| end["type"] == "branch");
        let names: BTreeSet<String> =
            ends.filter_map(|end| end["name"].as_str()).map(|name| format!("refs/heads/{name}")).collect();
        pushed(names.iter().map(String::as_str))
    }

    fn into_comment(self, action: CommentAction) -> Result<HookContent, String> {
        let number = self.pullrequest.ok_or_else(|| missing("pull request"))?.id;
        let mut comment = self.comment.ok_or_else(|| missing("comment"))?.into_comment();
        // The host still sends the text of a deleted comment.
        if action == CommentAction::Deleted {
            comment.body.clear();
        }
        Ok(HookContent::Comment { number, action, comment })
    }
}

impl From<Repository> for EventRepository {
    fn from(repository: Repository) -> Self {
        Self { id: without_braces(&repository.uuid).to_owned(), path: repository.full_name }
    }
}

impl Pull {
    fn into_content(self) -> Result<HookContent, String> {
        let state = match self.state.as_str() {
            "" => return Err(missing("state of the pull request")),
            "OPEN" => PullState::Open,
            "MERGED" => PullState::Merged,
            // DECLINED or SUPERSEDED.
            _ => PullState::Closed,
        };
        let head_sha = self.source.commit.sha();
        Ok(HookContent::Pull { number: self.id, state, head: self.source.branch.name, head_sha })
    }
}

impl Commit {
    /// Returns the full hash, if the host says it.
    fn sha(&self) -> Option<Sha> {
        sha(&self.hash).or_else(|| linked_sha(&self.links, &self.hash))
    }
}

impl CommitStatus {
    /// Returns the full hash of the commit, if the host says it.
    fn sha(&self) -> Option<Sha> {
        self.commit.sha().or_else(|| linked_sha(&self.links, &self.commit.hash))
    }
}

/// Returns the full hash in the address of a commit, such as `…/commit/<hash>/statuses`, if it begins with `short`.
fn linked_sha(links: &Value, short: &str) -> Option<Sha> {
    let addresses = links.as_object()?.values().filter_map(|link| link["href"].as_str());
    let mut hashes = addresses.flat_map(|address| address.split(['/', '?', '#'])).filter_map(sha);
    hashes.find(|hash| hash.as_str().starts_with(short))
}

impl Comment {
    fn into_comment(self) -> HostComment {
        let kind = if self.inline.is_some() { CommentKind::Line } else { CommentKind::Pull };
        HostComment {
            kind,
            position: self.inline.and_then(Inline::position),
            thread: Some(thread(&self.id.0, self.parent.as_ref(), &self.resolution)),
            id: self.id.0,
            version: self.updated_on.or(self.created_on).unwrap_or_default(),
            url: self.links.pointer("/html/href").and_then(Value::as_str).unwrap_or_default().to_owned(),
            author: self.user.into(),
            body: shown(&self.content.raw),
            hunk: None,
            review: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::Thread;
    use serde_json::json;

    use super::*;

    const SHA: &str = "bdf6fac0519ffd1562461eb82e018ff62efffbc9";

    fn user() -> Value {
        json!({
            "display_name": "Rutvij Mehta",
            "uuid": "{145a94da-035e-42d6-bf85-296cea8005ba}",
            "type": "user",
            "nickname": "rutvij",
            "account_id": "624de6f6fd5e450070486936",
        })
    }

    fn read_json(event: &str, mut body: Value) -> Result<HookEvent, String> {
        body["actor"] = user();
        body["repository"] = json!({
            "type": "repository",
            "uuid": "{2b922c6d-3824-4e91-a7be-90c8b8392f84}",
            "full_name": "acme/shop",
            "name": "shop",
            "is_private": true,
        });
        read(event, body.to_string().as_bytes())
    }

    fn content(event: &str, body: Value) -> HookContent {
        read_json(event, body).unwrap().content
    }

    fn pull(state: &str, hash: &str) -> Value {
        json!({
            "id": 1,
            "title": "Update pom.xml",
            "state": state,
            "draft": false,
            "source": {
                "branch": {"name": "feature"},
                "commit": {"hash": hash, "links": {"self": {"href": format!("https://x.example/commit/{hash}")}}},
                "repository": null,
            },
            "destination": {"branch": {"name": "main"}, "commit": {"hash": "b9437f32dddd"}},
            "links": {"html": {"href": "https://bitbucket.org/acme/shop/pull-requests/1"}},
        })
    }

    fn comment(text: &str) -> Value {
        json!({
            "id": 311_512_047,
            "type": "pullrequest_comment",
            "deleted": false,
            "content": {"raw": text, "markup": "markdown", "html": "<p></p>", "type": "rendered"},
            "user": user(),
            "created_on": "2022-06-23T22:10:09.939925+00:00",
            "updated_on": "2022-06-23T22:10:09.939978+00:00",
            "pullrequest": {"type": "pullrequest", "id": 1, "title": "Update pom.xml"},
            "links": {"html": {"href": "https://bitbucket.org/acme/shop/pull-requests/1/_/diff#comment-311512047"}},
        })
    }

    fn read_comment(event: &str, comment: &Value) -> (CommentAction, HostComment) {
        let body = json!({"pullrequest": pull("OPEN", "cfd2d864e389"), "comment": comment});
        match content(event, body) {
            HookContent::Comment { number: 1, action, comment } => (action, comment),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_comment_has_its_author_and_its_version() {
        let body = json!({"pullrequest": pull("OPEN", "cfd2d864e389"), "comment": comment("test comment")});
        let event = read_json("pullrequest:comment_created", body).unwrap();
        let author = HostUser {
            id: "145a94da-035e-42d6-bf85-296cea8005ba".to_owned(),
            name: "rutvij".to_owned(),
            is_bot: false,
        };
        let repository =
            EventRepository { id: "2b922c6d-3824-4e91-a7be-90c8b8392f84".to_owned(), path: "acme/shop".to_owned() };
        assert_eq!((event.repository, event.sender.as_ref()), (Some(repository), Some(&author)));
        let expected = HostComment {
            kind: CommentKind::Pull,
            id: "311512047".to_owned(),
            version: "2022-06-23T22:10:09.939978+00:00".to_owned(),
            url: "https://bitbucket.org/acme/shop/pull-requests/1/_/diff#comment-311512047".to_owned(),
            author,
            body: "test comment".to_owned(),
            position: None,
            hunk: None,
            thread: Some(Thread { is_resolved: Some(false), ..Thread::begun_by("311512047") }),
            review: None,
        };
        let action = CommentAction::Created;
        assert_eq!(event.content, HookContent::Comment { number: 1, action, comment: expected });
    }

    #[test]
    fn edited_and_deleted_comments_are_told_apart() {
        for (event, expected, text) in [
            ("pullrequest:comment_created", CommentAction::Created, "a"),
            ("pullrequest:comment_updated", CommentAction::Edited, "a"),
            ("pullrequest:comment_deleted", CommentAction::Deleted, ""),
        ] {
            let (action, comment) = read_comment(event, &comment("a"));
            assert_eq!((action, comment.body.as_str()), (expected, text), "{event}");
        }
    }

    #[test]
    fn a_comment_on_a_line_has_its_position() {
        for (inline, expected) in [
            (json!({"path": "path/to/file", "from": null, "to": 10}), "`path/to/file`, line 10"),
            (json!({"path": "path/to/file", "from": 9, "to": null}), "`path/to/file`, line 9 of the old version"),
            (json!({"path": "path/to/file", "from": 9, "to": 10, "start_to": 8}), "`path/to/file`, lines 8–10"),
            (json!({"path": "path/to/file", "from": null, "to": null}), "`path/to/file`, the whole file"),
        ] {
            let mut comment = comment("a");
            comment["parent"] = json!({"id": 311_512_000});
            comment["inline"] = inline.clone();
            let (_, comment) = read_comment("pullrequest:comment_created", &comment);
            let found = (comment.kind, comment.position.unwrap().to_string());
            assert_eq!(found, (CommentKind::Line, expected.to_owned()), "{inline}");
            assert_eq!(comment.thread, Some(Thread::answering("311512000".to_owned())));
        }
    }

    #[test]
    fn hidden_markers_of_a_comment_are_shown() {
        let (_, comment) =
            read_comment("pullrequest:comment_created", &comment("Done.\n\n[//]: # (<!-- journeyman:answer -->)"));
        assert_eq!(comment.body, "Done.\n<!-- journeyman:answer -->");
    }

    #[test]
    fn missing_fields_of_a_comment_are_no_error() {
        let (_, comment) = read_comment(
            "pullrequest:comment_deleted",
            &json!({"id": 5, "content": null, "user": null, "inline": null, "links": null, "created_on": "t"}),
        );
        assert_eq!((comment.kind, comment.version.as_str(), comment.url.as_str()), (CommentKind::Pull, "t", ""));
        assert_eq!(comment.author.id, "");
    }

    #[test]
    fn an_event_of_a_pull_request_has_its_state() {
        for (event, state, expected) in [
            ("pullrequest:created", "OPEN", PullState::Open),
            ("pullrequest:updated", "OPEN", PullState::Open),
            ("pullrequest:push", "OPEN", PullState::Open),
            ("pullrequest:approved", "OPEN", PullState::Open),
            ("pullrequest:changes_request_created", "OPEN", PullState::Open),
            ("pullrequest:fulfilled", "MERGED", PullState::Merged),
            ("pullrequest:rejected", "DECLINED", PullState::Closed),
            ("pullrequest:updated", "SUPERSEDED", PullState::Closed),
        ] {
            let approval = json!({"date": "2015-04-06T16:34:59.195330+00:00", "user": user()});
            let body = json!({"pullrequest": pull(state, "507a576e59b3"), "approval": approval});
            let expected = HookContent::Pull { number: 1, state: expected, head: "feature".to_owned(), head_sha: None };
            assert_eq!(content(event, body), expected, "{event}");
        }
        let full = content("pullrequest:updated", json!({"pullrequest": pull("OPEN", SHA)}));
        assert!(matches!(full, HookContent::Pull { head_sha: Some(sha), .. } if sha.as_str() == SHA));
        let approved = content("pullrequest:approved", json!({"pullrequest": {"id": 1, "state": "OPEN"}}));
        assert!(matches!(approved, HookContent::Pull { number: 1, .. }));
    }

    #[test]
    fn the_commit_of_a_status_needs_its_full_hash() {
        let checks = HookContent::Checks { sha: SHA.parse().unwrap(), pull: None };
        let href = |hash: &str| format!("https://api.bitbucket.org/2.0/repositories/acme/shop/commit/{hash}");
        let status_link = json!({"self": {"href": format!("{}/statuses/build/3343801", href(SHA))}});
        for (commit, links, expected) in [
            (json!({"type": "commit", "hash": SHA}), json!({}), &checks),
            (json!({"hash": &SHA[..12], "links": {"self": {"href": href(SHA)}}}), Value::Null, &checks),
            (json!({"hash": &SHA[..12]}), json!({"commit": {"href": href(SHA)}}), &checks),
            (json!({"hash": &SHA[..12]}), status_link.clone(), &checks),
            (Value::Null, status_link, &checks),
            (json!({"hash": &SHA[..12]}), json!({"commit": {"href": href(&SHA[..12])}}), &HookContent::Other),
            (json!({"hash": &SHA[..12]}), json!({"commit": {"href": href(&"a".repeat(40))}}), &HookContent::Other),
        ] {
            for event in ["repo:commit_status_created", "repo:commit_status_updated"] {
                let status = json!({"key": "3343801", "state": "SUCCESSFUL", "commit": commit, "links": links});
                assert_eq!(&content(event, json!({"commit_status": status})), expected, "{event} {commit} {links}");
            }
        }
    }

    #[test]
    fn other_events_are_read_without_an_error() {
        let renamed = json!({"changes": {"full_name": {"old": "acme/store", "new": "acme/shop"}}});
        for (event, body, expected) in [
            ("repo:updated", renamed, HookContent::Repository),
            ("repo:transfer", json!({}), HookContent::Repository),
            ("repo:deleted", json!({}), HookContent::Repository),
            ("repo:push", json!({"push": {"changes": []}}), HookContent::Other),
            ("repo:push", json!({"push": {"changes": [{"new": {"type": "tag", "name": "v1"}}]}}), HookContent::Other),
            (
                "repo:push",
                json!({"push": {"changes": [
                    {"old": {"type": "branch", "name": "main"}, "new": {"type": "branch", "name": "main"}},
                    {"old": {"type": "branch", "name": "gone"}, "new": null},
                    {"old": null, "new": {"type": "branch", "name": "topic/1"}},
                ]}}),
                HookContent::Push { branches: ["gone", "main", "topic/1"].map(str::to_owned).into() },
            ),
            ("repo:commit_comment_created", json!({"comment": {"id": 1}, "commit": {}}), HookContent::Other),
            ("pullrequest:unapproved", json!({"pullrequest": {"id": 1}}), HookContent::Other),
            ("pullrequest:comment_resolved", json!({"comment": comment("a")}), HookContent::Other),
            ("issue:created", json!({"issue": {"id": 1, "title": "Issue title"}}), HookContent::Other),
            ("something:new", json!({}), HookContent::Other),
        ] {
            assert_eq!(content(event, body), expected, "{event}");
        }
        let event = read("project:updated", br#"{"actor": {}, "project": {}, "repository": null}"#).unwrap();
        assert_eq!(event, HookEvent { repository: None, sender: None, content: HookContent::Other });
    }

    #[test]
    fn a_body_in_another_form_is_an_error() {
        for (event, body) in [
            ("pullrequest:comment_created", "no json"),
            ("something:new", ""),
            ("pullrequest:comment_created", r#"{"pullrequest": {"id": 1}}"#),
            ("pullrequest:comment_created", r#"{"comment": {"id": 1}}"#),
            ("pullrequest:created", "{}"),
            ("pullrequest:created", r#"{"pullrequest": {"id": 1}}"#),
            ("pullrequest:created", r#"{"pullrequest": {"state": "OPEN"}}"#),
            ("repo:commit_status_created", "{}"),
        ] {
            assert!(read(event, body.as_bytes()).is_err(), "{event} {body}");
        }
    }

    fn hook(headers: &[(&str, &str)]) -> RawHook {
        RawHook {
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: b"Hello World!".to_vec(),
        }
    }

    #[test]
    fn a_webhook_without_a_signature_is_refused() {
        let secret = SecretValue("It's a Secret to Everybody".to_owned());
        let right = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
        let wrong = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c8";
        assert!(is_signed(&secret, &hook(&[("x-hub-signature", right)])));
        for headers in [
            &[][..],
            &[("x-hub-signature", "")],
            &[("x-hub-signature", "sha256=")],
            &[("x-hub-signature", wrong)],
            &[("x-hub-signature", &right["sha256=".len()..])],
            &[("x-hub-signature-256", right)],
        ] {
            assert!(!is_signed(&secret, &hook(headers)), "{headers:?}");
        }
        assert!(!is_signed(&SecretValue("another".to_owned()), &hook(&[("x-hub-signature", right)])));
    }

    #[test]
    fn another_attempt_has_the_same_delivery() {
        let of_attempt = |attempt: &str| {
            let headers = [("x-event-key", "repo:push"), ("x-request-uuid", "e3"), ("x-attempt-number", attempt)];
            envelope(&hook(&headers)).map(|envelope| (envelope.delivery, envelope.event))
        };
        assert_eq!(of_attempt("1"), Ok(("e3".to_owned(), "repo:push".to_owned())));
        assert_eq!(of_attempt("1"), of_attempt("2"));
        let without_event = envelope(&hook(&[("x-request-uuid", "e3")])).map(|envelope| envelope.event);
        assert_eq!(without_event, Err(HookRefusal::Header("x-event-key")));
        let without_delivery = envelope(&hook(&[("x-event-key", "repo:push")])).map(|envelope| envelope.event);
        assert_eq!(without_delivery, Err(HookRefusal::Header("x-request-uuid")));
    }
}
