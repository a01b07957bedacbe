//! The interface of GitHub Enterprise Server.

mod graph;
mod threads;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};

use super::state::{App, Check, LAST_LINE, Place, Pull, PullState, Repository, State, Status, Token, User};
use super::{Call, Reply};

fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"message": message, "documentation_url": "https://docs.example"}))
}

fn invalid(errors: Value) -> Reply {
    Reply::json(422, &json!({"message": "Validation Failed", "errors": errors}))
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let [api, v3, rest @ ..] = call.segments.as_slice() else { return error(404, "Not Found") };
    if api != "api" || (v3 != "v3" && v3 != "graphql") {
        return error(404, "Not Found");
    }
    if !call.headers.contains_key("user-agent") {
        return error(403, "Request forbidden by administrative rules.");
    }
    if v3 == "graphql" {
        return graph::graphql(state, call);
    }
    let parts: Vec<&str> = rest.iter().map(String::as_str).collect();
    if let (&Method::POST, ["app-manifests", code, "conversions"]) = (&call.method, parts.as_slice()) {
        return created_app(state, code);
    }
    if let ["app", ..] | ["repos", _, _, "installation"] = parts.as_slice() {
        return app(state, call, &parts);
    }
    let Some((user, token)) = state.signed_in(call.token().as_deref()) else { return error(401, "Bad credentials") };
    match (&call.method, parts.as_slice()) {
        (&Method::GET, ["user"]) => match token.expires_at {
            Some(at) => Reply::json(200, &show_user(&user)).header("github-authentication-token-expiration", at),
            None => Reply::json(200, &show_user(&user)),
        },
        (&Method::GET, ["users", name]) => match state.users.iter().find(|user| user.name == *name) {
            Some(user) => Reply::json(200, &show_user(user)),
            None => error(404, "Not Found"),
        },
        (_, ["repositories", id, below @ ..]) => match id.parse().ok().and_then(|id| state.by_id(id)) {
            Some(found) => {
                let path = found.path.clone();
                repository(state, call, &user, &token, &path, below)
            }
            None => error(404, "Not Found"),
        },
        (_, ["repos", owner, name, below @ ..]) => {
            let path = format!("{owner}/{name}");
            if let Some(found) = state.renamed(&path) {
                let named = if state.named.is_empty() { &state.url } else { &state.named };
                let target = format!("{named}/api/v3/repositories/{}", found.id);
                let query = call.target.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
                let target = below.iter().fold(target, |target, part| format!("{target}/{part}"));
                let status = if call.method == Method::GET { 301 } else { 307 };
                return error(status, "Moved Permanently").header("location", format!("{target}{query}"));
            }
            repository(state, call, &user, &token, &path, below)
        }
        _ => error(404, "Not Found"),
    }
}

/// Answers a request of the app itself.
fn app(state: &mut State, call: &Call, parts: &[&str]) -> Reply {
    let claims = call.token().and_then(|token| {
        let payload = token.split('.').nth(1)?;
        serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    });
    let Some(known) = state.app.clone() else { return error(401, "Integration not found") };
    let id = known.id.to_string();
    if claims.is_none_or(|claims| claims["iss"].as_str() != Some(&id)) {
        return error(401, "A JSON web token could not be decoded");
    }
    match (&call.method, parts) {
        (&Method::GET, ["app"]) => {
            let permissions = json!({
                "contents": "write", "pull_requests": "write", "issues": "write", "statuses": "write",
                "checks": "read", "actions": "read", "metadata": "read",
            });
            Reply::json(200, &json!({"id": known.id, "slug": known.slug, "permissions": permissions}))
        }
        (&Method::GET, ["app", "installations"]) => {
            let mut owners: Vec<&str> =
                state.repositories.iter().map(|one| one.path.split('/').next().unwrap()).collect();
            owners.sort_unstable();
            owners.dedup();
            owners.retain(|owner| !known.missing.iter().any(|missing| missing == owner));
            let suspended =
                |owner: &str| known.suspended.iter().any(|one| one == owner).then_some("2026-01-01T00:00:00Z");
            let show = |owner: &&str| {
                let account = json!({"login": owner});
                json!({
                    "id": 55, "account": account, "suspended_at": suspended(owner), "permissions": granted(&known),
                })
            };
            Reply::json(200, &owners.iter().map(show).collect())
        }
        (&Method::GET, ["repos", owner, name, "installation"]) => match state.by_path(&format!("{owner}/{name}")) {
            Some(_) if !known.missing.iter().any(|missing| missing == owner) => {
                let permissions = if known.grants_less { json!({}) } else { granted(&known) };
                let body = json!({"id": 55, "app_id": known.id, "suspended_at": null, "permissions": permissions});
                Reply::json(200, &body)
            }
            _ => error(404, "Not Found"),
        },
        (&Method::POST, ["app", "installations", "55", "access_tokens"]) => {
            let of_installation = granted(&known);
            let is_refused = |(name, level): (&String, &Value)| {
                let has = &of_installation[name];
                has.is_null() || (level == "write" && has != "write")
            };
            let asked = call.body["permissions"].as_object().cloned().unwrap_or_default();
            if !known.grants_less && asked.iter().any(is_refused) {
                return error(422, "The permissions requested are not granted to this installation.");
            }
            let name = call.body["repositories"][0].as_str().map(|name| format!("/{name}"));
            let id = call.body["repository_ids"][0].as_u64();
            let is_it = |one: &&Repository| {
                id == Some(one.id) || name.as_ref().is_some_and(|name| one.path.ends_with(name.as_str()))
            };
            let found = state.repositories.iter().find(is_it);
            let Some(id) = found.map(|repository| repository.id) else {
                return error(422, "There is at least one repository that does not exist or is not accessible.");
            };
            let app = state.app.as_mut().unwrap();
            app.issued += 1;
            let token = format!("ghs_{}.{}-{}", "x".repeat(480), id, app.issued);
            let user = state.users.iter().find(|user| user.name == format!("{}[bot]", known.slug)).unwrap().id;
            state
                .tokens
                .insert(token.clone(), Token { user, repository: Some(id), can_write: true, ..Token::default() });
            let granted = if known.grants_less { of_installation } else { Value::Object(asked) };
            Reply::json(201, &json!({"token": token, "expires_at": "2200-01-01T00:00:00Z", "permissions": granted}))
        }
        _ => error(404, "Not Found"),
    }
}

/// Returns the permissions that the installations of an app have.
fn granted(app: &App) -> Value {
    let mut granted = json!({
        "contents": "write", "pull_requests": "write", "issues": "write", "statuses": "write",
        "checks": "read", "actions": "read", "metadata": "read",
    });
    for name in &app.only_read {
        granted[*name] = "read".into();
    }
    if app.has_workflows {
        granted["workflows"] = "write".into();
    }
    granted
}

/// Answers the request for an app that was created from a manifest. The app is not installed on any repository.
fn created_app(state: &mut State, code: &str) -> Reply {
    let Some(webhook_secret) = state.manifest_codes.remove(code) else { return error(404, "Not Found") };
    let (id, slug) = (state.id(), "journeyman-test".to_owned());
    state.users.push(User { id: id + 1000, name: format!("{slug}[bot]"), is_bot: true });
    let missing = state.repositories.iter().map(|one| one.path.split('/').next().unwrap().to_owned()).collect();
    state.app = Some(App { id, slug: slug.clone(), missing, ..App::default() });
    let page = format!("{}/github-apps/{slug}", state.url);
    Reply::json(
        201,
        &json!({
            "id": id, "slug": slug, "html_url": page, "client_id": "Iv1.0", "client_secret": "unused",
            "webhook_secret": webhook_secret, "pem": super::rsa_key(),
        }),
    )
}

fn show_check(url: &str, repository: &Repository, check: &Check) -> Value {
    let conclusion = check.passed.map(|passed| if passed { "success" } else { "failure" });
    json!({
        "id": check.id,
        "name": check.name,
        "status": if check.passed.is_some() { "completed" } else { "in_progress" },
        "conclusion": conclusion,
        "html_url": format!("{url}/{}/runs/{}", repository.path, check.id),
    })
}

/// Answers with a page of the checks of a commit.
fn check_runs(url: &str, repository: &Repository, sha: &str, call: &Call) -> Reply {
    let number =
        |name: &str, otherwise: usize| call.parameter(name).and_then(|value| value.parse().ok()).unwrap_or(otherwise);
    let (size, page) = (number("per_page", 30).min(100), number("page", 1));
    let all: Vec<&Check> = repository.checks.iter().filter(|check| check.sha == sha).collect();
    let show = |check: &&Check| show_check_run(url, repository, check);
    let listed: Vec<Value> = all.iter().skip((page - 1) * size).take(size).map(show).collect();
    let reply = Reply::json(200, &json!({"total_count": all.len(), "check_runs": listed}));
    if all.len() <= page * size {
        return reply;
    }
    let path = format!("{url}/api/v3/repos/{}/commits/{sha}/check-runs", repository.path);
    reply.header("link", format!("<{path}?per_page={size}&page={}>; rel=\"next\"", page + 1))
}

/// Describes a check run, with what its app has written.
fn show_check_run(url: &str, repository: &Repository, check: &Check) -> Value {
    let mut shown = show_check(url, repository, check);
    let output = repository.outputs.get(&check.id).cloned().unwrap_or_default();
    if !output.conclusion.is_empty() {
        shown["conclusion"] = output.conclusion.into();
    }
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    shown["output"] = json!({
        "title": text(output.title),
        "summary": text(output.summary),
        "text": text(output.text),
        "annotations_count": output.annotations.len(),
        "annotations_url": format!("{url}/api/v3/repos/{}/check-runs/{}/annotations", repository.path, check.id),
    });
    shown["app"] = json!({"slug": if output.is_of_app { "linter" } else { "github-actions" }});
    shown
}

/// Returns the ID of the run of GitHub Actions for a commit.
fn run_id(sha: &str) -> u32 {
    sha.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

fn show_user(user: &User) -> Value {
    let kind = if user.is_bot { "Bot" } else { "User" };
    json!({"id": user.id, "login": user.name, "node_id": format!("U_{}", user.id), "type": kind})
}

fn show_pull(state: &State, repository: &Repository, pull: &Pull) -> Value {
    let ended = pull.state != PullState::Open;
    let merged_at = (pull.state == PullState::Merged).then_some("2026-01-01T00:00:00Z");
    let url = format!("{}/{}/pull/{}", state.url, repository.path, pull.number);
    let owner = repository.path.split('/').next().unwrap();
    let base = repository.branches.get(&pull.base).cloned().unwrap_or_default();
    json!({
        "number": pull.number,
        "node_id": format!("PR_{}_{}", repository.id, pull.number),
        "html_url": url,
        "state": if ended { "closed" } else { "open" },
        "draft": pull.draft,
        "title": pull.title,
        "body": pull.body,
        "merged_at": merged_at,
        "user": show_user(&state.user(pull.author)),
        "head": {
            "label": format!("{owner}:{}", pull.head),
            "ref": pull.head,
            "sha": repository.sha_of(pull),
            "repo": {"id": pull.fork.unwrap_or(repository.id)},
        },
        "base": {"ref": pull.base, "sha": base, "repo": {"id": repository.id}},
        "labels": pull.labels.iter().map(|label| json!({"name": label})).collect::<Vec<_>>(),
    })
}

/// Answers a request about a repository.
fn repository(state: &mut State, call: &Call, user: &User, token: &Token, path: &str, below: &[&str]) -> Reply {
    let url = state.url.clone();
    let users = state.users.clone();
    let Some(found) = state.by_path(path).map(|found| found.clone()) else { return error(404, "Not Found") };
    let may_see = token.repository.is_none_or(|id| id == found.id);
    if !may_see {
        return error(404, "Not Found");
    }
    let writes = call.method != Method::GET;
    if writes && found.is_archived {
        return error(403, "Repository was archived so is read-only.");
    }
    if writes && !token.can_write {
        return error(403, "Resource not accessible by personal access token");
    }
    let id = state.id();
    let show = |state: &State, pull: &Pull| show_pull(state, &found, pull);
    let page = |items: Vec<Value>| {
        let per = call.parameter("per_page").and_then(|text| text.parse().ok()).unwrap_or(30_usize);
        let at = call.parameter("page").and_then(|text| text.parse().ok()).unwrap_or(1_usize);
        let chosen: Vec<Value> = items.iter().skip((at - 1) * per).take(per).cloned().collect();
        let reply = Reply::json(200, &Value::Array(chosen));
        let base = call.target.split("&page=").next().unwrap();
        let last = items.len().div_ceil(per).max(1);
        let before = [(at - 1, "prev")].into_iter().filter(|_| at > 1);
        let after = [(at + 1, "next"), (last, "last")].into_iter().filter(|_| at < last);
        let link = |(page, relation)| format!("<{url}{base}&page={page}>; rel=\"{relation}\"");
        let links: Vec<String> = before.chain(after).map(link).collect();
        if links.is_empty() { reply } else { reply.header("link", links.join(", ")) }
    };
    let since = call.parameter("since").unwrap_or_default();
    let is_since = |item: &Value| item["updated_at"].as_str().unwrap_or_default() >= since;
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(
            200,
            &json!({
                "id": found.id,
                "full_name": found.path,
                "default_branch": "main",
                "archived": found.is_archived,
                "disabled": false,
                "permissions": {"pull": true, "push": token.can_write},
            }),
        ),
        (&Method::GET, ["pulls"]) => {
            // Without an owner, the filter is ignored.
            let head = call.parameter("head").and_then(|head| head.split_once(':')).map(|(_, head)| head.to_owned());
            let is_it = |pull: &&Pull| head.as_ref().is_none_or(|head| pull.head == *head);
            let open = call.parameter("state").unwrap_or("open") == "open";
            let listed = found.pulls.iter().rev().filter(is_it);
            let listed = listed.filter(|pull| !open || pull.state == PullState::Open);
            page(listed.map(|pull| show(state, pull)).collect())
        }
        (&Method::POST, ["pulls"]) => create_pull(state, call, user, &found),
        (method, ["pulls", number]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let Some(pull) = found.pulls.iter().find(|pull| pull.number == number) else {
                return error(404, "Not Found");
            };
            if *method != Method::PATCH {
                return Reply::json(200, &show(state, pull));
            }
            let mut changed = pull.clone();
            if let Some(title) = call.body["title"].as_str() {
                title.clone_into(&mut changed.title);
            }
            if let Some(body) = call.body["body"].as_str() {
                body.clone_into(&mut changed.body);
            }
            replace(state, path, changed.clone());
            Reply::json(200, &show(state, &changed))
        }
        (&Method::GET, ["pulls", number, "comments"]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let mut listed = Vec::new();
            for review in found.reviews.iter().filter(|review| review.pull == number) {
                for comment in &review.comments {
                    let show = |id: u64, review: u64, author: u64, body: &str| {
                        json!({
                            "id": id,
                            "pull_request_review_id": review,
                            "path": comment.path,
                            "line": comment.line,
                            "side": "RIGHT",
                            "subject_type": "line",
                            "diff_hunk": "@@ -1 +1,2 @@\n # Shop\n+more",
                            "user": show_user(&state.user(author)),
                            "body": body,
                            "updated_at": state.times.updated(id),
                            "html_url": format!("{url}/{}/pull/{number}#discussion_r{id}", found.path),
                        })
                    };
                    listed.push(show(comment.id, review.id, review.author, &comment.body));
                    for reply in found.thread(comment.id) {
                        // Each reply is in a review of its own, and answers the first comment.
                        let mut shown = show(reply.id, 1_000_000 + reply.id, reply.author, &reply.body);
                        shown["in_reply_to_id"] = comment.id.into();
                        listed.push(shown);
                    }
                }
            }
            page(listed.into_iter().filter(is_since).collect())
        }
        (&Method::POST, ["pulls", number, "reviews"]) => {
            let number: u64 = number.parse().unwrap_or_default();
            // Without an event, the review would be a draft.
            if call.body["event"] != "COMMENT" {
                return error(422, "the reviews of the service are comments");
            }
            let mut lines = Vec::new();
            for comment in call.body["comments"].as_array().into_iter().flatten() {
                let (line, side) = (comment["line"].as_u64().unwrap_or_default(), comment["side"].as_str());
                if !(1..=LAST_LINE).contains(&line) || !matches!(side, Some("LEFT" | "RIGHT")) {
                    return error(422, "Unprocessable Entity: Line could not be resolved");
                }
                let text = |name: &str| comment[name].as_str().unwrap_or_default().to_owned();
                lines.push((text("path"), line, text("body")));
            }
            let text = call.body["body"].as_str().unwrap_or_default();
            let review = state.add_review(path, number, user.id, text, lines);
            Reply::json(
                200,
                &json!({
                    "id": review,
                    "user": show_user(user),
                    "body": text,
                    "state": "COMMENTED",
                    "html_url": format!("{url}/{path}/pull/{number}#pullrequestreview-{review}"),
                    "submitted_at": "2026-01-01T00:00:00Z",
                    "commit_id": call.body["commit_id"],
                }),
            )
        }
        (&Method::POST, ["pulls", number, "comments", comment, "replies"]) => {
            threads::reply(state, call, user, &found, (number, comment))
        }
        (&Method::GET, ["pulls", number, "reviews", review]) => threads::review(state, &found, (number, review)),
        (&Method::PATCH, ["issues", "comments", comment]) => threads::edit(state, call, user, &found, comment),
        (&Method::POST, ["pulls", number, "requested_reviewers"]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let wanted = call.body["reviewers"].as_array().cloned().unwrap_or_default();
            for name in wanted.iter().filter_map(Value::as_str) {
                let known = users.iter().find(|user| user.name == name);
                if known.is_none_or(|user| !found.permissions.contains_key(&user.id)) {
                    return error(422, "Reviews may only be requested from collaborators.");
                }
            }
            let teams = call.body["team_reviewers"].as_array().cloned().unwrap_or_default();
            let pull = change(state, path, number);
            pull.reviewers.extend(wanted.iter().chain(&teams).filter_map(Value::as_str).map(str::to_owned));
            Reply::json(201, &json!({}))
        }
        (&Method::POST, ["issues", number, kind @ ("labels" | "assignees")]) => {
            let added = call.body[*kind].as_array().cloned().unwrap_or_default();
            let added = added.iter().filter_map(Value::as_str).map(str::to_owned);
            let pull = change(state, path, number.parse().unwrap_or_default());
            let list = if *kind == "labels" { &mut pull.labels } else { &mut pull.assignees };
            list.extend(added);
            if *kind == "labels" { Reply::json(200, &json!([])) } else { Reply::json(201, &json!({})) }
        }
        (method, ["issues", number, "comments"]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let is_pull = found.pulls.iter().any(|pull| pull.number == number);
            let place = if is_pull { Place::Pull(number) } else { Place::Issue(number) };
            let show = |id: u64, author: u64, body: &str| {
                let author = users.iter().find(|user| user.id == author).map(show_user);
                let url = format!("{url}/{}/pull/{number}#issuecomment-{id}", found.path);
                json!({"id": id, "user": author, "body": body, "html_url": url})
            };
            if *method == Method::POST {
                let body = call.body["body"].as_str().unwrap_or_default().to_owned();
                let id = state.add_comment(path, place, user.id, &body);
                return Reply::json(201, &show(id, user.id, &body));
            }
            let listed = found.comments.iter().filter(|comment| comment.place == place).map(|comment| {
                let mut shown = show(comment.id, comment.author, &comment.body);
                shown["updated_at"] = state.times.updated(comment.id).into();
                shown
            });
            page(listed.filter(is_since).collect())
        }
        (&Method::POST, ["issues", number, "reactions"]) => {
            let is_it = |known: u64| known.to_string() == *number;
            if !found.issues.iter().any(|issue| is_it(issue.number))
                && !found.pulls.iter().any(|pull| is_it(pull.number))
            {
                return error(404, "Not Found");
            }
            Reply::json(201, &json!({"id": id, "content": call.body["content"]}))
        }
        (&Method::POST, [group @ ("issues" | "pulls"), "comments", comment, "reactions"]) => {
            let comment: u64 = comment.parse().unwrap_or_default();
            let content = call.body["content"].as_str().unwrap_or_default().to_owned();
            let repository = state.by_path(path).unwrap();
            let reactions = if *group == "issues" {
                let found = repository.comments.iter_mut().find(|known| known.id == comment);
                found.map(|comment| &mut comment.reactions)
            } else {
                let mut all = repository.reviews.iter_mut().flat_map(|review| &mut review.comments);
                all.find(|known| known.id == comment).map(|comment| &mut comment.reactions)
            };
            let Some(reactions) = reactions else { return error(404, "Not Found") };
            let is_new = !reactions.contains(&content);
            if is_new {
                reactions.push(content.clone());
            }
            Reply::json(if is_new { 201 } else { 200 }, &json!({"id": id, "content": content}))
        }
        (&Method::GET, ["collaborators", name, "permission"]) => {
            let Some(known) = users.iter().find(|user| user.name == *name) else { return error(404, "Not Found") };
            if known.is_bot {
                return error(404, &format!("{name} is not a user"));
            }
            let permission = found.permissions.get(&known.id).copied().unwrap_or("none");
            Reply::json(200, &json!({"permission": permission, "role_name": permission, "user": show_user(known)}))
        }
        (&Method::GET, ["commits", sha, "check-runs"]) => {
            if token.is_fine_grained {
                return error(403, "Resource not accessible by personal access token");
            }
            check_runs(&url, &found, sha, call)
        }
        (&Method::GET, ["check-runs", id, below @ ..]) => {
            match (found.checks.iter().find(|check| check.id.to_string() == *id), below) {
                (Some(check), []) => Reply::json(200, &show_check_run(&url, &found, check)),
                (Some(check), ["annotations"]) => {
                    let annotations = found.outputs.get(&check.id).map(|output| output.annotations.clone());
                    Reply::json(200, &Value::Array(annotations.unwrap_or_default()))
                }
                _ => error(404, "Not Found"),
            }
        }
        (&Method::GET, ["actions", "runs"]) => {
            let sha = call.parameter("head_sha").unwrap_or_default();
            let has_run = found.checks.iter().any(|check| check.sha == sha);
            let mut listed = if has_run { vec![json!({"id": run_id(sha)})] } else { vec![] };
            listed.extend(found.waiting_workflows.iter().filter(|(commit, _)| commit == sha).map(|(_, name)| {
                let page = format!("{url}/{path}/actions/runs/1");
                json!({"id": 1, "name": name, "status": "completed", "conclusion": "action_required", "html_url": page})
            }));
            Reply::json(200, &json!({"total_count": listed.len(), "workflow_runs": listed}))
        }
        (&Method::GET, ["actions", "runs", run, "jobs"]) => {
            let of_run = found.checks.iter().filter(|check| run_id(&check.sha).to_string() == *run);
            let listed: Vec<Value> = of_run.map(|check| show_check(&url, &found, check)).collect();
            Reply::json(200, &json!({"total_count": listed.len(), "jobs": listed}))
        }
        (&Method::GET, ["commits", sha, "status"]) => {
            let mut latest: Vec<&Status> = Vec::new();
            for status in found.statuses.iter().rev().filter(|status| status.sha == *sha) {
                if !latest.iter().any(|known| known.context == status.context) {
                    latest.push(status);
                }
            }
            let listed: Vec<Value> = latest
                .iter()
                .map(|status| {
                    json!({
                        "context": status.context,
                        "state": status.state,
                        "description": status.description,
                        "target_url": status.url,
                    })
                })
                .collect();
            Reply::json(200, &json!({"state": "pending", "total_count": listed.len(), "statuses": listed}))
        }
        (&Method::POST, ["statuses", sha]) => {
            let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
            if text("description").chars().count() > 140 {
                return invalid(json!([{"message": "description is too long (maximum is 140 characters)"}]));
            }
            let status = Status {
                sha: (*sha).to_owned(),
                context: text("context"),
                state: text("state"),
                url: text("target_url"),
                description: text("description"),
                pipeline: 0,
            };
            state.by_path(path).unwrap().statuses.push(status);
            Reply::json(201, &json!({"id": id}))
        }
        (&Method::GET, ["actions", "jobs", job, "logs"]) => {
            let job: u64 = job.parse().unwrap_or_default();
            if found.checks.iter().any(|check| check.id == job && check.passed.is_some()) {
                let target = format!("{}/logs/{job}", url.replace("127.0.0.1", "localhost"));
                return Reply::text(302, "").header("location", target);
            }
            error(404, "Not Found")
        }
        _ => error(404, "Not Found"),
    }
}

fn create_pull(state: &mut State, call: &Call, user: &User, found: &Repository) -> Reply {
    let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
    let (head, base) = (text("head"), text("base"));
    for (field, branch) in [("head", &head), ("base", &base)] {
        if !found.branches.contains_key(branch) {
            return invalid(json!([{"resource": "PullRequest", "field": field, "code": "invalid"}]));
        }
    }
    if text("body").chars().count() > 65_536 {
        return invalid(json!([{"message": "body is too long (maximum is 65536 characters)"}]));
    }
    if found.branches[&head] == found.branches[&base] {
        let message = format!("No commits between {base} and {head}");
        return invalid(json!([{"resource": "PullRequest", "code": "custom", "message": message}]));
    }
    if found.pulls.iter().any(|pull| pull.head == head && pull.base == base && pull.state == PullState::Open) {
        let message = format!("A pull request already exists for acme:{head}.");
        return invalid(json!([{"resource": "PullRequest", "code": "custom", "message": message}]));
    }
    let pull = Pull {
        number: found.next_number(),
        draft: call.body["draft"] == true,
        title: text("title"),
        body: text("body"),
        head,
        base,
        author: user.id,
        ..Pull::default()
    };
    state.by_id(found.id).unwrap().pulls.push(pull.clone());
    Reply::json(201, &show_pull(state, found, &pull))
}

fn change<'a>(state: &'a mut State, path: &str, number: u64) -> &'a mut Pull {
    state.by_path(path).unwrap().pulls.iter_mut().find(|pull| pull.number == number).unwrap()
}

fn replace(state: &mut State, path: &str, pull: Pull) {
    let number = pull.number;
    *change(state, path, number) = pull;
}
