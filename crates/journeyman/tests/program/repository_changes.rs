//! Tests of projects that get another repository while jobs have work in the earlier one.

use serde_json::{Value, json};

use super::fixtures::{Service, Site, git, site};

/// Returns the code and the text of the reason of a job's last run.
fn reason(service: &Service, job: &str) -> (Value, String) {
    let runs = service.get(&format!("{job}/runs"));
    let mut reasons = runs["runs"].as_array().unwrap().iter().map(|run| &run["reason"]);
    let reason = reasons.rfind(|reason| reason.is_object()).unwrap();
    (reason["code"].clone(), reason["text"].as_str().unwrap().to_owned())
}

/// Makes a repository on the built-in code host with the history of the project's.
fn copy(site: &Site, name: &str) -> String {
    let to = site.path(&format!("data/repositories/{name}.git"));
    git(&site.repository(), &["clone", "--quiet", "--bare", ".", to.to_str().unwrap()]);
    format!("local:{name}")
}

fn branches(site: &Site, name: &str) -> String {
    git(&site.path(&format!("data/repositories/{name}.git")), &["for-each-ref", "--format=%(refname)", "refs/heads"])
}

#[test]
fn a_job_sends_nothing_to_another_repository() {
    let site = site();
    let service = site.start();
    let job = service.create("Add it\n[[write a|1]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let other = copy(&site, "other");
    let before = branches(&site, "other");
    service.configure(json!({ "repository": other }));
    service.send(&job, "More\n[[append a|2]]");
    assert_eq!(service.settled(&job)["status"], "failed");
    let (code, text) = reason(&service, &job);
    assert!(code == "repository_changed" && text.contains("another repository"), "{code}: {text}");
    assert_eq!(branches(&site, "other"), before);
    let fresh = service.create("Add it\n[[write b|1]]");
    assert_eq!(service.settled(&fresh)["status"], "completed", "new jobs work on the new repository");

    service.configure(json!({ "repository": "local:shop" }));
    service.send(&job, "More\n[[append a|2]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "a").as_deref(), Some("1\n2\n"));
}

#[test]
fn a_turn_under_way_is_not_published_after_its_project_got_another_repository() {
    let site = site();
    let service = site.start();
    let other = copy(&site, "other");
    let before = [branches(&site, "other"), branches(&site, "shop")];
    let job = service.create("Add it\n[[hold]] [[write a|1]]");
    site.held(&job);
    service.configure(json!({ "repository": other }));
    let record = site.release(&service, &job);
    assert_eq!(record["status"], "failed", "{record}");
    assert_eq!(reason(&service, &job).0, "repository_changed");
    assert_eq!(service.count(&job, "message.waiting"), 1, "the turn is held until the new address is known");
    assert_eq!([branches(&site, "other"), branches(&site, "shop")], before);

    service.configure(json!({ "repository": "local:shop" }));
    service.send(&job, "Publish it\n[[say Done.]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(site.file(&site.branch(), "a").as_deref(), Some("1\n"), "the commits were kept");
}
