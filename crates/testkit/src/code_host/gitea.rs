//! The interface of Gitea (1.27) and Forgejo (16). The repositories are private. On Gitea, they belong to a user, and on
//! Forgejo to an organization.

mod checks;
mod discussion;
mod pulls;

use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::state::{Repository, State, User};
use super::{ApiRequest, Reply};

/// The reactions that the settings of a server permit.
const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"];

/// A request of a signed-in user.
struct Request<'a> {
    state: &'a mut State,
    call: &'a ApiRequest,
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
pub(super) fn answer(state: &mut State, call: &ApiRequest, is_forgejo: bool) -> Reply {
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
            return Reply::text(301, "").header("location", format!("{}{target}", self.state.named));
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
            ["pulls", "comments", comment, "resolve"] => at.resolve(comment.parse().unwrap_or_default()),
            ["pulls", rest @ ..] => at.pulls(rest),
            ["issues", "comments", comment, "reactions"] => at.react(comment.parse().ok()),
            ["issues", "comments", comment] if at.request.call.method == Method::PATCH => {
                at.edit_comment(comment.parse().unwrap_or_default())
            }
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
        let last = items.len().div_ceil(limit).max(1);
        // The address in the settings of the server may differ from the one that clients use. The rest of the query stays
        // (`genAPILinks` in services/context/api.go of Gitea).
        let path = call.target.split('?').next().unwrap();
        let link = |page: usize, name: &str| {
            let kept = call.query.iter().filter(|(name, _)| name != "page");
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(kept)
                .append_pair("page", &page.to_string())
                .finish();
            format!("<https://public.example{path}?{query}>; rel=\"{name}\"")
        };
        let mut links = Vec::new();
        if at < last {
            links.extend([link(at + 1, "next"), link(last, "last")]);
        }
        if at > 1 {
            links.extend([link(1, "first"), link(at - 1, "prev")]);
        }
        if links.is_empty() { reply } else { reply.header("link", links.join(",")) }
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
                "default_merge_style": "squash",
            }),
        )
    }

    fn branch(&self, name: &str) -> Reply {
        match self.found.branches.get(name) {
            Some(sha) if self.method() == Method::GET => {
                let is_protected = self.found.has_requirements && name == "main";
                let shown = json!({
                    "name": name, "commit": {"id": sha}, "protected": is_protected, "required_approvals": 0,
                    "enable_status_check": is_protected,
                });
                Reply::json(200, &shown)
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

/// Permissions.
impl At<'_> {
    /// Lists the users who may push.
    fn assignees(&self) -> Reply {
        let users = self.request.state.users.iter().filter(|user| can_push(&self.found, user.id));
        Reply::json(200, &Value::Array(users.map(show_user).collect()))
    }

    fn teams(&self) -> Reply {
        if self.request.state.hides_teams {
            return error(404, "404 page not found");
        }
        if !self.request.is_forgejo {
            return error(405, "repo is not owned by an organization");
        }
        let team = |name: &str, permission: &str| {
            let units = json!({"repo.code": permission, "repo.pulls": permission, "repo.wiki": "read"});
            json!({"id": 1, "name": name, "permission": permission, "units_map": units})
        };
        let mut teams = vec![team("Owners", "owner"), team("developers", "write")];
        if self.request.state.has_issue_team {
            let units = json!({"repo.code": "none", "repo.issues": "write"});
            teams.push(json!({"id": 2, "name": "triage", "permission": "none", "units_map": units}));
        }
        Reply::json(200, &json!(teams))
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
