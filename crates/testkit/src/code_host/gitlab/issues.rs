//! Issues and the events of their labels.

use http::Method;
use serde_json::{Value, json};

use super::{Request, page};
use crate::code_host::Reply;
use crate::code_host::state::{CommentedOn, Issue, State};

impl Request<'_> {
    pub(super) fn issue(&self, state: &mut State, issue: &Issue, rest: &[&str]) -> Reply {
        match (&self.call.method, rest) {
            (&Method::GET, []) => Reply::json(200, &self.show_issue(issue)),
            (&Method::GET, ["resource_label_events"]) => {
                page(self.call, &self.url, self.label_events(issue, state.labeler))
            }
            _ => self.conversation(state, CommentedOn::Issue(issue.number), rest),
        }
    }

    /// Issues API, "List project issues": issues of all states, the newest first.
    pub(super) fn issues(&self) -> Reply {
        let shown = self.found.issues.iter().map(|issue| self.show_issue(issue));
        page(self.call, &self.url, self.listed(shown.collect()))
    }

    /// Issues API, "Single project issue".
    fn show_issue(&self, issue: &Issue) -> Value {
        let (created, updated) = self.times_of(CommentedOn::Issue(issue.number));
        let reference = format!("#{}", issue.number);
        let (up, down) = self.votes(CommentedOn::Issue(issue.number));
        json!({
            "id": self.found.id * 1_000 + issue.number,
            "iid": issue.number,
            "project_id": self.found.id,
            "title": issue.title,
            "description": issue.body,
            "state": "opened",
            "created_at": created,
            "updated_at": updated,
            "closed_at": null,
            "closed_by": null,
            "labels": issue.labels,
            "milestone": null,
            "assignees": [],
            "assignee": null,
            "author": self.show_person(issue.author),
            "type": "ISSUE",
            "issue_type": "issue",
            "user_notes_count": self.found.comments.iter().filter(|one| one.target == CommentedOn::Issue(issue.number)).count(),
            "upvotes": up,
            "downvotes": down,
            "due_date": null,
            "confidential": false,
            "discussion_locked": null,
            "web_url": format!("{}/-/issues/{}", self.web_url(), issue.number),
            "references": {
                "short": reference,
                "relative": reference,
                "full": format!("{}{reference}", self.found.path),
            },
        })
    }

    /// Resource label events API, "List project issue label events": oldest first.
    fn label_events(&self, issue: &Issue, labeler: u64) -> Vec<Value> {
        let (_, at) = self.times_of(CommentedOn::Issue(issue.number));
        let show = |(label, id): (&String, u64)| {
            json!({
                "id": issue.number * 100 + id,
                "user": self.show_person(labeler),
                "created_at": at,
                "resource_type": "Issue",
                "resource_id": self.found.id * 1_000 + issue.number,
                "label": {"id": id, "name": label, "color": "#34495E", "description": ""},
                "action": "add",
            })
        };
        issue.labels.iter().zip(1..).map(show).collect()
    }
}
