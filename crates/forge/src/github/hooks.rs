//! Webhooks of GitHub.

use journeyman_core::code_host::PullState;
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostIssue, HostReview,
    IssueAction,
};
use journeyman_core::ports::{HookRefusal, RawHook};
use journeyman_core::secret::SecretValue;
use serde::Deserialize;
use serde_json::Value;

use super::position::Located;
use super::wire::User;
use crate::hooks::{Envelope, parsed, pushed, required};
use crate::json::{Id, or_default, sha};

/// Returns whether the webhook is signed with the secret.
pub(crate) fn is_signed(secret: &SecretValue, hook: &RawHook) -> bool {
    let signature = hook.header("x-hub-signature-256").and_then(|value| value.strip_prefix("sha256="));
    signature.is_some_and(|signature| crate::hooks::is_signed(secret, &hook.body, signature))
}

/// Returns the delivery and the event of a webhook.
pub(crate) fn envelope(hook: &RawHook) -> Result<Envelope, HookRefusal> {
    Ok(Envelope { delivery: required(hook, "x-github-delivery")?, event: required(hook, "x-github-event")? })
}

/// The body of a webhook, as far as the service needs it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(deserialize_with = "or_default")]
    action: String,
    repository: Option<Repository>,
    sender: Option<User>,
    comment: Option<Comment>,
    issue: Option<Issue>,
    pull_request: Option<Pull>,
    review: Option<Review>,
    label: Option<Label>,
    assignee: Option<User>,
    check_suite: Option<HeadSha>,
    check_run: Option<HeadSha>,
    workflow_run: Option<HeadSha>,
    sha: Option<String>,
    #[serde(rename = "ref")]
    reference: Value,
    repositories: Vec<Repository>,
    repositories_added: Vec<Repository>,
}

#[derive(Debug, Deserialize)]
struct Repository {
    id: Id,
    full_name: String,
}

#[derive(Debug, Deserialize)]
struct Label {
    name: String,
}

#[derive(Debug, Deserialize)]
struct HeadSha {
    head_sha: String,
}

#[derive(Debug, Deserialize)]
struct Comment {
    id: Id,
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    #[serde(flatten)]
    located: Located,
    #[serde(default)]
    diff_hunk: Option<String>,
    #[serde(default)]
    pull_request_review_id: Option<Id>,
}

#[derive(Debug, Deserialize)]
struct Issue {
    number: u64,
    #[serde(default)]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    labels: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    assignees: Vec<User>,
    /// Present if the issue is a pull request.
    #[serde(default)]
    pull_request: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    #[serde(default)]
    state: String,
    #[serde(default)]
    merged: bool,
    #[serde(default)]
    merged_at: Option<String>,
    head: Head,
}

#[derive(Debug, Deserialize)]
struct Head {
    #[serde(rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
}

#[derive(Debug, Deserialize)]
struct Review {
    id: Id,
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default, deserialize_with = "or_default")]
    submitted_at: String,
    #[serde(default)]
    state: String,
}

impl From<Repository> for EventRepository {
    fn from(repository: Repository) -> Self {
        Self { id: repository.id.0, path: repository.full_name }
    }
}

/// Reads the body of a webhook.
pub(crate) fn read(event: &str, body: &[u8]) -> Result<HookEvent, String> {
    let mut body: Body = parsed(body)?;
    let repository = body.repository.take().map(EventRepository::from);
    let sender = body.sender.take().map(Into::into);
    let content = content(event, body)?;
    Ok(HookEvent { repository, sender, content })
}

fn content(event: &str, body: Body) -> Result<HookContent, String> {
    let missing = |what: &str| format!("the body has no {what}");
    let action = match body.action.as_str() {
        "created" | "submitted" => Some(CommentAction::Created),
        "edited" => Some(CommentAction::Edited),
        "deleted" | "dismissed" => Some(CommentAction::Deleted),
        _ => None,
    };
    Ok(match (event, action) {
        ("ping", _) => HookContent::Ping,
        ("push", _) => pushed(body.reference.as_str()),
        ("issue_comment", Some(action)) => {
            let issue = body.issue.ok_or_else(|| missing("issue"))?;
            let kind = if issue.pull_request.is_some() { CommentKind::Pull } else { CommentKind::Issue };
            let comment = body.comment.ok_or_else(|| missing("comment"))?;
            HookContent::Comment { number: issue.number, action, comment: comment.into_comment(kind) }
        }
        ("pull_request_review_comment", Some(action)) => {
            let pull = body.pull_request.ok_or_else(|| missing("pull request"))?;
            let comment = body.comment.ok_or_else(|| missing("comment"))?;
            HookContent::Comment { number: pull.number, action, comment: comment.into_comment(CommentKind::Line) }
        }
        ("pull_request_review", Some(action)) => {
            let pull = body.pull_request.ok_or_else(|| missing("pull request"))?;
            let review = body.review.ok_or_else(|| missing("review"))?;
            HookContent::Review { number: pull.number, action, review: review.into_review() }
        }
        ("pull_request", _) => body.pull_request.ok_or_else(|| missing("pull request"))?.into_content(),
        ("issues", _) => {
            let issue = body.issue.ok_or_else(|| missing("issue"))?;
            let action = match (body.action.as_str(), body.label, body.assignee) {
                ("opened", ..) => IssueAction::Opened,
                ("labeled", Some(label), _) => IssueAction::Labeled(label.name),
                ("assigned", _, Some(user)) => IssueAction::Assigned(user.into()),
                _ => IssueAction::Other,
            };
            HookContent::Issue { action, issue: issue.into_issue() }
        }
        ("check_suite" | "check_run" | "workflow_run" | "status", _) => {
            let head = body.check_suite.or(body.check_run).or(body.workflow_run).map(|run| run.head_sha);
            match head.or(body.sha).as_deref().and_then(sha) {
                Some(sha) => HookContent::Checks { sha, pull: None },
                None => HookContent::Other,
            }
        }
        ("repository", _) => HookContent::Repository,
        ("installation" | "installation_repositories", _) => {
            let added = body.repositories.into_iter().chain(body.repositories_added).map(Into::into).collect();
            let gives = matches!(body.action.as_str(), "created" | "added" | "unsuspend" | "new_permissions_accepted");
            if gives { HookContent::Access { added } } else { HookContent::Other }
        }
        _ => HookContent::Other,
    })
}

impl Comment {
    fn into_comment(self, kind: CommentKind) -> HostComment {
        HostComment {
            kind,
            position: self.located.position(),
            thread: self.located.thread(&self.id.0),
            id: self.id.0,
            version: self.updated_at,
            url: self.html_url,
            author: self.user.into(),
            body: self.body,
            hunk: self.diff_hunk,
            review: self.pull_request_review_id.map(|id| id.0).filter(|id| !id.is_empty()),
        }
    }
}

impl Review {
    fn into_review(self) -> HostReview {
        HostReview {
            id: self.id.0,
            version: self.submitted_at,
            url: self.html_url,
            author: self.user.into(),
            body: self.body,
            approves: self.state.eq_ignore_ascii_case("approved"),
        }
    }
}

impl Pull {
    fn into_content(self) -> HookContent {
        let state = match self.state.as_str() {
            "open" => PullState::Open,
            _ if self.merged || self.merged_at.is_some() => PullState::Merged,
            _ => PullState::Closed,
        };
        HookContent::Pull { number: self.number, state, head: self.head.name, head_sha: sha(&self.head.sha) }
    }
}

impl Issue {
    fn into_issue(self) -> HostIssue {
        let name = |label: &Value| match label {
            Value::String(name) => Some(name.clone()),
            label => label["name"].as_str().map(str::to_owned),
        };
        HostIssue {
            number: self.number,
            title: self.title,
            body: self.body,
            url: self.html_url,
            author: self.user.into(),
            labels: self.labels.iter().filter_map(name).collect(),
            assignees: self.assignees.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn repository() -> Value {
        json!({"id": 186_853_002, "full_name": "Codertocat/Hello-World"})
    }

    fn read_json(event: &str, mut body: Value) -> HookEvent {
        body["repository"] = repository();
        body["sender"] = json!({"id": 21_031_067, "login": "Codertocat", "type": "User"});
        read(event, body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_comment_on_a_pull_request_is_told_from_one_on_an_issue() {
        let user = json!({"id": 5, "login": "ada", "type": "User"});
        let comment = json!({"id": 492, "html_url": "u", "user": user, "updated_at": "t", "body": "hi"});
        for (issue, kind) in [
            (json!({"number": 1, "pull_request": {"url": "x"}}), CommentKind::Pull),
            (json!({"number": 1}), CommentKind::Issue),
        ] {
            let event = read_json("issue_comment", json!({"action": "edited", "issue": issue, "comment": comment}));
            assert_eq!(event.repository.unwrap().id, "186853002");
            let HookContent::Comment { number: 1, action: CommentAction::Edited, comment } = event.content else {
                panic!("{:?}", event.content)
            };
            assert_eq!((comment.kind, comment.id.as_str(), comment.author.name.as_str()), (kind, "492", "ada"));
        }
    }

    #[test]
    fn a_review_without_a_text_is_read() {
        let body = json!({
            "action": "submitted",
            "review": {"id": 9, "html_url": "u", "user": null, "body": null, "submitted_at": "t", "state": "commented"},
            "pull_request": {"number": 2, "state": "open", "head": {"ref": "b", "sha": "x"}},
        });
        let HookContent::Review { number: 2, review, .. } = read_json("pull_request_review", body).content else {
            panic!("no review")
        };
        assert_eq!((review.id.as_str(), review.body.as_str(), review.approves), ("9", "", false));
    }

    #[test]
    fn a_merged_pull_request_is_told_from_a_closed_one() {
        let pull = |state: &str, merged: bool| {
            let head = json!({"ref": "b", "sha": "a".repeat(40)});
            json!({"action": "closed", "pull_request": {"number": 2, "state": state, "merged": merged, "head": head}})
        };
        for (state, merged, expected) in [
            ("open", false, PullState::Open),
            ("closed", true, PullState::Merged),
            ("closed", false, PullState::Closed),
        ] {
            let event = read_json("pull_request", pull(state, merged));
            assert!(
                matches!(&event.content, HookContent::Pull { state, head_sha: Some(_), .. } if *state == expected),
                "{event:?}"
            );
        }
    }

    #[test]
    fn other_events_are_read_without_an_error() {
        for (event, body, expected) in [
            ("ping", json!({"zen": "x"}), HookContent::Ping),
            ("push", json!({"ref": "refs/heads/main"}), HookContent::Push { branches: vec!["main".to_owned()] }),
            ("push", json!({"ref": "refs/tags/v1"}), HookContent::Other),
            ("push", json!({"ref": 7}), HookContent::Other),
            ("create", json!({"ref": "main"}), HookContent::Other),
            ("star", json!({"action": "created"}), HookContent::Other),
            ("issue_comment", json!({"action": "pinned"}), HookContent::Other),
            ("repository", json!({"action": "renamed"}), HookContent::Repository),
            (
                "status",
                json!({"sha": "a".repeat(40)}),
                HookContent::Checks { sha: "a".repeat(40).parse().unwrap(), pull: None },
            ),
            (
                "check_run",
                json!({"check_run": {"head_sha": "b".repeat(40)}}),
                HookContent::Checks { sha: "b".repeat(40).parse().unwrap(), pull: None },
            ),
        ] {
            assert_eq!(read_json(event, body).content, expected, "{event}");
        }
        assert!(read("issue_comment", b"{\"action\": \"created\"}").is_err());
        assert!(read("issue_comment", b"no json").is_err());
    }

    #[test]
    fn a_webhook_without_a_signature_is_refused() {
        let secret = SecretValue("It's a Secret to Everybody".to_owned());
        let hook = |headers: &[(&str, &str)]| RawHook {
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: b"Hello, World!".to_vec(),
        };
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(is_signed(&secret, &hook(&[("x-hub-signature-256", right)])));
        for headers in [&[][..], &[("x-hub-signature-256", "sha256=")], &[("x-hub-signature", right)]] {
            assert!(!is_signed(&secret, &hook(headers)), "{headers:?}");
        }
    }
}
