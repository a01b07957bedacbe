//! The interface of Bitbucket Data Center, version 9, from Atlassian's description of the REST interface of version 9.2
//! (developer.atlassian.com/server/bitbucket/rest/v905). Names of exceptions are those of the Java documentation. Answers
//! of the product that no document confirms are marked with "unconfirmed".

mod answers;
mod builds;
mod comments;
mod pulls;
mod request;

use http::Method;
use serde_json::json;
use url::form_urlencoded;

use self::answers::{
    email_of, error, invalid, not_permitted, page, parts_of, show_repository, show_user, slug_of, unknown,
};
use self::builds::{build, builds, set_build};
use self::comments::react;
use self::pulls::{create_pull, in_pull, list_pulls};
use self::request::{Request, level, level_in, level_of};
use super::state::{Repository, State, Token, User};
use super::{ApiRequest, Reply};

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &ApiRequest) -> Reply {
    let authorization = call.headers.get("authorization").and_then(|value| value.to_str().ok());
    let Some(authorization) = authorization else { return anonymous(call) };
    let Some((user, token)) = state.signed_in(authorization.strip_prefix("Bearer ")) else {
        let text = "Authentication failed. Please check your credentials and try again.";
        return error(401, "auth.IncorrectPasswordAuthenticationException", text);
    };
    let name: String = form_urlencoded::byte_serialize(user.name.as_bytes()).collect();
    let is_json = call.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let reply = if call.method != Method::GET && !is_json {
        Reply::text(403, "XSRF check failed")
    } else {
        signed_in(state, call, &user, &token)
    };
    reply.header("x-ausername", name)
}

/// Answers a request without a token.
fn anonymous(call: &ApiRequest) -> Reply {
    match parts(call).as_slice() {
        ["rest", "api", "latest" | "1.0", "application-properties"] => properties(),
        _ => not_permitted(),
    }
}

fn parts(call: &ApiRequest) -> Vec<&str> {
    call.segments.iter().map(String::as_str).collect()
}

fn properties() -> Reply {
    let build = "1725321600000";
    Reply::json(
        200,
        &json!({"version": "9.2.0", "buildNumber": "9002000", "buildDate": build, "displayName": "Bitbucket"}),
    )
}

fn signed_in(state: &mut State, call: &ApiRequest, user: &User, token: &Token) -> Reply {
    let parts = parts(call);
    let ["rest", module, "latest" | "1.0", below @ ..] = parts.as_slice() else { return unknown() };
    match (*module, &call.method, below) {
        ("api", &Method::GET, ["application-properties"]) => properties(),
        ("api", &Method::GET, ["users"]) => users(state, call),
        ("api", &Method::GET, ["users", slug]) => match state.users.iter().find(|user| slug_of(user) == *slug) {
            Some(user) => Reply::json(200, &show_user(user)),
            None => error(404, "user.NoSuchUserException", &format!("There is no user with the slug {slug}.")),
        },
        ("api", &Method::GET, ["repos"]) => repositories(state, call, user, token),
        ("build-status", &Method::GET, ["commits", sha]) => builds(state, call, user, token, sha),
        ("api" | "comment-likes", _, ["projects", project, "repos", slug, below @ ..]) => {
            let repository = match find(state, user, token, project, slug) {
                Ok(repository) => repository,
                Err(reply) => return reply,
            };
            // A token with the permission to read only pulls and clones ("HTTP access tokens" in the documentation). Build
            // statuses need REPO_READ.
            if call.method != Method::GET && !token.can_write && !matches!(below, ["commits", _, "builds"]) {
                return not_permitted();
            }
            let request = Request { call, user, token, repository };
            if *module == "api" { in_repository(state, &request, below) } else { react(state, &request, below) }
        }
        _ => unknown(),
    }
}

/// Finds a repository. Its earlier paths find it too, since version 5; whether the product redirects instead is
/// unconfirmed.
fn find(state: &mut State, user: &User, token: &Token, project: &str, slug: &str) -> Result<Repository, Reply> {
    let path = format!("{project}/{slug}");
    let path = state.renamed(&path).map_or(path, |repository| repository.path.clone());
    let is_in_project = |repository: &Repository| parts_of(repository).0.eq_ignore_ascii_case(project);
    if let Some(repository) = state.by_path(&path) {
        return if level(repository, user, token) == 0 { Err(not_permitted()) } else { Ok(repository.clone()) };
    }
    Err(if state.repositories.iter().any(is_in_project) {
        let text = format!("Repository {project}/{slug} does not exist.");
        error(404, "repository.NoSuchRepositoryException", &text)
    } else {
        error(404, "project.NoSuchProjectException", &format!("Project {project} does not exist."))
    })
}

/// Lists users, whose names or addresses contain the filter and who have the permissions. Unknown parameters are ignored.
fn users(state: &mut State, call: &ApiRequest) -> Reply {
    let filter = call.parameter("filter").unwrap_or_default().to_lowercase();
    let mut found: Vec<User> = state.users.clone();
    found.retain(|user| user.name.to_lowercase().contains(&filter) || email_of(user).contains(&filter));
    // "permission", and "permission.N" with consecutive numbers from 1 (GET /api/latest/users).
    let has = |root: &String| call.parameter(root).is_some();
    let numbered = (1..).map(|number| format!("permission.{number}")).take_while(has);
    let mut roots: Vec<String> = ["permission".to_owned()].into_iter().filter(has).chain(numbered).collect();
    if state.ignores_permissions {
        roots.clear();
    }
    for root in roots {
        let wanted = call.parameter(&root).unwrap_or_default();
        let below = |name: &str| call.parameter(&format!("{root}.{name}")).map(str::to_owned);
        if wanted == "LICENSED_USER" {
            continue;
        }
        let (Some(project), Some(slug)) = (below("projectKey"), below("repositorySlug")) else {
            return invalid(&root, "The repository of the permission must be specified.");
        };
        let Some(repository) = state.by_path(&format!("{project}/{slug}")).filter(|_| level_of(wanted) > 0) else {
            return invalid(&root, "The permission filter is invalid.");
        };
        found.retain(|user| level_in(repository, user.id) >= level_of(wanted));
    }
    page(call, &found.iter().map(show_user).collect::<Vec<_>>())
}

/// Lists the repositories on which the user has a permission.
fn repositories(state: &State, call: &ApiRequest, user: &User, token: &Token) -> Reply {
    let wanted = level_of(call.parameter("permission").unwrap_or("REPO_READ"));
    if wanted == 0 {
        return invalid("permission", "The permission is invalid.");
    }
    let has_name = |repository: &&Repository| {
        call.parameter("name").is_none_or(|name| parts_of(repository).1.eq_ignore_ascii_case(name.trim()))
    };
    // GET /api/latest/repos: "This filter defaults to ACTIVE when not set".
    let is_wanted = |repository: &&Repository| match call.parameter("archived").unwrap_or("ACTIVE") {
        "ALL" => true,
        other => repository.is_archived == (other == "ARCHIVED"),
    };
    let has_key = |repository: &&Repository| {
        call.parameter("projectkey").is_none_or(|key| parts_of(repository).0.eq_ignore_ascii_case(key.trim()))
    };
    let listed = state.repositories.iter().filter(has_name).filter(is_wanted).filter(has_key);
    let listed = listed.filter(|repository| level(repository, user, token) >= wanted);
    page(call, &listed.map(show_repository).collect::<Vec<_>>())
}

/// Answers a request about a repository.
fn in_repository(state: &mut State, request: &Request<'_>, below: &[&str]) -> Reply {
    let Request { call, repository, .. } = request;
    if call.method != Method::GET && repository.is_archived && below.first() == Some(&"pull-requests") {
        let text = format!("The repository {} is archived.", repository.path);
        return error(409, "repository.RepositoryArchivedException", &text);
    }
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_repository(repository)),
        (&Method::GET, ["default-branch"]) if repository.branches.is_empty() => {
            let text = format!("main is the default branch of {}, but this branch does not exist.", repository.path);
            error(404, "repository.NoDefaultBranchException", &text)
        }
        (&Method::GET, ["default-branch"]) => {
            Reply::json(200, &json!({"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}))
        }
        (&Method::GET, ["commits", sha, "builds"]) => build(repository, call, sha),
        (&Method::POST, ["commits", sha, "builds"]) => set_build(state, request, sha),
        (&Method::GET, ["pull-requests"]) => list_pulls(state, request),
        (&Method::POST, ["pull-requests"]) => create_pull(state, request),
        (_, ["pull-requests", number, below @ ..]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let Some(pull) = repository.pulls.iter().find(|pull| pull.number == number) else {
                let text = format!("Pull request {number} does not exist in {}.", repository.path);
                return error(404, "pull.NoSuchPullRequestException", &text);
            };
            in_pull(state, request, pull, below)
        }
        _ => unknown(),
    }
}
