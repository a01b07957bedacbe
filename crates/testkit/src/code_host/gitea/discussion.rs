//! Issues and comments.

use http::Method;
use serde_json::{Value, json};

use super::pulls::review_comment;
use super::{At, REACTIONS, error, show_user};
use crate::code_host::Reply;
use crate::code_host::state::{Comment, CommentedOn, Pull, Review};

/// Issues, and what pull requests share with them.
impl At<'_> {
    pub(super) fn issue(&mut self, number: u64, below: &[&str]) -> Reply {
        let pull = self.found.pulls.iter().find(|pull| pull.number == number).cloned();
        let issue = self.found.issues.iter().find(|issue| issue.number == number).cloned();
        let target = if pull.is_some() { CommentedOn::Pull(number) } else { CommentedOn::Issue(number) };
        let exists = pull.is_some() || issue.is_some();
        match (self.method(), below) {
            (&Method::GET | &Method::POST, ["comments"]) if !exists && !self.request.is_forgejo => error(500, ""),
            _ if !exists => self.missing(),
            (&Method::GET, ["comments"]) => {
                let found = self.found.comments.iter().filter(|comment| comment.target == target);
                let listed: Vec<Value> = found.map(|comment| self.show_comment(comment)).collect();
                Reply::json(200, &json!(listed)).header("x-total-count", listed.len().to_string())
            }
            (&Method::POST, ["comments"]) => self.add_comment(target),
            (&Method::POST, ["labels"]) => match pull {
                Some(pull) => self.add_labels(pull),
                None => self.missing(),
            },
            (&Method::POST, ["reactions"]) => {
                let mut reactions = Vec::new();
                self.reacted(react(&mut reactions, &self.text("content")))
            }
            _ => self.missing(),
        }
    }

    pub(super) fn show_comment(&self, comment: &Comment) -> Value {
        let page = match comment.target {
            CommentedOn::Pull(number) => format!("pulls/{number}"),
            CommentedOn::Issue(number) => format!("issues/{number}"),
        };
        json!({
            "id": comment.id,
            "html_url": format!("{}/{}/{page}#issuecomment-{}", self.request.state.url, self.found.path, comment.id),
            "user": show_user(&self.request.state.user(comment.author)),
            "body": comment.body,
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
        })
    }

    /// Shows a comment in a conversation. The answer for a comment of a review is empty.
    pub(super) fn comment(&self, id: u64) -> Reply {
        let is_in =
            |review: &Review| review_comment(review.id) == id || review.comments.iter().any(|comment| comment.id == id);
        let is_reply = self.found.replies.iter().any(|reply| reply.id == id);
        match self.found.comments.iter().find(|comment| comment.id == id) {
            Some(comment) => Reply::json(200, &self.show_comment(comment)),
            None if is_reply || self.found.reviews.iter().any(is_in) => Reply::text(204, ""),
            None => self.missing(),
        }
    }

    pub(super) fn add_comment(&mut self, target: CommentedOn) -> Reply {
        if let Some(refusal) = self.locked() {
            return refusal;
        }
        let (body, author) = (self.text("body"), self.request.user.id);
        if body.is_empty() {
            return error(422, "[Body]: Required");
        }
        let id = self.request.state.add_comment(&self.found.path, target, author, &body);
        let comment = Comment { id, target, author, body, reactions: Vec::new() };
        Reply::json(201, &self.show_comment(&comment))
    }

    /// Changes the text of a comment of any kind (`editIssueComment` in routers/api/v1/repo/issue_comment.go of Gitea).
    pub(super) fn edit_comment(&mut self, id: u64) -> Reply {
        if let Some(refusal) = self.locked() {
            return refusal;
        }
        let body = self.text("body");
        if body.is_empty() {
            return error(422, "[Body]: Required");
        }
        let lines = self.found.reviews.iter().flat_map(|review| {
            let target = CommentedOn::Pull(review.pull);
            review.comments.iter().map(move |line| (line.id, review.author, target))
        });
        let lines: Vec<_> = lines.collect();
        let replies = self.found.replies.iter().filter_map(|reply| {
            let root = self.found.root(reply.id);
            lines.iter().find(|(id, ..)| *id == root).map(|(.., target)| (reply.id, reply.author, *target))
        });
        let comments = self.found.comments.iter().map(|one| (one.id, one.author, one.target));
        let mut all = comments.chain(replies).chain(lines.iter().copied());
        let Some((_, author, target)) = all.find(|(known, ..)| *known == id) else { return self.missing() };
        if author != self.request.user.id && !self.is_writer() {
            return Reply::text(403, "");
        }
        self.stored().edit(id, author, &body);
        Reply::json(200, &self.show_comment(&Comment { id, target, author, body, reactions: Vec::new() }))
    }

    /// Replies in a thread. Forgejo has no such operation.
    pub(super) fn reply(&mut self, number: u64, to: u64) -> Reply {
        let root = self.found.root(to);
        if self.request.is_forgejo || self.request.state.lacks_replies || !self.found.has_line(number, root) {
            return self.missing();
        }
        let (body, author) = (self.text("body"), self.request.user.id);
        if body.is_empty() {
            return error(422, "[Body]: Required");
        }
        if self.found.locked_threads.contains(&root) {
            return error(403, "the conversation is locked");
        }
        let id = self.request.state.id();
        self.stored().add_reply(id, root, author, &body);
        let page = format!("{}/{}/pulls/{number}#issuecomment-{id}", self.request.state.url, self.found.path);
        let user = show_user(&self.request.user);
        Reply::json(201, &json!({"id": id, "body": body, "user": user, "html_url": page}))
    }

    /// Marks a thread as resolved. Forgejo has the path for other methods only.
    pub(super) fn resolve(&mut self, comment: u64) -> Reply {
        if self.request.is_forgejo {
            return Reply::text(405, "");
        }
        let pulls: Vec<u64> = self.found.pulls.iter().map(|pull| pull.number).collect();
        let is_line = pulls.into_iter().any(|pull| self.found.has_line(pull, comment));
        if self.method() != Method::POST || self.request.state.lacks_replies || !is_line {
            return self.missing();
        }
        self.stored().resolved.insert(comment);
        Reply::text(204, "")
    }

    /// Adds a reaction to a comment of any kind.
    pub(super) fn react(&mut self, comment: Option<u64>) -> Reply {
        let (content, missing) = (self.text("content"), self.missing());
        if self.method() != Method::POST {
            return missing;
        }
        let stored = self.stored();
        if stored.reviews.iter().any(|review| comment == Some(review_comment(review.id))) {
            let added = react(&mut Vec::new(), &content);
            return self.reacted(added);
        }
        // The state keeps no reactions to replies.
        let mut of_reply = Vec::new();
        let reply =
            stored.replies.iter().find(|reply| comment == Some(reply.id)).map(|reply| (reply.id, &mut of_reply));
        let lines = stored.reviews.iter_mut().flat_map(|review| &mut review.comments);
        let lines = lines.map(|comment| (comment.id, &mut comment.reactions));
        let comments = stored.comments.iter_mut().map(|comment| (comment.id, &mut comment.reactions));
        match comments.chain(lines).chain(reply).find(|(id, _)| comment == Some(*id)) {
            Some((_, reactions)) => {
                let added = react(reactions, &content);
                self.reacted(added)
            }
            None => missing,
        }
    }

    /// Answers with a reaction.
    fn reacted(&self, added: Result<u16, Reply>) -> Reply {
        let status = match added {
            Ok(status) => status,
            Err(refusal) => return refusal,
        };
        let user = show_user(&self.request.user);
        let shown = json!({"user": user, "content": self.text("content"), "created_at": "2026-01-01T00:00:00Z"});
        Reply::json(status, &shown)
    }

    /// Describes a label of the repository. Its ID is its position.
    pub(super) fn label(&self, name: &str) -> Value {
        let id = self.found.labels.iter().position(|known| known == name).map_or(1000, |index| index + 1);
        json!({"id": id, "name": name, "color": "ededed"})
    }

    pub(super) fn labels(&mut self) -> Reply {
        if self.method() == Method::GET {
            return self.page(&self.found.labels.iter().map(|name| self.label(name)).collect::<Vec<_>>());
        }
        if !self.is_writer() {
            return error(403, "user should have a permission to write to a repo");
        }
        let (name, color) = (self.text("name"), self.text("color"));
        let digits = color.strip_prefix('#').unwrap_or(&color);
        if name.is_empty() || digits.len() != 6 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return error(422, "[Color]: Required");
        }
        // Two labels may have the same name.
        let labels = &mut self.stored().labels;
        labels.push(name.clone());
        Reply::json(201, &json!({"id": labels.len(), "name": name, "color": digits}))
    }

    /// Adds labels by their IDs, which all versions accept.
    pub(super) fn add_labels(&mut self, mut pull: Pull) -> Reply {
        if !self.is_writer() {
            return error(403, "write permission is required");
        }
        let ids = self.body("labels").as_array().cloned().unwrap_or_default();
        if ids.iter().any(|id| !id.is_u64()) {
            return error(422, "[]: json: cannot unmarshal string into Go struct field");
        }
        for id in ids.iter().filter_map(Value::as_u64) {
            let index = usize::try_from(id).unwrap().wrapping_sub(1);
            let Some(name) = self.found.labels.get(index) else { continue };
            if !pull.labels.contains(name) {
                pull.labels.push(name.clone());
            }
        }
        self.replace(&pull);
        Reply::json(200, &json!(pull.labels.iter().map(|name| self.label(name)).collect::<Vec<_>>()))
    }
}

/// Adds a reaction, and returns the status of the answer.
fn react(reactions: &mut Vec<String>, content: &str) -> Result<u16, Reply> {
    if !REACTIONS.contains(&content) {
        return Err(error(403, &format!("'{content}' is not an allowed reaction")));
    }
    let is_new = !reactions.iter().any(|known| known == content);
    if is_new {
        reactions.push(content.to_owned());
    }
    Ok(if is_new { 201 } else { 200 })
}
