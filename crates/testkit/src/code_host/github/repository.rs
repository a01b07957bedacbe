//! The description of a repository.

use serde_json::{Value, json};

use super::super::state::{Repository, State, Token, User};
use super::super::{ApiRequest, Reply};
use super::answers::{AT, error, named};
use super::users::{permissions, role, show_owner};

/// Answers a request to an earlier path of a repository; `None` for other requests. Page "Best practices for using the
/// REST API", section "Follow redirects": 301 is permanent, and 307 keeps the method.
pub(super) fn moved(state: &State, call: &ApiRequest, path: &str, below: &[&str]) -> Option<Reply> {
    let found = state.renamed(path)?;
    let target = format!("{}/api/v3/repositories/{}", named(state), found.id);
    let query = call.target.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
    let target = below.iter().fold(target, |target, part| format!("{target}/{part}")) + &query;
    let (status, message) = match call.method {
        http::Method::GET => (301, "Moved Permanently"),
        _ => (307, "Temporary Redirect"),
    };
    let body = json!({
        "message": message, "url": target,
        "documentation_url": "https://docs.github.com/enterprise-server@3.19/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
    });
    Some(Reply::json(status, &body).header("location", target))
}

/// Answers operation `repos/get`.
pub(super) fn show(state: &State, found: &Repository, user: &User, token: &Token) -> Reply {
    let mut shown = show_minimal(state, found);
    let mut permissions = permissions(if user.is_bot { "write" } else { role(found, user.id) });
    if !token.can_write {
        // What tokens of apps show here is not documented.
        for name in ["push", "maintain", "admin"] {
            permissions[name] = false.into();
        }
    }
    shown["permissions"] = permissions;
    shown["subscribers_count"] = 0.into();
    shown["network_count"] = 0.into();
    if user.is_bot || token.can_write {
        // Settings of merges need the permissions to read and to write contents.
        shown["allow_auto_merge"] = (!found.forbids_auto_merge).into();
        shown["allow_squash_merge"] = true.into();
        shown["allow_merge_commit"] = false.into();
        shown["allow_rebase_merge"] = false.into();
    }
    Reply::json(200, &shown)
}

/// Describes a repository (schema `minimal-repository`, with the fields of `repository`).
pub(super) fn show_minimal(state: &State, found: &Repository) -> Value {
    let api = api(state, found);
    let page = format!("{}/{}", state.url, found.path);
    let mut shown = json!({
        "id": found.id, "node_id": format!("R_{}", found.id), "name": found.name(), "full_name": found.path,
        "owner": show_owner(state, found.owner()), "private": true, "visibility": "private", "html_url": page,
        "description": null, "fork": false, "url": api, "git_url": format!("git:{page}.git"),
        "ssh_url": format!("git@localhost:{}.git", found.path), "clone_url": format!("{page}.git"), "svn_url": page,
        "mirror_url": null, "homepage": null, "language": null, "license": null, "default_branch": "main",
        "has_issues": !found.has_no_issues, "has_projects": false, "has_wiki": false, "has_pages": false,
        "has_discussions": false, "archived": found.is_archived, "disabled": false, "pushed_at": AT, "created_at": AT,
        "updated_at": AT,
    });
    for name in ["forks", "stargazers", "watchers", "open_issues"] {
        shown[format!("{name}_count")] = 0.into();
    }
    for name in ["forks", "watchers", "open_issues", "size"] {
        shown[name] = 0.into();
    }
    for (name, rest) in URLS {
        shown[format!("{name}_url")] = format!("{api}/{rest}").into();
    }
    shown
}

/// The addresses of the parts of a repository.
const URLS: [(&str, &str); 36] = [
    ("archive", "{archive_format}{/ref}"),
    ("assignees", "assignees{/user}"),
    ("blobs", "git/blobs{/sha}"),
    ("branches", "branches{/branch}"),
    ("collaborators", "collaborators{/collaborator}"),
    ("comments", "comments{/number}"),
    ("commits", "commits{/sha}"),
    ("compare", "compare/{base}...{head}"),
    ("contents", "contents/{+path}"),
    ("contributors", "contributors"),
    ("deployments", "deployments"),
    ("downloads", "downloads"),
    ("events", "events"),
    ("forks", "forks"),
    ("git_commits", "git/commits{/sha}"),
    ("git_refs", "git/refs{/sha}"),
    ("git_tags", "git/tags{/sha}"),
    ("hooks", "hooks"),
    ("issue_comment", "issues/comments{/number}"),
    ("issue_events", "issues/events{/number}"),
    ("issues", "issues{/number}"),
    ("keys", "keys{/key_id}"),
    ("labels", "labels{/name}"),
    ("languages", "languages"),
    ("merges", "merges"),
    ("milestones", "milestones{/number}"),
    ("notifications", "notifications{?since,all,participating}"),
    ("pulls", "pulls{/number}"),
    ("releases", "releases{/id}"),
    ("stargazers", "stargazers"),
    ("statuses", "statuses/{sha}"),
    ("subscribers", "subscribers"),
    ("subscription", "subscription"),
    ("tags", "tags"),
    ("teams", "teams"),
    ("trees", "git/trees{/sha}"),
];

/// Returns the address of a repository in the interface.
pub(super) fn api(state: &State, found: &Repository) -> String {
    format!("{}/api/v3/repos/{}", state.url, found.path)
}

/// Returns the commit that a branch or a commit names.
pub(super) fn commit(found: &Repository, reference: &str) -> Option<String> {
    let name = reference.strip_prefix("heads/").unwrap_or(reference);
    if let Some(sha) = found.branches.get(name) {
        return Some(sha.clone());
    }
    is_commit(found, reference).then(|| reference.to_owned())
}

/// Returns whether a repository has a commit. Commits of pull requests stay when their branches are deleted.
pub(super) fn is_commit(found: &Repository, sha: &str) -> bool {
    found.github.commits.contains_key(sha)
        || found.branches.values().any(|known| known == sha)
        || found.pulls.iter().any(|pull| pull.ended_sha.as_deref() == Some(sha))
        || found.checks.iter().any(|check| check.sha == sha)
        || found.statuses.iter().any(|status| status.sha == sha)
        || found.waiting_workflows.iter().any(|(known, _)| known == sha)
}

/// Returns the refusal of a commit that a repository does not have.
pub(super) fn no_commit(sha: &str) -> Reply {
    error(422, &format!("No commit found for SHA: {sha}"))
}
