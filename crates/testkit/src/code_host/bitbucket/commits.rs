//! Commits: their statuses and pipelines.

use http::Method;
use serde_json::{Value, json};

use super::answers::{TIME, error, id_of, invalid, page, required, show_user_of, uuid};
use super::filter::filtered;
use super::sender::Sender;
use crate::code_host::state::{Check, Repository, State, Status};
use crate::code_host::{ApiRequest, Reply};

/// Finds a commit by its hash, of which the first characters are enough. The state knows the newest commits of branches
/// only; a full hash may be that of another commit.
pub(super) fn full_hash(found: &Repository, hash: &str) -> Option<String> {
    let ended = found.pulls.iter().filter_map(|pull| pull.ended_sha.as_ref());
    let mut known = found.branches.values().chain(ended);
    let is_full = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let full = known.find(|full| hash.len() >= 7 && full.starts_with(hash)).cloned();
    full.or_else(|| is_full.then(|| hash.to_owned()))
}

/// Answers a request about a commit.
pub(super) fn commits(
    state: &mut State,
    call: &ApiRequest,
    sender: &Sender,
    found: &Repository,
    (commit, below): (&str, &[&str]),
) -> Reply {
    let Some(sha) = full_hash(found, commit) else { return error(404, &format!("Commit not found: {commit}")) };
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(200, &json!({"type": "commit", "hash": sha})),
        (&Method::GET, ["statuses"]) => {
            let listed = found.statuses.iter().filter(|status| status.sha == sha);
            let mut listed: Vec<Value> = listed.map(|status| show_status(state, found, status)).collect();
            listed.extend(pipeline_of(found, &sha).map(|number| pipeline_status(state, found, &sha, number)));
            // GET …/statuses: "Defaults to `created_on`", oldest first.
            let fields = ["created_on", "updated_on", "key", "name", "state", "refname"];
            filtered(call, listed, &fields).map_or_else(|refusal| refusal, |listed| page(state, call, 100, &listed))
        }
        (&Method::GET, ["statuses", "build", key]) => {
            match found.statuses.iter().find(|status| status.sha == sha && status.context == *key) {
                Some(status) => Reply::json(200, &show_status(state, found, status)),
                None => error(404, "Build status not found"),
            }
        }
        (&Method::POST, ["statuses", "build"]) => set_status(state, call, sender, found, &sha),
        _ => error(404, "Resource not found"),
    }
}

/// Shows a status with its creator (developer.atlassian.com/cloud/bitbucket/bitbucket-api-changes-commit-status).
fn show_status(state: &State, found: &Repository, status: &Status) -> Value {
    let author = found.status_authors.get(&(status.sha.clone(), status.context.clone()));
    json!({
        "type": "build",
        "key": status.context,
        "name": status.context,
        "state": status.state,
        "url": status.url,
        "description": status.description,
        "refname": null,
        "author": author.map(|author| show_user_of(state, *author)),
        "created_on": TIME,
        "updated_on": TIME,
    })
}

/// Sets a build status. Reading the repository is enough. A status with the same key is overwritten, by its creator or an
/// administrator only (the same page).
fn set_status(state: &mut State, call: &ApiRequest, sender: &Sender, found: &Repository, sha: &str) -> Reply {
    let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
    let (key, name, url, description) = (text("key"), text("state"), text("url"), text("description"));
    for field in ["key", "state", "url"] {
        if text(field).is_empty() {
            return required(field);
        }
    }
    // No limit is described. The message for keys is in github.com/buildbot/buildbot/issues/7049; 255 characters for names in
    // github.com/jenkinsci/bitbucket-branch-source-plugin/pull/928; the limit of descriptions is unconfirmed.
    for (field, limit) in [("key", 40), ("name", 255), ("description", 255)] {
        let length = text(field).chars().count();
        if length > limit {
            return invalid(field, &[format!("Ensure this value has at most {limit} characters (it has {length}).")]);
        }
    }
    if !["INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED"].contains(&name.as_str()) {
        return invalid("state", &[format!("{name} is not a valid choice")]);
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return invalid("url", &["Enter a valid URL.".to_owned()]);
    }
    let status = Status { sha: sha.to_owned(), context: key, state: name, url, description, pipeline: 0 };
    let known = (status.sha.clone(), status.context.clone());
    let stored = state.by_id(found.id).unwrap();
    let index = stored.statuses.iter().position(|one| one.sha == status.sha && one.context == status.context);
    let is_own = stored.status_authors.get(&known) == Some(&sender.user.id);
    if index.is_some() && !is_own && found.permissions.get(&sender.user.id) != Some(&"admin") {
        // The status of the answer is unconfirmed.
        return error(403, "Only the creator of a build status may change it.");
    }
    match index {
        Some(index) => stored.statuses[index] = status.clone(),
        None => stored.statuses.push(status.clone()),
    }
    stored.status_authors.entry(known).or_insert(sender.user.id);
    let stored = stored.clone();
    Reply::json(201, &show_status(state, &stored, &status))
}

/// Returns the commits with checks, in the order of their pipelines. The checks of a commit are the steps of its
/// pipeline.
pub(super) fn commits_with_pipelines(found: &Repository) -> Vec<&str> {
    let mut commits: Vec<&str> = Vec::new();
    for check in &found.checks {
        if !commits.contains(&check.sha.as_str()) {
            commits.push(&check.sha);
        }
    }
    commits
}

/// Returns the number of the pipeline of a commit, from 1.
pub(super) fn pipeline_of(found: &Repository, sha: &str) -> Option<usize> {
    commits_with_pipelines(found).iter().position(|known| *known == sha).map(|index| index + 1)
}

/// Returns the state of a pipeline; `None` while it runs, otherwise whether it succeeded.
pub(super) fn passed(found: &Repository, sha: &str) -> Option<bool> {
    let mut steps = found.checks.iter().filter(|check| check.sha == sha).map(|check| check.passed);
    steps.try_fold(true, |all, passed| passed.map(|passed| all && passed))
}

/// Returns the build status that a pipeline sets.
pub(super) fn pipeline_status(state: &State, found: &Repository, sha: &str, number: usize) -> Value {
    let passed = passed(found, sha);
    json!({
        "type": "build",
        "key": (3_343_800 + number).to_string(),
        "name": format!("Pipeline #{number} for main"),
        "state": passed.map_or("INPROGRESS", |passed| if passed { "SUCCESSFUL" } else { "FAILED" }),
        "url": format!("{}/{}/addon/pipelines/home#!/results/{number}", state.url, found.path),
        "description": "",
        "refname": "main",
        "created_on": TIME,
        "updated_on": TIME,
    })
}

/// Shows the state of a pipeline or of a step; the types of the states begin with that of their object.
fn run_state(kind: &str, passed: Option<bool>) -> Value {
    let Some(passed) = passed else {
        let mut state = json!({"type": format!("{kind}_state_in_progress"), "name": "IN_PROGRESS"});
        if kind == "pipeline" {
            state["stage"] = json!({"type": "pipeline_state_in_progress_running", "name": "RUNNING"});
        }
        return state;
    };
    let name = if passed { "SUCCESSFUL" } else { "FAILED" };
    let result = json!({"type": format!("{kind}_state_completed_{}", name.to_lowercase()), "name": name});
    json!({"type": format!("{kind}_state_completed"), "name": "COMPLETED", "result": result})
}

/// Answers a request about pipelines. The UUID of a pipeline is its number.
pub(super) fn pipelines(state: &State, call: &ApiRequest, found: &Repository, below: &[&str]) -> Reply {
    let commits = commits_with_pipelines(found);
    let sha_of = |pipeline: &str| Some(*commits.get(usize::try_from(id_of(pipeline)?).ok()?.checked_sub(1)?)?);
    match below {
        [] => {
            let wanted = call.parameter("target.commit.hash");
            let numbered = commits.iter().zip(1_u64..).filter(|(sha, _)| wanted.is_none_or(|wanted| wanted == **sha));
            let show = |(sha, number): (&&str, u64)| {
                json!({
                    "type": "pipeline",
                    "uuid": uuid(number),
                    "build_number": number,
                    "state": run_state("pipeline", passed(found, sha)),
                    "target": {
                        "type": "pipeline_ref_target", "ref_type": "branch", "ref_name": "main",
                        "commit": {"type": "commit", "hash": sha},
                    },
                    "created_on": TIME,
                })
            };
            let mut listed: Vec<Value> = numbered.map(show).collect();
            match call.parameter("sort") {
                None | Some("created_on" | "run_creation_date") => {}
                Some("-created_on" | "-run_creation_date") => listed.reverse(),
                Some(_) => return error(400, "Invalid sort field"),
            }
            page(state, call, 100, &listed)
        }
        [pipeline, "steps"] => {
            let Some(sha) = sha_of(pipeline) else { return error(404, "Pipeline not found") };
            let show = |check: &Check| {
                let state = run_state("pipeline_step", check.passed);
                json!({"type": "pipeline_step", "uuid": uuid(check.id), "name": check.name, "state": state})
            };
            let listed: Vec<Value> = found.checks.iter().filter(|check| check.sha == sha).map(show).collect();
            page(state, call, 100, &listed)
        }
        [pipeline, "steps", step, "log"] => {
            let is_it = |check: &&Check| Some(check.sha.as_str()) == sha_of(pipeline) && uuid(check.id) == *step;
            match found.checks.iter().find(is_it) {
                Some(check) if check.passed.is_none() => Reply::text(200, check.log.clone()),
                Some(check) => {
                    let target = format!("{}/logs/{}", state.url.replace("127.0.0.1", "localhost"), check.id);
                    Reply::text(307, "").header("location", target)
                }
                None => error(404, "Log not found"),
            }
        }
        _ => error(404, "Resource not found"),
    }
}
