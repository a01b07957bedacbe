//! Pull requests.

use http::Method;
use serde_json::{Value, json};

use super::super::state::{Pull, PullState, Repository, State, User};
use super::super::{ApiRequest, Reply};
use super::answers::{Kind, below, custom, error, filled, invalid, page, refused_body, text, times};
use super::repository::{api, show_minimal};
use super::users::{association, may_push, show_owner, show_user};
use super::{located, merging};

/// Answers a request for the list of pull requests, or for one of them.
pub(super) fn answer(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, parts: &[&str]) -> Reply {
    match (&call.method, parts) {
        (&Method::GET, []) => list(state, call, found),
        (&Method::POST, []) => create(state, call, user, found),
        (method, [number, rest @ ..]) => {
            let Some(pull) = by_number(found, number) else { return error(404, "Not Found") };
            match (method, rest) {
                (&Method::GET, []) => {
                    let shown = show(state, found, pull);
                    merging::test(state, found.id, pull.number);
                    Reply::json(200, &shown)
                }
                (&Method::PATCH, []) => update(state, call, user, found, pull),
                (&Method::POST, ["requested_reviewers"]) => request_reviews(state, call, found, pull),
                _ => super::reviews::answer(state, call, user, found, pull, rest),
            }
        }
        _ => error(404, "Not Found"),
    }
}

/// Finds a pull request by the number in a path.
pub(super) fn by_number<'a>(found: &'a Repository, number: &str) -> Option<&'a Pull> {
    let number: u64 = number.parse().ok()?;
    found.pulls.iter().find(|pull| pull.number == number)
}

/// Returns the owner of the branch of a pull request.
fn head_owner(state: &State, found: &Repository, pull: &Pull) -> String {
    let fork = pull.fork.map(|id| state.repositories.iter().find(|one| one.id == id).map(|one| one.owner().to_owned()));
    // The forks of other people are not among the repositories.
    fork.map_or_else(|| found.owner().to_owned(), |owner| owner.unwrap_or_else(|| "contributor".to_owned()))
}

/// Answers operation `pulls/list`. The newest ones come first unless the request sorts otherwise; a filter for heads
/// without an owner is ignored.
fn list(state: &State, call: &ApiRequest, found: &Repository) -> Reply {
    let is_it = |pull: &&Pull| {
        let is_state = match call.parameter("state").unwrap_or("open") {
            "all" => true,
            "closed" => pull.state != PullState::Open,
            _ => pull.state == PullState::Open,
        };
        let head = call.parameter("head").and_then(|head| head.split_once(':'));
        is_state
            && call.parameter("base").is_none_or(|base| pull.base == base)
            && head.is_none_or(|(owner, branch)| {
                pull.head == branch && head_owner(state, found, pull).eq_ignore_ascii_case(owner)
            })
    };
    let mut listed: Vec<Value> = found.pulls.iter().filter(is_it).map(|pull| show_simple(state, found, pull)).collect();
    let sort = call.parameter("sort").unwrap_or("created");
    let key = if sort == "updated" { "updated_at" } else { "created_at" };
    listed.sort_by_key(|pull| (pull[key].as_str().map(str::to_owned), pull["number"].as_u64()));
    let default = if sort == "created" { "desc" } else { "asc" };
    if call.parameter("direction").unwrap_or(default) == "desc" {
        listed.reverse();
    }
    page(state, call, &below(found, "pulls"), listed)
}

/// Returns the refusal of a title or a description.
fn refused_texts(call: &ApiRequest) -> Option<Reply> {
    if call.body["title"].as_str().is_some_and(|title| title.trim().is_empty()) {
        return Some(invalid(json!([{"resource": "Issue", "field": "title", "code": "missing_field"}])));
    }
    for (name, maximum) in [("title", 256), ("body", 65_536)] {
        if text(&call.body, name).chars().count() > maximum {
            return Some(custom("Issue", name, &format!("{name} is too long (maximum is {maximum} characters)")));
        }
    }
    None
}

/// Answers operation `pulls/create`.
fn create(state: &mut State, call: &ApiRequest, user: &User, found: &Repository) -> Reply {
    let kinds = [
        ("title", Kind::Text),
        ("head", Kind::Text),
        ("base", Kind::Text),
        ("body", Kind::Text),
        ("draft", Kind::Boolean),
        ("maintainer_can_modify", Kind::Boolean),
    ];
    if let Some(reply) = refused_body(call, &["head", "base"], &kinds) {
        return reply;
    }
    if call.body["title"].is_null() {
        return invalid(json!([{"resource": "Issue", "field": "title", "code": "missing_field"}]));
    }
    if let Some(reply) = refused_texts(call) {
        return reply;
    }
    let (head, base) = (text(&call.body, "head"), text(&call.body, "base"));
    let head = match head.split_once(':') {
        Some((owner, branch)) if owner.eq_ignore_ascii_case(found.owner()) => branch,
        _ => head,
    };
    for (field, branch) in [("head", head), ("base", base)] {
        if !found.branches.contains_key(branch) {
            return invalid(json!([{"resource": "PullRequest", "field": field, "code": "invalid"}]));
        }
    }
    let refused = |message: String| invalid(json!([{"resource": "PullRequest", "code": "custom", "message": message}]));
    if found.github.ahead(&found.branches[head], &found.branches[base]).is_empty() {
        return refused(format!("No commits between {base} and {head}"));
    }
    let is_same = |pull: &Pull| pull.head == head && pull.base == base && pull.fork.is_none();
    if found.pulls.iter().any(|pull| is_same(pull) && pull.state == PullState::Open) {
        return refused(format!("A pull request already exists for {}:{head}.", found.owner()));
    }
    let pull = Pull {
        number: found.next_number(),
        draft: call.body["draft"] == true,
        title: text(&call.body, "title").to_owned(),
        body: text(&call.body, "body").to_owned(),
        head: head.to_owned(),
        base: base.to_owned(),
        author: user.id,
        ..Pull::default()
    };
    state.by_id(found.id).unwrap().pulls.push(pull.clone());
    let shown = show(state, found, &pull);
    merging::test(state, found.id, pull.number);
    located(201, &shown)
}

/// Answers operation `pulls/update`. Authors and people who may push change pull requests; merged ones stay closed.
fn update(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, pull: &Pull) -> Reply {
    let kinds = [
        ("title", Kind::Text),
        ("body", Kind::Text),
        ("base", Kind::Text),
        ("state", Kind::Choice(&["open", "closed"])),
        ("maintainer_can_modify", Kind::Boolean),
    ];
    if let Some(reply) = refused_body(call, &[], &kinds).or_else(|| refused_texts(call)) {
        return reply;
    }
    if pull.author != user.id && !user.is_bot && !may_push(found, user.id) {
        return error(403, "Must have push access to repository");
    }
    let mut changed = pull.clone();
    changed.version += 1;
    for (name, field) in [("title", &mut changed.title), ("body", &mut changed.body), ("base", &mut changed.base)] {
        match &call.body[name] {
            Value::String(value) => field.clone_from(value),
            Value::Null if name == "body" && call.body.get(name).is_some() => field.clear(),
            _ => {}
        }
    }
    if !found.branches.contains_key(&changed.base) {
        return invalid(json!([{"resource": "PullRequest", "field": "base", "code": "invalid"}]));
    }
    match (call.body["state"].as_str(), pull.state) {
        (Some("closed"), PullState::Open) => {
            changed.ended_sha = Some(found.sha_of(pull));
            changed.state = PullState::Closed;
        }
        (Some("open"), PullState::Closed) if found.branches.contains_key(&pull.head) => {
            changed.ended_sha = None;
            changed.state = PullState::Open;
        }
        (Some("open"), PullState::Merged | PullState::Closed) => {
            return custom("PullRequest", "state", "state cannot be changed.");
        }
        _ => {}
    }
    *change(state, found, pull.number) = changed.clone();
    let shown = show(state, found, &changed);
    merging::test(state, found.id, pull.number);
    Reply::json(200, &shown)
}

/// Returns a pull request to change it.
pub(super) fn change<'a>(state: &'a mut State, found: &Repository, number: u64) -> &'a mut Pull {
    let pulls = &mut state.by_id(found.id).unwrap().pulls;
    pulls.iter_mut().find(|pull| pull.number == number).unwrap()
}

/// Answers operation `pulls/request-reviewers`: all of them must be collaborators, and not the author.
fn request_reviews(state: &mut State, call: &ApiRequest, found: &Repository, pull: &Pull) -> Reply {
    if let Some(reply) = refused_body(call, &[], &[("reviewers", Kind::List), ("team_reviewers", Kind::List)]) {
        return reply;
    }
    let names = |name: &str| {
        let all = call.body[name].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
    };
    let mut wanted = Vec::new();
    for name in names("reviewers") {
        let known = state.users.iter().find(|user| user.name.eq_ignore_ascii_case(&name));
        if known.is_some_and(|user| user.id == pull.author) {
            return error(422, "Review cannot be requested from pull request author.");
        }
        match known.filter(|user| found.permissions.contains_key(&user.id)) {
            Some(user) => wanted.push(user.name.clone()),
            None => {
                let text = "Reviews may only be requested from collaborators. One or more of the users or teams you \
                            specified is not a collaborator of the";
                return error(422, &format!("{text} {} repository.", found.path));
            }
        }
    }
    wanted.extend(names("team_reviewers"));
    let pull = change(state, found, pull.number);
    wanted.retain(|name| !pull.reviewers.contains(name));
    pull.reviewers.extend(wanted);
    let pull = pull.clone();
    Reply::json(201, &show_simple(state, found, &pull))
}

/// Describes a label (schema `label`).
pub(super) fn show_label(state: &State, found: &Repository, name: &str) -> Value {
    let url = format!("{}/labels/{name}", api(state, found));
    let id = found.labels.iter().position(|known| known == name).map_or(1, |at| at + 2);
    json!({
        "id": id, "node_id": format!("LA_{id}"), "url": url, "name": name, "description": "", "color": "ededed",
        "default": false,
    })
}

/// Describes a pull request as in lists (schema `pull-request-simple`).
pub(super) fn show_simple(state: &State, found: &Repository, pull: &Pull) -> Value {
    let (api, number) = (api(state, found), pull.number);
    let (url, issue) = (format!("{api}/pulls/{number}"), format!("{api}/issues/{number}"));
    let page = format!("{}/{}/pull/{number}", state.url, found.path);
    let (created, updated) = times(state, &format!("{}/{number}", found.id));
    let (head, base) = (found.sha_of(pull), found.branches.get(&pull.base).cloned().unwrap_or_default());
    let ended = (pull.state != PullState::Open).then_some(&updated);
    let is_merged = pull.state == PullState::Merged;
    let users: Vec<Value> = people(state, pull.reviewers.iter());
    let is_team = |name: &&String| !state.users.iter().any(|user| user.name == **name);
    let teams = pull.reviewers.iter().filter(is_team).map(|slug| show_team(state, slug));
    let assignees = people(state, pull.assignees.iter());
    let owner = head_owner(state, found, pull);
    let fork = pull.fork.map(|id| state.repositories.iter().find(|one| one.id == id));
    let head_repository = match fork {
        None => show_minimal(state, found),
        Some(Some(fork)) => show_minimal(state, fork),
        Some(None) => {
            let path = format!("{owner}/{}", found.name());
            let fork = Repository { id: pull.fork.unwrap_or_default(), path, ..Repository::default() };
            show_minimal(state, &fork)
        }
    };
    let links = json!({
        "self": {"href": url}, "html": {"href": page}, "issue": {"href": issue},
        "comments": {"href": format!("{issue}/comments")},
        "review_comments": {"href": format!("{url}/comments")},
        "review_comment": {"href": format!("{api}/pulls/comments{{/number}}")},
        "commits": {"href": format!("{url}/commits")},
        "statuses": {"href": format!("{api}/statuses/{head}")},
    });
    let auto_merge = found.auto_merges.contains(&number).then(|| {
        json!({
            "enabled_by": show_user(state, pull.author), "merge_method": "squash", "commit_title": null,
            "commit_message": null,
        })
    });
    json!({
        "url": url, "id": found.id * 100_000 + number, "node_id": format!("PR_{}_{number}", found.id),
        "html_url": page, "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"),
        "issue_url": issue, "commits_url": format!("{url}/commits"),
        "review_comments_url": format!("{url}/comments"),
        "review_comment_url": format!("{api}/pulls/comments{{/number}}"),
        "comments_url": format!("{issue}/comments"), "statuses_url": format!("{api}/statuses/{head}"),
        "number": number, "state": if ended.is_some() { "closed" } else { "open" }, "locked": false,
        "title": pull.title, "user": show_user(state, pull.author), "body": filled(&pull.body),
        "labels": pull.labels.iter().map(|label| show_label(state, found, label)).collect::<Vec<_>>(),
        "milestone": null, "active_lock_reason": null, "created_at": created, "updated_at": updated,
        "closed_at": ended, "merged_at": ended.filter(|_| is_merged),
        "merge_commit_sha": is_merged.then_some(&base), "assignee": assignees.first(), "assignees": assignees,
        "requested_reviewers": users, "requested_teams": teams.collect::<Vec<_>>(),
        "head": {
            "label": format!("{owner}:{}", pull.head), "ref": pull.head, "sha": head,
            "user": show_owner(state, &owner), "repo": head_repository,
        },
        "base": {
            "label": format!("{}:{}", found.owner(), pull.base), "ref": pull.base, "sha": base,
            "user": show_owner(state, found.owner()), "repo": show_minimal(state, found),
        },
        "_links": links, "author_association": association(found, pull.author), "auto_merge": auto_merge,
        "draft": pull.draft,
    })
}

/// Describes users by their names.
fn people<'a>(state: &State, names: impl Iterator<Item = &'a String>) -> Vec<Value> {
    let found = names.filter_map(|name| state.users.iter().find(|user| user.name == *name));
    found.map(|user| show_user(state, user.id)).collect()
}

fn show_team(state: &State, slug: &str) -> Value {
    let url = format!("{}/api/v3/organizations/9001/team/1", state.url);
    json!({
        "id": 1, "node_id": "T_1", "name": slug, "slug": slug, "description": null, "privacy": "closed",
        "notification_setting": "notifications_enabled", "url": url, "permission": "pull", "parent": null,
        "html_url": format!("{}/orgs/acme/teams/{slug}", state.url), "members_url": format!("{url}/members{{/member}}"),
        "repositories_url": format!("{url}/repos"),
    })
}

/// Describes a pull request (schema `pull-request`). While GitHub finds out whether it can be merged, `mergeable` is
/// `null` and `mergeable_state` is `unknown`.
pub(super) fn show(state: &State, found: &Repository, pull: &Pull) -> Value {
    let mut shown = show_simple(state, found, pull);
    for team in shown["requested_teams"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        team.remove("parent");
    }
    let (mergeable, status) = merging::shown(found, pull);
    let is_merged = pull.state == PullState::Merged;
    let mergeable = match mergeable.as_str() {
        "MERGEABLE" if !is_merged => Some(true),
        "CONFLICTING" if !is_merged => Some(false),
        _ => None,
    };
    let of_pull = found.reviews.iter().filter(|review| review.pull == pull.number);
    let lines: Vec<u64> = of_pull.flat_map(|review| &review.comments).map(|line| line.id).collect();
    let replies: usize = lines.iter().map(|line| found.thread(*line).len()).sum();
    let base = found.branches.get(&pull.base).map_or("", String::as_str);
    let commits = found.github.ahead(&found.sha_of(pull), base).len();
    let comments =
        found.comments.iter().filter(|one| one.target == super::super::CommentedOn::Pull(pull.number)).count();
    if mergeable == Some(true) {
        // The commit that tries the merge is in no branch.
        let tried: String = found.sha_of(pull).chars().rev().collect();
        shown["merge_commit_sha"] = tried.into();
    }
    let more = json!({
        "merged": is_merged, "mergeable": mergeable, "rebaseable": mergeable,
        "mergeable_state": status.to_lowercase(),
        "merged_by": if is_merged { show_user(state, pull.author) } else { Value::Null },
        "comments": comments, "review_comments": lines.len() + replies, "maintainer_can_modify": false,
        "commits": commits, "additions": commits, "deletions": 0, "changed_files": commits,
    });
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    shown
}
