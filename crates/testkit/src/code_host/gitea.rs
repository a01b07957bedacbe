//! The interface of Gitea (1.27) and Forgejo (16). The repositories are private. On Gitea, they belong to a user, and on
//! Forgejo to an organization.

use http::Method;
use serde_json::{Value, json};

use super::state::{Check, Comment, Place, Pull, PullState, Repository, Review, State, Status, User};
use super::{Call, Reply};

/// The reactions that the settings of a server permit.
const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"];

/// A request of a signed-in user.
struct Request<'a> {
    state: &'a mut State,
    call: &'a Call,
    user: User,
    is_forgejo: bool,
}

/// A request about a repository, which is described as it was before.
struct At<'a> {
    request: Request<'a>,
    found: Repository,
}

fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"message": message, "url": "https://docs.example/api/swagger"}))
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &Call, is_forgejo: bool) -> Reply {
    let [api, v1, rest @ ..] = call.segments.as_slice() else { return Reply::text(404, "404 page not found\n") };
    if api != "api" || v1 != "v1" {
        return Reply::text(404, "404 page not found\n");
    }
    if !call.headers.contains_key("authorization") {
        return error(401, "token is required");
    }
    let Some((user, token)) = state.signed_in(call.token().as_deref()) else {
        let old = "user does not exist [uid: 0, name: ]";
        return error(401, if is_forgejo { old } else { "invalid username, password or token" });
    };
    let parts: Vec<&str> = rest.iter().map(String::as_str).collect();
    let access = if call.method == Method::GET { "read" } else { "write" };
    let kind = scope(&parts);
    if kind == "organization" || (access == "write" && !token.can_write) {
        let text = format!("token does not have at least one of required scope(s), required=[{access}:{kind}]");
        return error(403, &text);
    }
    let visible = token.repository;
    let request = Request { state, call, user, is_forgejo };
    match (&call.method, parts.as_slice()) {
        (&Method::GET, ["user"]) => Reply::json(200, &show_user(&request.user)),
        (_, ["repositories", id, below @ ..]) => {
            let path = id.parse().ok().and_then(|id| request.state.by_id(id)).map(|found| found.path.clone());
            request.repository(&path.unwrap_or_default(), visible, below)
        }
        (_, ["repos", owner, name, below @ ..]) => request.repository(&format!("{owner}/{name}"), visible, below),
        _ => request.missing(),
    }
}

/// Returns the scope that a token needs for a path. The tokens of the stand-in have all but that of organizations.
fn scope(parts: &[&str]) -> &'static str {
    match parts {
        ["user" | "users", ..] => "user",
        ["orgs" | "teams", ..] => "organization",
        ["repos", _, _, "issues" | "labels" | "milestones", ..] => "issue",
        _ => "repository",
    }
}

fn show_user(user: &User) -> Value {
    json!({"id": user.id, "login": user.name, "username": user.name, "is_admin": false, "active": false})
}

impl Request<'_> {
    fn missing(&self) -> Reply {
        if self.is_forgejo {
            let message = "The target couldn't be found.";
            return Reply::json(404, &json!({"message": message, "url": "https://docs.example", "errors": []}));
        }
        Reply::json(404, &json!({"message": "not found", "url": "https://docs.example", "errors": null}))
    }

    fn user_named(&self, name: &str) -> Option<User> {
        self.state.users.iter().find(|user| user.name.eq_ignore_ascii_case(name)).cloned()
    }

    /// Answers a request about a repository.
    fn repository(self, path: &str, visible: Option<u64>, below: &[&str]) -> Reply {
        if let Some(renamed) = self.state.renamed(path) {
            let target = self.call.target.replacen(&format!("/{path}"), &format!("/{}", renamed.path), 1);
            return Reply::text(301, "").header("location", target);
        }
        let Some(found) = self.state.by_path(path).map(|found| found.clone()) else { return self.missing() };
        let may_see = found.permissions.contains_key(&self.user.id) && visible.is_none_or(|id| id == found.id);
        if !may_see {
            return self.missing();
        }
        let mut at = At { request: self, found };
        match below {
            [] if at.request.call.method == Method::GET => at.describe(),
            ["branches", branch @ ..] => at.branch(&branch.join("/")),
            ["commits"] => at.commits(),
            ["git", "refs", "pull", number, "head"] => at.reference(number),
            ["pulls", rest @ ..] => at.pulls(rest),
            ["issues", "comments", comment, "reactions"] => at.react(comment.parse().ok()),
            ["issues", "comments", comment] => at.comment(comment.parse().unwrap_or_default()),
            ["issues", number, rest @ ..] => at.issue(number.parse().unwrap_or_default(), rest),
            ["labels"] => at.labels(),
            ["assignees"] => at.assignees(),
            ["teams"] => at.teams(),
            ["collaborators", name, rest @ ..] => at.collaborator(name, rest),
            ["commits", sha, "status"] => at.combined_status(sha),
            ["statuses", sha] => at.set_status(sha),
            ["actions", rest @ ..] => at.actions(rest),
            _ => at.missing(),
        }
    }
}

/// Returns whether the permission of a user permits pushing.
fn can_push(repository: &Repository, user: u64) -> bool {
    matches!(repository.permissions.get(&user), Some(&("write" | "admin")))
}

impl At<'_> {
    fn missing(&self) -> Reply {
        self.request.missing()
    }

    fn method(&self) -> &Method {
        &self.request.call.method
    }

    fn body(&self, name: &str) -> &Value {
        &self.request.call.body[name]
    }

    fn text(&self, name: &str) -> String {
        self.body(name).as_str().unwrap_or_default().to_owned()
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.body(name).as_array().cloned().unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn is_writer(&self) -> bool {
        can_push(&self.found, self.request.user.id)
    }

    /// Returns the refusal of a change to an archived repository.
    fn locked(&self) -> Option<Reply> {
        let Repository { id, path, is_archived, .. } = &self.found;
        let name = if self.request.is_forgejo { format!("<Repository {id}:{path}>") } else { path.clone() };
        is_archived.then(|| error(423, &format!("{name} is archived")))
    }

    /// Returns a page of a list, at most 50 items.
    fn page(&self, items: &[Value]) -> Reply {
        let call = self.request.call;
        let number = |name: &str| call.parameter(name).and_then(|text| text.parse::<usize>().ok());
        let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(30).min(50);
        let at = number("page").unwrap_or(1).max(1);
        let chosen: Vec<&Value> = items.iter().skip((at - 1) * limit).take(limit).collect();
        let reply = Reply::json(200, &json!(chosen)).header("x-total-count", items.len().to_string());
        let last = items.len().div_ceil(limit);
        if at >= last {
            return reply;
        }
        // The address in the settings of the server may differ from the one that clients use.
        let path = call.target.split('?').next().unwrap();
        let link = |page: usize, name: &str| {
            format!("<https://public.example{path}?limit={limit}&page={page}>; rel=\"{name}\"")
        };
        reply.header("link", format!("{},{}", link(at + 1, "next"), link(last, "last")))
    }

    fn describe(&self) -> Reply {
        let Repository { id, path, is_archived, .. } = &self.found;
        let user = self.request.user.id;
        let is_admin = self.found.permissions.get(&user) == Some(&"admin");
        Reply::json(
            200,
            &json!({
                "id": id,
                "full_name": path,
                "default_branch": "main",
                "empty": false,
                "private": true,
                "archived": is_archived,
                // The scopes of the token do not matter here.
                "permissions": {"admin": is_admin, "push": self.is_writer(), "pull": true},
                "has_pull_requests": true,
            }),
        )
    }

    fn branch(&self, name: &str) -> Reply {
        match self.found.branches.get(name) {
            Some(sha) if self.method() == Method::GET => {
                Reply::json(200, &json!({"name": name, "commit": {"id": sha}, "protected": false}))
            }
            _ => self.missing(),
        }
    }

    /// Shows the reference to the commits of a pull request, which the product updates while the pull request is open.
    fn reference(&self, number: &str) -> Reply {
        let Some(pull) = self.found.pulls.iter().find(|pull| pull.number.to_string() == number) else {
            return self.missing();
        };
        let object = json!({"type": "commit", "sha": self.found.sha_of(pull)});
        Reply::json(200, &json!([{"ref": format!("refs/pull/{number}/head"), "object": object}]))
    }

    /// Lists the commits of `sha` that `not` does not have. The stand-in knows only the newest commits of branches.
    fn commits(&self) -> Reply {
        let parameter = |name: &str| self.request.call.parameter(name).unwrap_or_default();
        let (sha, not) = (parameter("sha"), parameter("not"));
        let resolved = |name: &str| {
            self.found.branches.get(name).or_else(|| self.found.branches.values().find(|sha| *sha == name))
        };
        let (Some(sha), Some(not)) = (resolved(sha), resolved(not)) else {
            return if resolved(sha).is_none() { self.missing() } else { error(500, "") };
        };
        let listed: Vec<Value> = if sha == not { Vec::new() } else { vec![json!({"sha": sha})] };
        self.page(&listed)
    }
}

/// Pull requests.
impl At<'_> {
    fn pulls(&mut self, below: &[&str]) -> Reply {
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
            (&Method::POST, ["requested_reviewers"]) => self.request_reviews(pull),
            (&Method::GET, ["reviews", review, rest @ ..]) => self.review(number, review, rest),
            _ => self.missing(),
        }
    }

    fn show(&self, pull: &Pull) -> Value {
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

    fn list_pulls(&self) -> Reply {
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
    fn create_pull(&mut self) -> Reply {
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

    fn stored(&mut self) -> &mut Repository {
        self.request.state.by_id(self.found.id).unwrap()
    }

    fn replace(&mut self, pull: &Pull) {
        let stored = self.stored().pulls.iter_mut().find(|known| known.number == pull.number);
        *stored.unwrap() = pull.clone();
    }

    fn change_pull(&mut self, mut pull: Pull) -> Reply {
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

    fn request_reviews(&mut self, mut pull: Pull) -> Reply {
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

    fn review(&self, pull: u64, review: &str, below: &[&str]) -> Reply {
        let is_it = |known: &&Review| known.pull == pull && known.id.to_string() == review;
        let Some(review) = self.found.reviews.iter().find(is_it) else { return self.missing() };
        let user = show_user(&self.request.state.user(review.author));
        let url = format!("{}/{}/pulls/{pull}#issuecomment", self.request.state.url, self.found.path);
        let show = |comment: &super::ReviewComment| {
            json!({
                "id": comment.id,
                "body": comment.body,
                "user": user,
                "pull_request_review_id": review.id,
                "updated_at": "2026-01-01T00:00:00Z",
                "path": comment.path,
                "position": comment.line,
                "original_position": 0,
                "diff_hunk": "@@ -1 +1,2 @@\n # Shop\n+more",
                "html_url": format!("{url}-{}", comment.id),
            })
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
            ["comments"] => Reply::json(200, &Value::Array(review.comments.iter().rev().map(show).collect())),
            _ => self.missing(),
        }
    }
}

/// Returns the ID of the comment that has the text of a review.
fn review_comment(review: u64) -> u64 {
    1_000_000 + review
}

/// Splits the prefix of drafts from a title.
fn undrafted(title: &str) -> (bool, String) {
    let lower = title.to_lowercase();
    let prefix = ["wip:", "[wip]"].into_iter().find(|prefix| lower.starts_with(prefix));
    let rest = prefix.map_or(title, |prefix| title[prefix.len()..].trim_start());
    (prefix.is_some(), rest.to_owned())
}

/// Issues, and what pull requests share with them.
impl At<'_> {
    fn issue(&mut self, number: u64, below: &[&str]) -> Reply {
        let pull = self.found.pulls.iter().find(|pull| pull.number == number).cloned();
        let issue = self.found.issues.iter().find(|issue| issue.number == number).cloned();
        let place = if pull.is_some() { Place::Pull(number) } else { Place::Issue(number) };
        let exists = pull.is_some() || issue.is_some();
        match (self.method(), below) {
            (&Method::GET | &Method::POST, ["comments"]) if !exists && !self.request.is_forgejo => error(500, ""),
            _ if !exists => self.missing(),
            (&Method::GET, ["comments"]) => {
                let found = self.found.comments.iter().filter(|comment| comment.place == place);
                let listed: Vec<Value> = found.map(|comment| self.show_comment(comment)).collect();
                Reply::json(200, &json!(listed)).header("x-total-count", listed.len().to_string())
            }
            (&Method::POST, ["comments"]) => self.add_comment(place),
            (&Method::POST, ["labels"]) => match pull {
                Some(pull) => self.add_labels(pull),
                None => self.missing(),
            },
            (&Method::POST, ["reactions"]) => {
                let mut reactions = Vec::new();
                react(&mut reactions, &self.text("content"))
            }
            _ => self.missing(),
        }
    }

    fn show_comment(&self, comment: &Comment) -> Value {
        let page = match comment.place {
            Place::Pull(number) => format!("pulls/{number}"),
            Place::Issue(number) => format!("issues/{number}"),
        };
        json!({
            "id": comment.id,
            "html_url": format!("{}/{}/{page}#issuecomment-{}", self.request.state.url, self.found.path, comment.id),
            "user": show_user(&self.request.state.user(comment.author)),
            "body": comment.body,
            "updated_at": "2026-01-01T00:00:00Z",
        })
    }

    /// Shows a comment in a conversation. The answer for a comment of a review is empty.
    fn comment(&self, id: u64) -> Reply {
        let is_in =
            |review: &Review| review_comment(review.id) == id || review.comments.iter().any(|comment| comment.id == id);
        match self.found.comments.iter().find(|comment| comment.id == id) {
            Some(comment) => Reply::json(200, &self.show_comment(comment)),
            None if self.found.reviews.iter().any(is_in) => Reply::text(204, ""),
            None => self.missing(),
        }
    }

    fn add_comment(&mut self, place: Place) -> Reply {
        if let Some(refusal) = self.locked() {
            return refusal;
        }
        let (body, author) = (self.text("body"), self.request.user.id);
        if body.is_empty() {
            return error(422, "[Body]: Required");
        }
        let id = self.request.state.add_comment(&self.found.path, place, author, &body);
        let comment = Comment { id, place, author, body, reactions: Vec::new() };
        Reply::json(201, &self.show_comment(&comment))
    }

    /// Adds a reaction to a comment of any kind.
    fn react(&mut self, comment: Option<u64>) -> Reply {
        let (content, missing) = (self.text("content"), self.missing());
        if self.method() != Method::POST {
            return missing;
        }
        let stored = self.stored();
        if stored.reviews.iter().any(|review| comment == Some(review_comment(review.id))) {
            return react(&mut Vec::new(), &content);
        }
        let lines = stored.reviews.iter_mut().flat_map(|review| &mut review.comments);
        let lines = lines.map(|comment| (comment.id, &mut comment.reactions));
        let comments = stored.comments.iter_mut().map(|comment| (comment.id, &mut comment.reactions));
        match comments.chain(lines).find(|(id, _)| comment == Some(*id)) {
            Some((_, reactions)) => react(reactions, &content),
            None => missing,
        }
    }

    /// Describes a label of the repository. Its ID is its position.
    fn label(&self, name: &str) -> Value {
        let id = self.found.labels.iter().position(|known| known == name).map_or(1000, |index| index + 1);
        json!({"id": id, "name": name, "color": "ededed"})
    }

    fn labels(&mut self) -> Reply {
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
    fn add_labels(&mut self, mut pull: Pull) -> Reply {
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

fn react(reactions: &mut Vec<String>, content: &str) -> Reply {
    if !REACTIONS.contains(&content) {
        return error(403, &format!("'{content}' is not an allowed reaction"));
    }
    let is_new = !reactions.iter().any(|known| known == content);
    if is_new {
        reactions.push(content.to_owned());
    }
    Reply::json(if is_new { 201 } else { 200 }, &json!({"content": content}))
}

/// Permissions.
impl At<'_> {
    /// Lists the users who may push.
    fn assignees(&self) -> Reply {
        let users = self.request.state.users.iter().filter(|user| can_push(&self.found, user.id));
        Reply::json(200, &Value::Array(users.map(show_user).collect()))
    }

    fn teams(&self) -> Reply {
        if !self.request.is_forgejo {
            return error(405, "repo is not owned by an organization");
        }
        let team = |name: &str, permission: &str| {
            let units = json!({"repo.code": permission, "repo.pulls": permission, "repo.wiki": "read"});
            json!({"id": 1, "name": name, "permission": permission, "units_map": units})
        };
        Reply::json(200, &json!([team("Owners", "owner"), team("developers", "write")]))
    }

    fn collaborator(&self, name: &str, below: &[&str]) -> Reply {
        let known = self.request.user_named(name);
        let permission = |user: &User| self.found.permissions.get(&user.id).copied();
        if below.is_empty() {
            return match known {
                Some(user) if permission(&user).is_some() => Reply::text(204, ""),
                Some(_) => self.missing(),
                None => error(422, &format!("user does not exist [uid: 0, name: {name}]")),
            };
        }
        let is_admin = permission(&self.request.user) == Some("admin");
        if !is_admin && !self.request.user.name.eq_ignore_ascii_case(name) {
            return error(
                403,
                "Only admins can query all permissions, repo admins can query all repo permissions, collaborators can \
                 query only their own",
            );
        }
        let Some(user) = known else { return error(404, &format!("user does not exist [uid: 0, name: {name}]")) };
        let permission = permission(&user).unwrap_or("none");
        Reply::json(200, &json!({"permission": permission, "role_name": permission, "user": show_user(&user)}))
    }
}

/// Statuses, and jobs of Actions. All checks of a commit are jobs of one run.
impl At<'_> {
    fn checks(&self, sha: &str) -> Vec<&Check> {
        self.found.checks.iter().filter(|check| check.sha == sha).collect()
    }

    /// Returns the end of the address of a run, for the ID of its first job. On Forgejo, it has the number of the run in
    /// the repository.
    fn run_page(&self, first: u64) -> String {
        let run = if self.request.is_forgejo { first } else { run_id(first) };
        format!("/{}/actions/runs/{run}", self.found.path)
    }

    fn combined_status(&self, sha: &str) -> Reply {
        let mut latest: Vec<&Status> = Vec::new();
        for status in self.found.statuses.iter().rev().filter(|status| status.sha == *sha) {
            if !latest.iter().any(|known| known.context == status.context) {
                latest.push(status);
            }
        }
        let show = |context: &str, status: &str, url: &str, description: &str| json!({"id": 1, "context": context, "status": status, "target_url": url, "description": description});
        let mut listed: Vec<Value> = latest
            .iter()
            .map(|status| show(&status.context, &status.state, &status.url, &status.description))
            .collect();
        let checks = self.checks(sha);
        for (index, check) in checks.iter().enumerate() {
            let state = check.passed.map_or("pending", |passed| if passed { "success" } else { "failure" });
            let job = if self.request.is_forgejo { index.to_string() } else { check.id.to_string() };
            let url = format!("{}/jobs/{job}", self.run_page(checks[0].id));
            listed.push(show(&check.name, state, &url, "Has been done"));
        }
        let page = self.page(&listed);
        let statuses: Vec<Value> = serde_json::from_slice(&page.body).unwrap();
        let (count, is_empty) = (statuses.len(), statuses.is_empty());
        let statuses = if is_empty { Value::Null } else { Value::Array(statuses) };
        let sha = if is_empty && self.request.is_forgejo { "" } else { sha };
        let state = if is_empty { "" } else { "pending" };
        let body = json!({"state": state, "sha": sha, "total_count": count, "statuses": statuses});
        let reply = Reply { headers: page.headers, ..Reply::json(200, &body) };
        if listed.is_empty() && self.request.is_forgejo { Reply::json(200, &body) } else { reply }
    }

    fn set_status(&mut self, sha: &str) -> Reply {
        if self.method() != Method::POST {
            return self.missing();
        }
        if !self.is_writer() {
            return error(403, "user should have a permission to write to a repo");
        }
        // The hash of a commit that does not exist too.
        if sha.len() != 40 || !sha.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return error(500, "");
        }
        let state = self.text("state");
        if !["pending", "success", "error", "failure", "warning"].contains(&state.as_str()) {
            return error(500, "");
        }
        let context = Some(self.text("context")).filter(|context| !context.is_empty());
        let status = Status {
            sha: sha.to_owned(),
            context: context.unwrap_or_else(|| "default".to_owned()),
            state: state.clone(),
            url: self.text("target_url"),
            description: self.text("description"),
        };
        let context = status.context.clone();
        self.stored().statuses.push(status);
        Reply::json(201, &json!({"id": 1, "status": state, "context": context}))
    }

    fn actions(&self, below: &[&str]) -> Reply {
        if self.method() != Method::GET {
            return self.missing();
        }
        match below {
            ["runs"] => self.runs(),
            ["runs", run, "jobs"] => self.jobs(run),
            ["jobs", job, "logs"] => {
                let job = self.found.checks.iter().find(|check| check.id.to_string() == *job && check.passed.is_some());
                job.map_or_else(|| self.missing(), |check| Reply::text(200, check.log.clone()))
            }
            _ => self.missing(),
        }
    }

    fn runs(&self) -> Reply {
        let checks = self.checks(self.request.call.parameter("head_sha").unwrap_or_default());
        let show = |first: &&Check| {
            let page = format!("{}{}", self.request.state.url, self.run_page(first.id));
            json!({"id": run_id(first.id), "head_sha": first.sha, "html_url": page})
        };
        let listed: Vec<Value> = checks.first().map(show).into_iter().collect();
        let page = self.page(&listed);
        let shown: Value = serde_json::from_slice(&page.body).unwrap();
        Reply::json(200, &json!({"workflow_runs": shown, "total_count": listed.len()}))
    }

    fn jobs(&self, run: &str) -> Reply {
        let first = self.found.checks.iter().find(|check| run_id(check.id).to_string() == run);
        let Some(first) = first else { return self.missing() };
        let page = format!("{}{}", self.request.state.url, self.run_page(first.id));
        let checks = self.checks(&first.sha);
        if self.request.is_forgejo {
            let jobs = checks.iter().map(|check| json!({"id": check.id, "name": check.name, "attempt": 1}));
            return Reply::json(200, &Value::Array(jobs.collect()));
        }
        let show = |check: &&Check| {
            let url = format!("{page}/jobs/{}", check.id);
            json!({"id": check.id, "name": check.name, "head_sha": check.sha, "html_url": url})
        };
        let page = self.page(&checks.iter().map(show).collect::<Vec<_>>());
        let shown: Value = serde_json::from_slice(&page.body).unwrap();
        Reply::json(200, &json!({"jobs": shown, "total_count": checks.len()}))
    }
}

/// Returns the ID of the run whose first job has an ID.
fn run_id(first: u64) -> u64 {
    90_000 + first
}
