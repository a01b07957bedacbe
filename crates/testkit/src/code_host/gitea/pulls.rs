//! Pull requests.

use http::Method;
use journeyman_core::time::Timestamp;
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
            (&Method::POST, ["reviews"]) => self.submit_review(&pull),
            (&Method::POST, ["comments", comment, "replies"]) => {
                self.reply(number, comment.parse().unwrap_or_default())
            }
            (&Method::GET, ["reviews", review, rest @ ..]) => self.review(number, review, rest),
            _ => self.missing(),
        }
    }

    /// Merges a pull request when the checks pass, or at once, as older versions do if no check is required. The refusals are
    /// those of `MergePullRequest` in routers/api/v1/repo/pull.go of Gitea.
    fn merge(&mut self, pull: &Pull) -> Reply {
        if let Some(refusal) = self.locked() {
            return refusal;
        }
        let style = self.text("Do");
        let styles = ["merge", "rebase", "rebase-merge", "squash", "fast-forward-only", "manually-merged"];
        if !styles.contains(&style.as_str()) {
            return error(422, "[Do]: Required");
        }
        match pull.state {
            PullState::Open => {}
            PullState::Closed => return self.missing(),
            PullState::Merged => return error(405, ""),
        }
        if !self.is_writer() {
            return error(405, "User not allowed to merge PR");
        }
        if pull.draft {
            return error(405, "Work in progress PRs cannot be merged");
        }
        let is_later = self.body("merge_when_checks_succeed") == true;
        let (number, path) = (pull.number, self.found.path.clone());
        let found = self.request.state.by_path(&path).unwrap();
        match (found.has_requirements, is_later) {
            (true, true) if found.auto_merges.contains(&number) => {
                return error(409, "pull request is already scheduled to auto merge");
            }
            // The commit is not compared.
            (true, true) => {
                found.auto_merges.push(number);
                return Reply::text(201, "");
            }
            (true, false) => return error(405, "Not all required status checks successful"),
            (false, _) => {}
        }
        let head = self.text("head_commit_id");
        if !head.is_empty() && head != self.found.sha_of(pull) {
            return error(409, "head out of date");
        }
        self.request.state.end(&path, number, PullState::Merged);
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
        let (created, updated) = self.request.state.times.of_pull(*id, pull.number);
        let ended = (pull.state != PullState::Open).then(|| self.time(updated));
        json!({
            "id": 5000 + pull.number,
            "number": pull.number,
            "url": url,
            "html_url": url,
            "user": show_user(&self.request.state.user(pull.author)),
            "title": if pull.draft { format!("WIP: {}", pull.title) } else { pull.title.clone() },
            "body": pull.body,
            "draft": pull.draft,
            "is_locked": false,
            "mergeable": pull.state == PullState::Open,
            "created_at": self.time(created),
            "updated_at": self.time(updated),
            "closed_at": ended,
            "merged_at": ended.as_ref().filter(|_| pull.state == PullState::Merged),
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

    /// Returns an error for something that a body names and that does not exist.
    fn named_missing(&self, message: &str) -> Reply {
        let errors = if self.request.is_forgejo { json!([]) } else { Value::Null };
        Reply::json(404, &json!({"message": message, "url": "https://docs.example/api/swagger", "errors": errors}))
    }

    fn time(&self, seconds: i64) -> String {
        Timestamp::from_micros(seconds * 1_000_000).to_string().replace(".000", "")
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
                return self.named_missing(&format!("User '{name}' not exist"));
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
                return self.named_missing(&format!("Team '{name}' not exist"));
            }
            wanted.push(name);
        }
        wanted.retain(|name| !pull.reviewers.contains(name));
        let reviews: Vec<Value> = wanted.iter().map(|_| json!({"state": "REQUEST_REVIEW"})).collect();
        pull.reviewers.extend(wanted);
        self.replace(&pull);
        Reply::json(201, &json!(reviews))
    }

    /// Submits a review. Lines that the file does not have are accepted (`createCodeComment` in services/pull/review.go of
    /// both products). The state keeps only reviews with the event `COMMENT`.
    fn submit_review(&mut self, pull: &Pull) -> Reply {
        let body = self.request.call.body.clone();
        let text = body["body"].as_str().unwrap_or_default();
        let comments = body["comments"].as_array().cloned().unwrap_or_default();
        // `preparePullReviewType` in routers/api/v1/repo/pull_review.go of Gitea.
        let (event, is_own) = (body["event"].as_str().unwrap_or_default(), pull.author == self.request.user.id);
        match event {
            "COMMENT" if text.trim().is_empty() && comments.is_empty() => {
                return error(422, "review event COMMENT requires a body or a comment");
            }
            "COMMENT" => {}
            "APPROVED" if is_own => return error(422, "approve your own pull is not allowed"),
            "REQUEST_CHANGES" if is_own => return error(422, "reject your own pull is not allowed"),
            "APPROVED" | "REQUEST_CHANGES" if pull.state != PullState::Open => {
                return error(422, "can't submit review for a closed or merged PR");
            }
            _ => return error(422, &format!("review event {event} requires a body")),
        }
        let mut lines = Vec::new();
        let mut old = Vec::new();
        for comment in comments {
            let number = |name: &str| comment[name].as_u64().unwrap_or_default();
            let text = |name: &str| comment[name].as_str().unwrap_or_default().to_owned();
            old.push(number("old_position") > 0);
            let line = if number("old_position") > 0 { number("old_position") } else { number("new_position") };
            // Forgejo looks for the last commit with a line of the old version, and fails without one.
            if self.request.is_forgejo && number("new_position") == 0 && !(1..=LAST_LINE).contains(&line) {
                return error(500, "");
            }
            lines.push((text("path"), line, text("body")));
        }
        let (path, by) = (self.found.path.clone(), self.request.user.id);
        let id = self.request.state.add_review(&path, pull.number, by, text, lines);
        let stored = self.request.state.by_path(&path).unwrap();
        let written = &stored.reviews.last().unwrap().comments;
        let old = written.iter().zip(old).filter(|(_, is_old)| *is_old);
        stored.anchors.extend(old.map(|(comment, _)| (comment.id, json!({"original_position": comment.line}))));
        self.found = stored.clone();
        self.review(pull.number, &id.to_string(), &[])
    }

    pub(super) fn review(&self, pull: u64, review: &str, below: &[&str]) -> Reply {
        let is_it = |known: &&Review| known.pull == pull && known.id.to_string() == review;
        let Some(review) = self.found.reviews.iter().find(is_it) else { return self.missing() };
        let user = show_user(&self.request.state.user(review.author));
        let url = format!("{}/{}/pulls/{pull}#issuecomment", self.request.state.url, self.found.path);
        let show = |comment: &crate::code_host::state::ReviewComment, id: u64, author: u64, body: &str| {
            let is_resolved = id == comment.id && self.found.resolved.contains(&id);
            let is_old = self.found.anchors.contains_key(&comment.id);
            json!({
                "id": id,
                "body": body,
                "user": show_user(&self.request.state.user(author)),
                "resolver": is_resolved.then(|| user.clone()),
                "pull_request_review_id": review.id,
                "created_at": "2026-01-01T00:00:00Z",
                "updated_at": "2026-01-01T00:00:00Z",
                "path": comment.path,
                "position": if is_old { 0 } else { comment.line },
                "original_position": if is_old { comment.line } else { 0 },
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
