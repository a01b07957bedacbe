//! Check runs, and the runs, jobs and logs of GitHub Actions. A check of GitHub Actions is a job; its check suite belongs
//! to one run of a workflow. A commit can have several suites, of GitHub Actions and of other apps.

use serde_json::{Value, json};

use super::super::state::{Check, Output, PullState, Repository, State};
use super::super::{ApiRequest, Reply};
use super::answers::{AT, below, counted, error, filled, page};
use super::repository::{api, commit, no_commit, show_minimal};
use super::users::{show_owner, show_user};

/// What the ID of a run of a workflow adds to that of its check suite.
const OF_RUN: u64 = 20_000_000_000;

/// What the ID of the check suite of an app adds to that of GitHub Actions for the same commit.
const OF_APP: u64 = 5_000_000_000;

fn output(found: &Repository, check: &Check) -> Output {
    found.outputs.get(&check.id).cloned().unwrap_or_default()
}

/// Returns the conclusion of a check; `None` while it runs.
pub(super) fn conclusion(found: &Repository, check: &Check) -> Option<String> {
    let set = output(found, check).conclusion;
    let passed = check.passed.map(|passed| if passed { "success" } else { "failure" }.to_owned());
    if set.is_empty() { passed } else { Some(set) }
}

/// Returns the ID of the check suite of a check.
fn suite(found: &Repository, check: &Check) -> u64 {
    let of_commit = of_commit(&check.sha) + if output(found, check).is_of_app { OF_APP } else { 0 };
    found.github.suites.get(&check.id).copied().unwrap_or(of_commit)
}

/// Returns a number for a commit.
fn of_commit(sha: &str) -> u64 {
    sha.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Returns the checks that are the most recent ones with their names in their suites.
fn latest<'a>(found: &Repository, checks: Vec<&'a Check>) -> Vec<&'a Check> {
    let is_newer = |one: &Check, than: &Check| {
        one.name == than.name && one.id > than.id && suite(found, one) == suite(found, than)
    };
    checks.iter().filter(|check| !checks.iter().any(|other| is_newer(other, check))).copied().collect()
}

/// Answers operation `checks/list-for-ref`.
pub(super) fn list(state: &State, call: &ApiRequest, found: &Repository, reference: &str) -> Reply {
    let Some(sha) = commit(found, reference) else { return no_commit(reference) };
    let mut checks: Vec<&Check> = found.checks.iter().filter(|check| check.sha == sha).collect();
    if call.parameter("filter") != Some("all") {
        checks = latest(found, checks);
    }
    checks.sort_by_key(|check| std::cmp::Reverse(check.id));
    let shown = checks.into_iter().map(|check| show(state, found, check));
    let is = |value: &Value, parameter: &str| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        call.parameter(parameter).is_none_or(|wanted| wanted == text)
    };
    let is_it = |shown: &Value| {
        is(&shown["name"], "check_name") && is(&shown["status"], "status") && is(&shown["app"]["id"], "app_id")
    };
    let listed = shown.filter(is_it).collect();
    counted(state, call, &below(found, &format!("commits/{reference}/check-runs")), "check_runs", listed)
}

/// Answers the operations `checks/get` and `checks/list-annotations`.
pub(super) fn one(state: &State, call: &ApiRequest, found: &Repository, id: &str, parts: &[&str]) -> Reply {
    match (found.checks.iter().find(|check| check.id.to_string() == id), parts) {
        (Some(check), []) => Reply::json(200, &show(state, found, check)),
        (Some(check), ["annotations"]) => {
            let annotations = output(found, check).annotations;
            page(state, call, &below(found, &format!("check-runs/{id}/annotations")), annotations)
        }
        _ => error(404, "Not Found"),
    }
}

/// Describes a check run (schema `check-run`), with what its app has written.
fn show(state: &State, found: &Repository, check: &Check) -> Value {
    let (api, output) = (api(state, found), output(found, check));
    let conclusion = conclusion(found, check);
    let url = format!("{api}/check-runs/{}", check.id);
    let page = format!("{}/{}/runs/{}", state.url, found.path, check.id);
    let of_commit = found.pulls.iter().filter(|pull| pull.state == PullState::Open && found.sha_of(pull) == check.sha);
    let repository = json!({"id": found.id, "url": api, "name": found.name()});
    let pulls: Vec<Value> = of_commit
        .map(|pull| {
            json!({
                "id": found.id * 100_000 + pull.number, "number": pull.number,
                "url": format!("{api}/pulls/{}", pull.number),
                "head": {"ref": pull.head, "sha": check.sha, "repo": repository},
                "base": {"ref": pull.base, "sha": found.branches.get(&pull.base), "repo": repository},
            })
        })
        .collect();
    json!({
        "id": check.id, "node_id": format!("CR_{}", check.id), "head_sha": check.sha, "external_id": "", "url": url,
        "html_url": page, "details_url": page, "name": check.name,
        "status": if conclusion.is_some() { "completed" } else { "in_progress" },
        "started_at": AT, "completed_at": conclusion.is_some().then_some(AT), "conclusion": conclusion,
        "output": {
            "title": filled(&output.title), "summary": filled(&output.summary), "text": filled(&output.text),
            "annotations_count": output.annotations.len(), "annotations_url": format!("{url}/annotations"),
        },
        "check_suite": {"id": suite(found, check)}, "app": show_app(state, output.is_of_app), "pull_requests": pulls,
    })
}

/// Describes the app of a check: GitHub Actions, or another one.
fn show_app(state: &State, is_other: bool) -> Value {
    let (id, slug, name) =
        if is_other { (77, "linter", "Linter") } else { (15_368, "github-actions", "GitHub Actions") };
    json!({
        "id": id, "slug": slug, "node_id": format!("A_{id}"), "client_id": format!("Iv1.{id:016x}"),
        "owner": show_owner(state, "github"), "name": name, "description": null, "external_url": state.url,
        "html_url": format!("{}/github-apps/{slug}", state.url), "created_at": AT, "updated_at": AT,
        "permissions": {"checks": "write", "metadata": "read"}, "events": [],
    })
}

/// A run of a workflow: the ID of its suite, the commit, the name of one that waits for an approval, and its jobs.
struct Run<'a> {
    suite: u64,
    sha: &'a str,
    waiting: Option<&'a str>,
    jobs: Vec<&'a Check>,
}

/// Returns the runs of workflows, the newest one first.
fn runs(found: &Repository) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for check in found.checks.iter().filter(|check| !output(found, check).is_of_app) {
        let suite = suite(found, check);
        match runs.iter_mut().find(|run| run.suite == suite) {
            Some(run) => run.jobs.push(check),
            None => runs.push(Run { suite, sha: &check.sha, waiting: None, jobs: vec![check] }),
        }
    }
    for (at, (sha, name)) in found.waiting_workflows.iter().enumerate() {
        runs.push(Run { suite: 1 + at as u64, sha, waiting: Some(name), jobs: Vec::new() });
    }
    runs.reverse();
    runs
}

/// Answers a request below `actions`.
pub(super) fn actions(state: &State, call: &ApiRequest, found: &Repository, parts: &[&str]) -> Reply {
    let runs = runs(found);
    match parts {
        ["runs"] => {
            let is = |shown: &Value, name: &str| call.parameter(name).is_none_or(|wanted| *shown == wanted);
            let shown = runs.iter().map(|run| show_run(state, found, run));
            let is_it = |run: &Value| {
                let suite = run["check_suite_id"].to_string();
                is(&run["head_sha"], "head_sha")
                    && is(&run["head_branch"], "branch")
                    && is(&run["event"], "event")
                    && is(&run["actor"]["login"], "actor")
                    && (is(&run["status"], "status") || is(&run["conclusion"], "status"))
                    && call.parameter("check_suite_id").is_none_or(|wanted| wanted == suite)
            };
            counted(state, call, &below(found, "actions/runs"), "workflow_runs", shown.filter(is_it).collect())
        }
        ["runs", id, "jobs"] => {
            let Some(run) = runs.iter().find(|run| (OF_RUN + run.suite).to_string() == *id) else {
                return error(404, "Not Found");
            };
            let jobs = match call.parameter("filter") {
                Some("all") => run.jobs.clone(),
                _ => latest(found, run.jobs.clone()),
            };
            let listed = jobs.into_iter().map(|check| show_job(state, found, run, check)).collect();
            counted(state, call, &below(found, &format!("actions/runs/{id}/jobs")), "jobs", listed)
        }
        ["jobs", id, "logs"] => {
            // The log is at another server, and exists when the job has ended.
            let mut jobs = runs.iter().flat_map(|run| &run.jobs);
            if jobs.any(|check| check.id.to_string() == *id && check.passed.is_some()) {
                let target = format!("{}/logs/{id}", state.url.replace("127.0.0.1", "localhost"));
                return Reply::text(302, "").header("location", target);
            }
            error(404, "Not Found")
        }
        _ => error(404, "Not Found"),
    }
}

fn head_branch<'a>(found: &'a Repository, sha: &str) -> Option<&'a String> {
    found.branches.iter().find(|(_, head)| *head == sha).map(|(name, _)| name)
}

/// Describes a run of a workflow (schema `workflow-run`).
fn show_run(state: &State, found: &Repository, run: &Run<'_>) -> Value {
    let (id, api) = (OF_RUN + run.suite, api(state, found));
    let url = format!("{api}/actions/runs/{id}");
    let conclusions: Vec<Option<String>> = run.jobs.iter().map(|check| conclusion(found, check)).collect();
    let is_good = |one: &Option<String>| matches!(one.as_deref(), Some("success" | "neutral" | "skipped"));
    let (status, conclusion) = match () {
        () if run.waiting.is_some() => ("completed", Some("action_required")),
        () if conclusions.iter().any(Option::is_none) => ("in_progress", None),
        () if conclusions.iter().all(is_good) => ("completed", Some("success")),
        () => ("completed", Some("failure")),
    };
    let (repository, actor) = (show_minimal(state, found), show_user(state, State::BOT));
    let mut shown = json!({
        "id": id, "name": run.waiting.unwrap_or("CI"), "node_id": format!("WFR_{id}"), "check_suite_id": run.suite,
        "check_suite_node_id": format!("CS_{}", run.suite), "head_branch": head_branch(found, run.sha),
        "head_sha": run.sha, "path": ".github/workflows/ci.yml", "run_number": 1, "run_attempt": 1, "event": "push",
        "status": status, "conclusion": conclusion, "workflow_id": 9, "url": url,
        "html_url": format!("{}/{}/actions/runs/{id}", state.url, found.path), "pull_requests": [],
        "created_at": AT, "updated_at": AT, "run_started_at": AT, "actor": actor, "triggering_actor": actor,
        "check_suite_url": format!("{api}/check-suites/{}", run.suite), "previous_attempt_url": null,
        "workflow_url": format!("{api}/actions/workflows/9"), "head_commit": null, "repository": repository,
        "head_repository": repository, "display_title": "Change files",
    });
    for (name, rest) in
        [("jobs", "jobs"), ("logs", "logs"), ("artifacts", "artifacts"), ("cancel", "cancel"), ("rerun", "rerun")]
    {
        shown[format!("{name}_url")] = format!("{url}/{rest}").into();
    }
    shown
}

/// Describes a job of a workflow (schema `job`). Its ID is that of its check run.
fn show_job(state: &State, found: &Repository, run: &Run<'_>, check: &Check) -> Value {
    let (id, api) = (OF_RUN + run.suite, api(state, found));
    let conclusion = conclusion(found, check);
    json!({
        "id": check.id, "run_id": id, "run_url": format!("{api}/actions/runs/{id}"), "run_attempt": 1,
        "node_id": format!("CR_{}", check.id), "head_sha": check.sha, "url": format!("{api}/actions/jobs/{}", check.id),
        "html_url": format!("{}/{}/actions/runs/{id}/job/{}", state.url, found.path, check.id),
        "status": if conclusion.is_some() { "completed" } else { "in_progress" },
        "created_at": AT, "started_at": AT, "completed_at": conclusion.is_some().then_some(AT),
        "conclusion": conclusion, "name": check.name, "steps": [],
        "check_run_url": format!("{api}/check-runs/{}", check.id), "labels": [], "runner_id": null,
        "runner_name": null, "runner_group_id": null, "runner_group_name": null, "workflow_name": "CI",
        "head_branch": head_branch(found, &check.sha),
    })
}
