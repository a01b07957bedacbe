//! Issues, which pull requests are too, and their conversations.

use http::Method;
use serde_json::{Value, json};

use super::super::stamp::issue_key;
use super::super::state::{Comment, CommentedOn, Issue, Pull, Repository, State, User};
use super::super::{ApiRequest, Reply};
use super::answers::{Kind, below, error, filled, invalid, is_since, page, refused_body, sorted_comments, text, times};
use super::located;
use super::pulls::{by_number, show_label};
use super::records::Subject;
use super::repository::api;
use super::users::{association, may_push, show_user};

/// An issue or a pull request.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Issue(&'a Issue),
    Pull(&'a Pull),
}

impl Entry<'_> {
    fn number(&self) -> u64 {
        match self {
            Self::Issue(issue) => issue.number,
            Self::Pull(pull) => pull.number,
        }
    }

    fn labels(&self) -> &[String] {
        match self {
            Self::Issue(issue) => &issue.labels,
            Self::Pull(pull) => &pull.labels,
        }
    }

    fn target(&self) -> CommentedOn {
        match self {
            Self::Issue(issue) => CommentedOn::Issue(issue.number),
            Self::Pull(pull) => CommentedOn::Pull(pull.number),
        }
    }

    /// Returns the times at which it was created and changed.
    fn times(&self, state: &State, found: &Repository) -> (String, String) {
        match self {
            Self::Issue(issue) => times(state, &issue_key(found, issue.number)),
            Self::Pull(pull) => times(state, &format!("{}/{}", found.id, pull.number)),
        }
    }
}

fn entry<'a>(found: &'a Repository, number: &str) -> Option<Entry<'a>> {
    let issue = found.issues.iter().find(|issue| issue.number.to_string() == number);
    let pull = || by_number(found, number).map(Entry::Pull);
    issue.filter(|_| !found.has_no_issues).map(Entry::Issue).or_else(pull)
}

/// Answers a request below `issues`.
pub(super) fn answer(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, parts: &[&str]) -> Reply {
    let rest = format!("issues/{}", parts.join("/"));
    match (&call.method, parts) {
        (&Method::GET, []) => list(state, call, found),
        (&Method::GET, ["comments"]) => {
            let listed = found.comments.iter().map(|comment| show_comment(state, found, comment));
            let listed = listed.filter(|comment| is_since(call, comment)).collect();
            page(state, call, &below(found, &rest), sorted_comments(call, listed))
        }
        (&Method::PATCH, ["comments", comment]) => edit(state, call, user, found, comment),
        (&Method::POST, ["comments", comment, "reactions"]) => {
            let subject = Subject::Comment(comment.parse().unwrap_or_default());
            super::reactions::answer(state, call, user, found, subject)
        }
        (method, [number, rest_of @ ..]) => {
            let Some(entry) = entry(found, number) else {
                let is_disabled = found.has_no_issues;
                return if is_disabled { disabled() } else { error(404, "Not Found") };
            };
            match (method, rest_of) {
                (&Method::GET, []) => Reply::json(200, &show(state, found, entry)),
                (&Method::GET, ["comments"]) => {
                    let of_entry = found.comments.iter().filter(|comment| comment.target == entry.target());
                    let listed = of_entry.map(|comment| show_comment(state, found, comment));
                    let mut listed: Vec<Value> = listed.filter(|comment| is_since(call, comment)).collect();
                    listed.sort_by_key(|comment| comment["id"].as_u64());
                    page(state, call, &below(found, &rest), listed)
                }
                (&Method::POST, ["comments"]) => comment(state, call, user, found, entry),
                (&Method::GET, ["events"]) => page(state, call, &below(found, &rest), events(state, found, entry)),
                (&Method::POST, ["labels"]) => add_labels(state, call, found, entry),
                (&Method::POST, ["assignees"]) => add_assignees(state, call, user, found, entry),
                (&Method::POST, ["reactions"]) => {
                    super::reactions::answer(state, call, user, found, Subject::Issue(entry.number()))
                }
                _ => error(404, "Not Found"),
            }
        }
        _ => error(404, "Not Found"),
    }
}

fn disabled() -> Reply {
    error(410, "Issues are disabled for this repo")
}

/// Answers operation `issues/list-for-repo`: without parameters the open ones, the newest one first.
fn list(state: &State, call: &ApiRequest, found: &Repository) -> Reply {
    if found.has_no_issues {
        return disabled();
    }
    let entries = found.pulls.iter().map(Entry::Pull).chain(found.issues.iter().map(Entry::Issue));
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|one| one[key].as_str().map(str::to_owned)).collect()
    };
    let is_it = |shown: &Value| {
        let wanted = call.parameter("state").unwrap_or("open");
        let (labels, assignees) = (names(&shown["labels"], "name"), names(&shown["assignees"], "login"));
        (wanted == "all" || shown["state"] == wanted)
            && is_since(call, shown)
            && call.parameter("creator").is_none_or(|creator| shown["user"]["login"] == creator)
            && call.parameter("labels").is_none_or(|all| all.split(',').all(|one| labels.iter().any(|l| l == one)))
            && call.parameter("assignee").is_none_or(|wanted| match wanted {
                "*" => !assignees.is_empty(),
                "none" => assignees.is_empty(),
                name => assignees.iter().any(|one| one == name),
            })
    };
    let mut listed: Vec<Value> = entries.map(|entry| show(state, found, entry)).filter(is_it).collect();
    let key = match call.parameter("sort") {
        Some("updated") => "updated_at",
        Some("comments") => "comments",
        _ => "created_at",
    };
    let rank = |shown: &Value| (shown[key].as_u64(), shown[key].as_str().map(str::to_owned), shown["number"].as_u64());
    listed.sort_by_key(rank);
    if call.parameter("direction") != Some("asc") {
        listed.reverse();
    }
    page(state, call, &below(found, "issues"), listed)
}

/// Describes an issue or a pull request (schema `issue`).
fn show(state: &State, found: &Repository, entry: Entry<'_>) -> Value {
    let number = entry.number();
    let (created, updated) = entry.times(state, found);
    let api = api(state, found);
    let url = format!("{api}/issues/{number}");
    let comments = found.comments.iter().filter(|comment| comment.target == entry.target()).count();
    let labels: Vec<Value> = entry.labels().iter().map(|name| show_label(state, found, name)).collect();
    let mut shown = json!({
        "id": found.id * 100_000 + 50_000 + number, "node_id": format!("I_{}_{number}", found.id), "url": url,
        "repository_url": api, "labels_url": format!("{url}/labels{{/name}}"),
        "comments_url": format!("{url}/comments"), "events_url": format!("{url}/events"), "number": number,
        "labels": labels, "milestone": null, "locked": false, "active_lock_reason": null, "comments": comments,
        "created_at": created, "updated_at": updated, "closed_at": null, "state_reason": null,
        "timeline_url": format!("{url}/timeline"), "performed_via_github_app": null,
    });
    let (title, body, author, assignees) = match entry {
        Entry::Issue(issue) => {
            shown["state"] = "open".into();
            shown["html_url"] = format!("{}/{}/issues/{number}", state.url, found.path).into();
            (&issue.title, &issue.body, issue.author, Vec::new())
        }
        Entry::Pull(pull) => {
            let of_pull = super::pulls::show_simple(state, found, pull);
            let names = ["node_id", "html_url", "state", "closed_at", "draft"];
            for name in names {
                shown[name] = of_pull[name].clone();
            }
            let mut link = json!({});
            for name in ["url", "html_url", "diff_url", "patch_url", "merged_at"] {
                link[name] = of_pull[name].clone();
            }
            shown["pull_request"] = link;
            let assignees = of_pull["assignees"].as_array().cloned().unwrap_or_default();
            (&pull.title, &pull.body, pull.author, assignees)
        }
    };
    shown["title"] = title.as_str().into();
    shown["body"] = filled(body).into();
    shown["user"] = show_user(state, author);
    shown["author_association"] = association(found, author).into();
    shown["assignee"] = assignees.first().cloned().into();
    shown["assignees"] = assignees.into();
    shown
}

/// Describes a comment (schema `issue-comment`).
fn show_comment(state: &State, found: &Repository, comment: &Comment) -> Value {
    let (kind, number) = match comment.target {
        CommentedOn::Pull(number) => ("pull", number),
        CommentedOn::Issue(number) => ("issues", number),
    };
    let (created, updated) = times(state, &format!("comment/{}", comment.id));
    let (id, api) = (comment.id, api(state, found));
    json!({
        "id": id, "node_id": format!("IC_{id}"), "url": format!("{api}/issues/comments/{id}"), "body": comment.body,
        "html_url": format!("{}/{}/{kind}/{number}#issuecomment-{id}", state.url, found.path),
        "user": show_user(state, comment.author), "created_at": created, "updated_at": updated,
        "issue_url": format!("{api}/issues/{number}"), "author_association": association(found, comment.author),
        "performed_via_github_app": null,
    })
}

/// Returns the refusal of the text of a comment.
fn refused_text(call: &ApiRequest) -> Option<Reply> {
    if let Some(reply) = refused_body(call, &["body"], &[("body", Kind::Text)]) {
        return Some(reply);
    }
    let body = text(&call.body, "body");
    let message = match () {
        () if body.trim().is_empty() => "Body cannot be blank",
        () if body.chars().count() > 65_536 => "Body is too long (maximum is 65536 characters)",
        () => return None,
    };
    let fault = json!({"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": message});
    Some(invalid(json!([fault])))
}

/// Answers operation `issues/create-comment`.
fn comment(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, entry: Entry<'_>) -> Reply {
    if let Some(reply) = refused_text(call) {
        return reply;
    }
    let id = state.add_comment(&found.path, entry.target(), user.id, text(&call.body, "body"));
    let comment = state.by_id(found.id).unwrap().comments.iter().find(|known| known.id == id).cloned().unwrap();
    let shown = show_comment(state, found, &comment);
    located(201, &shown)
}

/// Answers operation `issues/update-comment`. Only the author, and people who may push, change a comment.
fn edit(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, id: &str) -> Reply {
    let Some(known) = found.comments.iter().find(|known| known.id.to_string() == id) else {
        return error(404, "Not Found");
    };
    if known.author != user.id && !user.is_bot && !may_push(found, user.id) {
        return error(403, "Must have push access to repository");
    }
    if let Some(reply) = refused_text(call) {
        return reply;
    }
    let body = text(&call.body, "body");
    state.by_id(found.id).unwrap().edit(known.id, known.author, body);
    let changed = Comment { body: body.to_owned(), ..known.clone() };
    Reply::json(200, &show_comment(state, found, &changed))
}

/// Returns the events of an issue, oldest first: that labels were added.
fn events(state: &State, found: &Repository, entry: Entry<'_>) -> Vec<Value> {
    let at = entry.times(state, found).1;
    let show = |(index, label): (usize, &String)| {
        let id = found.id * 1_000_000 + entry.number() * 100 + index as u64;
        json!({
            "id": id, "node_id": format!("LE_{id}"), "url": format!("{}/issues/events/{id}", api(state, found)),
            "actor": show_user(state, state.labeler), "event": "labeled", "commit_id": null, "commit_url": null,
            "created_at": at, "label": {"name": label, "color": "ededed"}, "performed_via_github_app": null,
        })
    };
    entry.labels().iter().enumerate().map(show).collect()
}

/// Answers operation `issues/add-labels`, whose body is an object or a list of names. Labels that do not exist are
/// created. The answer has all labels of the issue.
fn add_labels(state: &mut State, call: &ApiRequest, found: &Repository, entry: Entry<'_>) -> Reply {
    let list = call.body["labels"].as_array().or(call.body.as_array());
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return error(422, "Invalid request.\n\nNo subschema in \"oneOf\" matched.");
    };
    let names: Vec<String> =
        list.iter().filter_map(|one| one.as_str().or(one["name"].as_str()).map(str::to_owned)).collect();
    let repository = state.by_id(found.id).unwrap();
    let labels = match entry {
        Entry::Issue(known) => {
            repository.issues.iter_mut().find(|one| one.number == known.number).map(|one| &mut one.labels)
        }
        Entry::Pull(known) => {
            repository.pulls.iter_mut().find(|one| one.number == known.number).map(|one| &mut one.labels)
        }
    };
    let labels = labels.unwrap();
    for name in names {
        if !labels.contains(&name) {
            labels.push(name.clone());
        }
        if !repository.labels.contains(&name) {
            repository.labels.push(name);
        }
    }
    let labels = labels.clone();
    Reply::json(200, &labels.iter().map(|name| show_label(state, found, name)).collect())
}

/// Answers operation `issues/add-assignees`: at most 10, without those who have no access. Without push access, nobody
/// is assigned, and that is no error.
fn add_assignees(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, entry: Entry<'_>) -> Reply {
    if let Some(reply) = refused_body(call, &[], &[("assignees", Kind::List)]) {
        return reply;
    }
    let list = call.body["assignees"].as_array().cloned().unwrap_or_default();
    let names = list.iter().filter_map(|one| one.as_str().or(one["login"].as_str()));
    let known = |name: &str| {
        let is_it = |user: &&User| user.name.eq_ignore_ascii_case(name) && found.permissions.contains_key(&user.id);
        state.users.iter().find(is_it).map(|user| user.name.clone())
    };
    let added: Vec<String> = names.filter_map(known).collect();
    let Entry::Pull(pull) = entry else { return Reply::json(201, &show(state, found, entry)) };
    let changed = super::pulls::change(state, found, pull.number);
    if user.is_bot || may_push(found, user.id) {
        for name in added {
            if !changed.assignees.contains(&name) && changed.assignees.len() < 10 {
                changed.assignees.push(name);
            }
        }
    }
    let changed = changed.clone();
    Reply::json(201, &show(state, found, Entry::Pull(&changed)))
}
