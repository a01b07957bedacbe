//! Tests of homes that are restored from their archive, and of what is told if a home is not stored or not restored.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::Value;

use super::fixtures::{Service, Site, site_with};

fn site() -> Site {
    site_with("workers = 2\nwarm-agents = 0\n")
}

/// Sends a message that must succeed.
fn complete(service: &Service, job: &str, prompt: &str) {
    service.send(job, prompt);
    assert_eq!(service.settled(job)["status"], "completed", "{:#}", service.events(job));
}

/// Kills the service and starts another, which rebuilds workspaces.
fn restarted(site: &Site, service: Service) -> Service {
    service.kill();
    site.start()
}

/// Returns the kinds and reasons of all entries of `checkout.incomplete`, and the reasons of `home.not_stored`.
fn told(service: &Service, job: &str) -> (Vec<(String, String)>, Vec<String>) {
    let events = service.events(job);
    let of = |kind: &'static str| events.as_array().unwrap().iter().filter(move |event| event["type"] == kind);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = of("checkout.incomplete").flat_map(|event| event["data"]["entries"].as_array().unwrap());
    let missing = entries.map(|entry| (text(&entry["kind"]), text(&entry["reason"]))).collect();
    let not_stored = of("home.not_stored").map(|event| {
        let detail = text(&event["data"]["detail"]);
        assert!(detail.contains("could not be stored") && detail.contains("Ask the agent to remove"), "{detail}");
        text(&event["data"]["reason"])
    });
    (missing, not_stored.collect())
}

/// Returns the paths of the stored archives of a job's home.
fn archives(site: &Site, job: &str) -> Vec<PathBuf> {
    let folder = site.path(&format!("data/blobs/sessions/{}", job.rsplit('/').next().unwrap()));
    folder.read_dir().map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

#[test]
fn a_home_is_restored_for_the_user_of_the_sandbox() {
    let site = site();
    let service = site.start();
    let make = "mkdir -p ~/tools/bin; echo kept > ~/tools/bin/x; chmod 555 ~/tools/bin; ln -s /etc ~/root; echo 1 > a";
    let job = service.create(&format!("[[run {make}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let service = restarted(&site, service);
    complete(&service, &job, "[[run cat ~/tools/bin/x > b; echo own > ~/tools/more; readlink ~/root >> b]]");
    let branch = site.branch();
    assert_eq!(site.file(&branch, "b").as_deref(), Some("kept\n/etc\n"));
    assert_eq!(told(&service, &job), (Vec::new(), Vec::new()));
    // Everything belongs to the user of the workspace, even before its program has changed it.
    let workspace = site.path(&format!("data/workspaces/{}", job.rsplit('/').next().unwrap()));
    let owner = |path: &str| workspace.join(path).symlink_metadata().unwrap().uid();
    let user = owner("tree");
    for path in ["home", "home/tools", "home/tools/bin", "home/tools/bin/x", "home/root", "home/tools/more"] {
        assert_eq!(owner(path), user, "{path}");
    }
    let own = rustix::process::geteuid();
    assert_eq!(user == own.as_raw(), !own.is_root(), "a service that is root has a separate user for the workspace");
}

#[test]
fn a_home_that_is_not_stored_is_told_after_the_turn_and_when_the_workspace_is_rebuilt() {
    let site = site();
    let service = site.start();
    // A home may have 128 levels of folders.
    let deep = "cd ~ && mkdir -p $(printf 'd/%.0s' $(seq 130)) && cd /workspace && echo 1 > a && echo x > ~/note";
    let job = service.create(&format!("[[run {deep}]]"));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(told(&service, &job), (Vec::new(), vec!["too_deep".to_owned()]));
    assert_eq!(archives(&site, &job), Vec::<PathBuf>::new());
    // As long as the workspace exists, the home does.
    complete(&service, &job, "[[run cat ~/note > b; rm -r ~/d]]");
    assert_eq!(site.file(&site.branch(), "b").as_deref(), Some("x\n"));
    assert_eq!(told(&service, &job).1.len(), 1, "the smaller home is stored");
    complete(&service, &job, &format!("[[run {deep}; echo 2 > a]]"));
    assert_eq!(told(&service, &job).1.len(), 2);
    let service = restarted(&site, service);
    complete(&service, &job, "[[run test ! -e ~/note; echo $? > c]]");
    assert_eq!(site.file(&site.branch(), "c").as_deref(), Some("0\n"), "the home is new");
    let (missing, not_stored) = told(&service, &job);
    assert_eq!(missing, [("home".to_owned(), "not_stored".to_owned())]);
    assert_eq!(not_stored.len(), 2);
}

#[test]
fn a_home_whose_archive_is_damaged_is_told_and_the_job_goes_on() {
    let site = site();
    let service = site.start();
    let job = service.create("[[run echo x > ~/note; echo 1 > a]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    service.kill();
    let stored = archives(&site, &job);
    assert_eq!(stored.len(), 1);
    std::fs::write(&stored[0], "damaged").unwrap();
    let service = site.start();
    complete(&service, &job, "[[run test ! -e ~/note; echo $? > c]]");
    assert_eq!(site.file(&site.branch(), "c").as_deref(), Some("0\n"));
    assert_eq!(told(&service, &job).0, [("home".to_owned(), "damaged".to_owned())]);
}
