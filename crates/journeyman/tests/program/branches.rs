//! Tests of the branches that jobs may write to.

use serde_json::{Value, json};

use super::fixtures::{Service, Site, git, site};

/// Makes a branch of people, without jobs.
fn people_push(site: &Site, branch: &str) {
    git(&site.repository(), &["branch", branch, "main"]);
}

/// Creates a job on a branch with an API key. An administrator archives the job once it rests, so that others can have the
/// branch. Returns the job's record before, and the reason of its last run.
fn job_on(service: &mut Service, key: &str, branch: &str) -> (Value, Value) {
    let administrator = std::mem::replace(&mut service.key, key.to_owned());
    let job = service.create_with(json!({ "prompt": "Change it\n[[append a|x]]", "branch": branch }));
    let record = service.settled(&job);
    service.key = administrator;
    let runs = service.get(&format!("{job}/runs"));
    assert_eq!(service.call("POST", &format!("{job}/archive"), None).0, 200);
    (record, runs["runs"][0]["reason"].clone())
}

#[test]
fn a_key_for_jobs_writes_only_to_new_branches_and_those_of_jobs() {
    let site = site();
    let mut service = site.start();
    site.people_commit("b", "people");
    people_push(&site, "feature");
    people_push(&site, "other");
    let (status, key) = service.call("POST", "/v2/keys", Some(json!({ "name": "bot", "scopes": ["jobs"] })));
    assert_eq!(status, 201, "{key}");
    let (bot, administrator) = (key["secret"].as_str().unwrap(), service.key.clone());

    let before = site.file("feature", "a");
    let (record, reason) = job_on(&mut service, bot, "feature");
    assert_eq!((&record["status"], &reason["code"]), (&json!("failed"), &json!("push_refused")), "{record}");
    assert!(reason["text"].as_str().unwrap().contains("no job has made it"), "{reason}");
    let mut ends = |key: &str, branch: &str| job_on(&mut service, key, branch).0["status"].clone();
    assert_eq!(ends(bot, "feature"), "failed", "the refused job has not made it");
    assert_eq!(site.file("feature", "a"), before);
    assert_eq!(ends(bot, "bot/new"), "completed");
    assert_eq!(ends(bot, "bot/new"), "completed", "a job has made it");
    assert_eq!(ends(&administrator, "other"), "completed", "the scope write allows it");
    assert_eq!(ends(bot, "other"), "failed", "a job has used it, and people have made it");
}

#[test]
fn no_job_pushes_to_a_protected_branch() {
    let site = site();
    let service = site.start();
    site.people_commit("b", "people");
    people_push(&site, "release/1");
    let job = service.create_with(json!({ "prompt": "Change it\n[[append a|x]]", "branch": "later/1" }));
    assert_eq!(service.settled(&job)["status"], "completed");
    service.configure(json!({ "pullRequest": { "protectedBranches": ["release/*", "later/**"] } }));
    let body = json!({ "prompt": "Change it", "branch": "release/1" });
    let (status, refused) = service.call("POST", "/v2/agent/shop/job", Some(body));
    assert_eq!(status, 400, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("pullRequest.protectedBranches"), "{refused}");
    service.send(&job, "More\n[[append a|y]]");
    assert_eq!(service.settled(&job)["status"], "failed", "also a branch that became protected later");
    let runs = service.get(&format!("{job}/runs"));
    let reasons = runs["runs"].as_array().unwrap().iter().filter_map(|run| run["reason"]["text"].as_str());
    assert!(reasons.into_iter().any(|text| text.contains("protectedBranches")), "{runs:#}");
    assert_eq!(site.file("later/1", "a").as_deref(), Some("x\n"));
}
