//! Pull requests.

use http::Method;
use serde_json::{Value, json};

use super::{At, can_push, error, show_user};
use crate::code_host::Reply;
use crate::code_host::state::{LAST_LINE, Pull, PullState, Repository, Review};

impl At<'_> {
    pub(super) fn pulls(&mut self, below: &[&str]) -> Reply {
        let [number, rest @ ..] = below else {
            return if self.method() == Method::POST { self.create_pull() } else { self.list_pulls() };
        };
        let number: u64 = number.parse().unwrap_or_default();
        let Some(pull) = self.found.pulls.iter().find(|pull| pull.number == number).cloned() else {
            return self.missing();
        };
        match (self.method(), rest) {
            (&Method::GET, []) => Reply::json(200, &self.show(&pull)),
            (&Method::PATCH, []) => self.change_pull(pull),
            (&Method::POST, ["merge"]) => self.merge(&pull),
            (&Method::POST, ["requested_reviewers"]) => self.request_reviews(pull),
            (&Method::POST, ["reviews"]) => self.submit_review(number),
            (&Method::POST, ["comments", comment, "replies"]) => {
                self.reply(number, comment.parse().unwrap_or_default())
            }
            (&Method::GET, ["reviews", review, rest @ ..]) => self.review(number, review, rest),
            _ => self.missing(),
        }
    }

    /// Merges a pull request when the checks pass, or at once, as older versions do if no check is required.
    fn merge(&mut self, pull: &Pull) -> Reply {
        if !self.is_writer() {
            return error(405, "User not allowed to merge PR");
        }
        let is_later = self.body("merge_when_checks_succeed") == true;
        let (number, path) = (pull.number, self.found.path.clone());
        let head = self.text("head_commit_id");
        if head != self.found.sha_of(pull) || self.text("Do") != "squash" {
            return error(409, "head out of date");
        }
        let found = self.request.state.by_path(&path).unwrap();
        if is_later && found.has_requirements {
            if found.auto_merges.contains(&number) {
                return error(409, "pull request is already scheduled to auto merge");
            }
            found.auto_merges.push(number);
            return Reply::text(201, "");
        }
        found.pulls.iter_mut().find(|one| one.number == number).unwrap().state = PullState::Merged;
        Reply::text(200, "")
    }

    pub(super) fn show(&self, pull: &Pull) -> Value {
        let Repository { id, path, branches, .. } = &self.found;
        let users = |names: &[String]| {
            let found: Vec<Value> =
                names.iter().filter_map(|name| self.request.user_named(name)).map(|user| show_user(&user)).collect();
            if found.is_empty() { Value::Null } else { Value::Array(found) }
        };
        let url = format!("{}/{path}/pulls/{}", self.request.state.url, pull.number);
        let reference = if branches.contains_key(&pull.head) {
            pull.head.clone()
        } else {
            format!("refs/pull/{}/head", pull.number)
        };
        let head = pull.fork.unwrap_or(*id);
        // The newest commit of the branch, also after the end of the pull request.
        let commit = branches.get(&pull.head).cloned().unwrap_or_else(|| self.found.sha_of(pull));
        json!({
            "id": 5000 + pull.number,
            "number": pull.number,
            "url": url,
            "html_url": url,
            "user": show_user(&self.request.state.user(pull.author)),
            "title": if pull.draft { format!("WIP: {}", pull.title) } else { pull.title.clone() },
            "body": pull.body,
            "draft": pull.draft,
            "state": if pull.state == PullState::Open { "open" } else { "closed" },
            "merged": pull.state == PullState::Merged,
            "labels": pull.labels.iter().map(|name| self.label(name)).collect::<Vec<_>>(),
            "assignees": users(&pull.assignees),
            "requested_reviewers": users(&pull.reviewers),
            "head": {"label": pull.head, "ref": reference, "sha": commit, "repo_id": head},
            "base": {"label": pull.base, "ref": pull.base, "sha": branches.get(&pull.base), "repo_id": id},
        })
    }

    pub(super) fn list_pulls(&self) -> Reply {
        let call = self.request.call;
        let state = call.parameter("state").unwrap_or("open");
        // Only Forgejo has the filter.
        let head = call.parameter("head").filter(|head| self.request.is_forgejo && !head.is_empty());
        let is_it = |pull: &&Pull| match state {
            "open" => pull.state == PullState::Open,
            "closed" => pull.state != PullState::Open,
            _ => true,
        };
        let listed = self.found.pulls.iter().rev().filter(is_it);
        let listed = listed.filter(|pull| head.is_none_or(|head| pull.head == head));
        self.page(&listed.map(|pull| self.show(pull)).collect::<Vec<_>>())
    }

    /// Opens a pull request, also if the branch has no commits.
    pub(super) fn create_pull(&mut self) -> Reply {
        if let Some(refusal) = self.locked() {
            return refusal;
        }
        let (head, base, title) = (self.text("head"), self.text("base"), self.text("title"));
        if title.is_empty() {
            return error(422, "[Title]: Required");
        }
        if head == base {
            return error(422, "Invalid PullRequest: There are no changes between the head and the base");
        }
        if ![&head, &base].into_iter().all(|branch| self.found.branches.contains_key(branch)) {
            return self.missing();
        }
        let is_same = |pull: &&Pull| pull.head == head && pull.base == base && pull.fork.is_none();
        if let Some(pull) = self.found.pulls.iter().filter(is_same).find(|pull| pull.state == PullState::Open) {
            let (id, number, repository) = (5000 + pull.number, pull.number, self.found.id);
            return error(
                409,
                &format!(
                    "pull request already exists for these targets [id: {id}, issue_id: {number}, head_repo_id: \
                     {repository}, base_repo_id: {repository}, head_branch: {head}, base_branch: {base}]"
                ),
            );
        }
        let (draft, title) = undrafted(&title);
        let number = self.found.next_number();
        let author = self.request.user.id;
        let pull = Pull { number, draft, title, body: self.text("body"), head, base, author, ..Pull::default() };
        self.stored().pulls.push(pull.clone());
        Reply::json(201, &self.show(&pull))
    }

    pub(super) fn stored(&mut self) -> &mut Repository {
        self.request.state.by_id(self.found.id).unwrap()
    }

    pub(super) fn replace(&mut self, pull: &Pull) {
        let stored = self.stored().pulls.iter_mut().find(|known| known.number == pull.number);
        *stored.unwrap() = pull.clone();
    }

    pub(super) fn change_pull(&mut self, mut pull: Pull) -> Reply {
        if !self.is_writer() && pull.author != self.request.user.id {
            return Reply::text(403, "");
        }
        let title = self.text("title");
        if !title.is_empty() {
            (pull.draft, pull.title) = undrafted(&title);
        }
        if let Some(body) = self.body("body").as_str() {
            body.clone_into(&mut pull.body);
        }
        // The list replaces the former one. It is ignored if the user may not push.
        if self.body("assignees").is_array() && self.is_writer() {
            let mut assignees = Vec::new();
            for name in self.texts("assignees") {
                match self.request.user_named(&name) {
                    Some(user) if can_push(&self.found, user.id) => assignees.push(user.name),
                    Some(_) => return error(500, ""),
                    None => {
                        let text = format!("user does not exist [uid: 0, name: {name}]");
                        return error(422, &format!("Assignee does not exist: [name: {text}]"));
                    }
                }
            }
            pull.assignees = assignees;
        }
        self.replace(&pull);
        Reply::json(201, &self.show(&pull))
    }

    pub(super) fn request_reviews(&mut self, mut pull: Pull) -> Reply {
        if pull.state != PullState::Open {
            return error(403, "a closed pull request needs no review");
        }
        let (id, by) = (self.found.id, self.request.user.id);
        if !self.is_writer() && pull.author != by {
            return error(422, &format!("Doer can't choose reviewer [user_id: {by}, repo_id: {id}]"));
        }
        let mut wanted = Vec::new();
        for name in self.texts("reviewers") {
            let Some(user) = self.request.user_named(&name) else {
                return Reply::json(404, &json!({"message": format!("User '{name}' not exist"), "errors": null}));
            };
            if user.id == pull.author {
                return error(422, &format!("poster of pr can't be reviewer [user_id: {}, repo_id: {id}]", user.id));
            }
            if !self.found.permissions.contains_key(&user.id) {
                return error(422, &format!("Reviewer can't read [user_id: {}, repo_id: {id}]", user.id));
            }
            wanted.push(user.name);
        }
        // The repositories of users have no teams, and the list is ignored.
        for name in self.texts("team_reviewers").into_iter().filter(|_| self.request.is_forgejo) {
            if !["Owners", "developers"].contains(&name.as_str()) {
                return Reply::json(404, &json!({"message": format!("Team '{name}' not exist"), "errors": []}));
            }
            wanted.push(name);
        }
        wanted.retain(|name| !pull.reviewers.contains(name));
        let reviews: Vec<Value> = wanted.iter().map(|_| json!({"state": "REQUEST_REVIEW"})).collect();
        pull.reviewers.extend(wanted);
        self.replace(&pull);
        Reply::json(201, &json!(reviews))
    }

    /// Submits a review. Comments on lines that the diff does not have are refused.
    fn submit_review(&mut self, pull: u64) -> Reply {
        let body = self.request.call.body.clone();
        if body["event"] != "COMMENT" {
            return error(422, "the reviews of the service are comments");
        }
        let mut lines = Vec::new();
        for comment in body["comments"].as_array().into_iter().flatten() {
            let number = |name: &str| comment[name].as_u64().unwrap_or_default();
            let line = number("new_position").max(number("old_position"));
            if !(1..=LAST_LINE).contains(&line) {
                return error(422, "the line is not in the diff");
            }
            let text = |name: &str| comment[name].as_str().unwrap_or_default().to_owned();
            lines.push((text("path"), line, text("body")));
        }
        let (path, by) = (self.found.path.clone(), self.request.user.id);
        let text = body["body"].as_str().unwrap_or_default();
        let id = self.request.state.add_review(&path, pull, by, text, lines);
        self.found = self.request.state.by_path(&path).unwrap().clone();
        self.review(pull, &id.to_string(), &[])
    }

    pub(super) fn review(&self, pull: u64, review: &str, below: &[&str]) -> Reply {
        let is_it = |known: &&Review| known.pull == pull && known.id.to_string() == review;
        let Some(review) = self.found.reviews.iter().find(is_it) else { return self.missing() };
        let user = show_user(&self.request.state.user(review.author));
        let url = format!("{}/{}/pulls/{pull}#issuecomment", self.request.state.url, self.found.path);
        let show = |comment: &crate::code_host::state::ReviewComment, id: u64, author: u64, body: &str| {
            let is_resolved = id == comment.id && self.found.resolved.contains(&id);
            json!({
                "id": id,
                "body": body,
                "user": show_user(&self.request.state.user(author)),
                "resolver": is_resolved.then(|| user.clone()),
                "pull_request_review_id": review.id,
                "created_at": "2026-01-01T00:00:00Z",
                "updated_at": "2026-01-01T00:00:00Z",
                "path": comment.path,
                "position": comment.line,
                "original_position": 0,
                "diff_hunk": "@@ -1 +1,2 @@\n # Shop\n+more",
                "html_url": format!("{url}-{id}"),
            })
        };
        // Replies belong to the same review.
        let with_replies = |comment: &crate::code_host::state::ReviewComment| {
            let replies = self.found.thread(comment.id).into_iter();
            let replies = replies.map(|reply| show(comment, reply.id, reply.author, &reply.body));
            replies.rev().chain([show(comment, comment.id, review.author, &comment.body)]).collect::<Vec<_>>()
        };
        match below {
            [] => Reply::json(
                200,
                &json!({
                    "id": review.id,
                    "user": user,
                    "state": "COMMENT",
                    "body": review.body,
                    "dismissed": false,
                    "comments_count": review.comments.len(),
                    "html_url": format!("{url}-{}", review_comment(review.id)),
                }),
            ),
            // In no order.
            ["comments"] => {
                Reply::json(200, &Value::Array(review.comments.iter().rev().flat_map(with_replies).collect()))
            }
            _ => self.missing(),
        }
    }
}

/// Returns the ID of the comment that has the text of a review.
pub(super) fn review_comment(review: u64) -> u64 {
    1_000_000 + review
}

/// Splits the prefix of drafts from a title.
pub(super) fn undrafted(title: &str) -> (bool, String) {
    let lower = title.to_lowercase();
    let prefix = ["wip:", "[wip]"].into_iter().find(|prefix| lower.starts_with(prefix));
    let rest = prefix.map_or(title, |prefix| title[prefix.len()..].trim_start());
    (prefix.is_some(), rest.to_owned())
}
