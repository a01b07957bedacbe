//! Tests of outages: messages wait for an outage that may pass, and no accepted message fails because of it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::fixtures::{Service, Site, git, site};

/// Changes the project's repository to a path that a test can rename; returns the path.
fn use_path_remote(site: &Site) -> PathBuf {
    let repository = site.path("elsewhere.git");
    git(site.dir.path(), &["clone", "--quiet", "--bare", "people", "elsewhere.git"]);
    site.succeed(&["project", "update", "shop", "--repository", repository.to_str().unwrap()]);
    repository
}

fn details(service: &Service, job: &str) -> Value {
    service.get(&format!("{job}/details"))
}

/// Waits until the job waits for something; returns its details.
fn waiting(service: &Service, job: &str) -> Value {
    loop {
        let details = details(service, job);
        assert_eq!(details["status"], "active", "{details:#}");
        if !details["waiting"].is_null() {
            return details;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn messages_wait_for_an_unreachable_code_host_and_one_job_probes_it() {
    let site = site();
    let repository = use_path_remote(&site);
    let service = site.start();
    let first = service.create("[[write first.txt|1]]");
    service.settled(&first);

    let away = site.path("away.git");
    std::fs::rename(&repository, &away).unwrap();
    service.send(&first, "[[append first.txt|2]]");
    service.send(&first, "[[append first.txt|3]]");
    let others: Vec<String> = (0..6).map(|number| service.create(&format!("[[write other-{number}.txt|x]]"))).collect();
    let details = waiting(&service, &first);
    let waits = &details["waiting"];
    assert_eq!(waits["reason"]["code"], "repository_not_found", "{details:#}");
    assert_eq!((&waits["projectOnHold"], &details["queueLength"]), (&true.into(), &1.into()), "{details:#}");
    assert!(waits["deadline"].is_string() && waits["nextAttemptAt"].is_string(), "{details:#}");
    for other in &others {
        waiting(&service, other);
    }
    let metrics = service.text("/metrics");
    assert!(metrics.contains("journeyman_projects_on_hold 1"), "{metrics}");
    assert!(metrics.contains("journeyman_jobs_waiting{cause=\"repository_not_found\"}"), "{metrics}");

    std::fs::rename(&away, &repository).unwrap();
    let (status, record) = service.call("POST", &format!("{first}/retry"), None);
    assert_eq!((status, &record["status"]), (200, &"active".into()));
    for job in others.iter().chain([&first]) {
        assert_eq!(service.settled(job)["status"], "completed", "{:#}\n{}", service.events(job), service.log());
    }
    let messages = service.get(&format!("{first}/messages"))["messages"].as_array().unwrap().clone();
    assert!(messages.iter().all(|message| message["status"] == "finished"), "{messages:#?}");
    let branch = service.get(&format!("{first}/details"))["branch"].as_str().unwrap().to_owned();
    assert_eq!(git(&repository, &["show", &format!("{branch}:first.txt")]).trim(), "1\n2\n3", "in order");
    assert_eq!(service.count(&first, "message.waiting"), 1);
    let attempts: usize = others.iter().map(|job| service.count(job, "run.started")).sum();
    assert!(attempts <= others.len() * 2 + 4, "one job probes for all: {attempts}");
    assert!(service.text("/metrics").contains("journeyman_projects_on_hold 0"));
}

#[test]
fn a_waiting_message_fails_at_its_deadline_or_when_it_is_cancelled() {
    let site = site();
    let repository = use_path_remote(&site);
    let service = site.start_with(&["--listen", "127.0.0.1:0", "--refusal-patience", "2s"]);
    std::fs::rename(&repository, site.path("away.git")).unwrap();
    let given_up = service.create("[[write a.txt|1]]");
    assert_eq!(service.settled(&given_up)["status"], "failed");
    assert_eq!(service.count(&given_up, "message.waiting"), 1);
    let text = details(&service, &given_up)["failure"]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("retried for 2 seconds"), "{text}");

    let service = {
        drop(service);
        site.start()
    };
    let cancelled = service.create("[[write b.txt|1]]");
    waiting(&service, &cancelled);
    let (status, record) = service.call("POST", &format!("{cancelled}/cancel"), None);
    assert_eq!((status, &record["status"]), (200, &"failed".into()));
}

/// Returns the pushed commits of a message, found by the trailer that names the message.
fn pushed_commits(site: &Site, message: &Value) -> Vec<String> {
    let trailer = format!("--grep=Journeyman-Message: {}", message["id"].as_str().unwrap());
    git(&site.repository(), &["log", "--all", "--format=%H", &trailer]).lines().map(str::to_owned).collect()
}

#[test]
fn after_a_cancel_near_the_end_of_a_turn_the_message_is_either_cancelled_or_finished() {
    let site = site();
    let service = site.start();
    let (mut cancelled, mut finished) = (0, 0);
    for number in 0..400 {
        // On a busy machine, the end of a turn takes longer.
        if number >= 24 && finished > 0 {
            break;
        }
        let job = service.create(&format!("[[write file-{number}.txt|x]] [[say done]]"));
        service.until(&job, "agent.message", 1);
        std::thread::sleep(Duration::from_millis(5 * number));
        service.call("POST", &format!("{job}/cancel"), None);
        service.settled(&job);
        let message = service.get(&format!("{job}/messages"))["messages"][0].clone();
        let commits = pushed_commits(&site, &message);
        match message["status"].as_str().unwrap() {
            "cancelled" => {
                cancelled += 1;
                assert!(commits.is_empty() && message["commits"] == Value::Array(vec![]), "{message:#}: {commits:?}");
            }
            "finished" => {
                finished += 1;
                assert_eq!(message["commits"][0].as_str(), commits.first().map(String::as_str), "{message:#}");
            }
            other => panic!("{other}: {message:#}"),
        }
    }
    assert!(finished > 0, "all {cancelled} messages were cancelled");
}

#[test]
fn a_restarted_service_takes_over_its_own_runs_at_once() {
    let site = super::fixtures::site_with("lease = \"15m\"\nworkers = 2\n");
    let service = site.start();
    let job = service.create("[[hold]] [[write a.txt|1]]");
    service.until(&job, "run.started", 1);
    service.kill();
    let service = site.start();
    // The lease would have lasted fifteen minutes, longer than a test waits.
    assert_eq!(site.release(&service, &job)["status"], "completed", "{}", service.log());
    assert_eq!(service.count(&job, "run.started"), 2);
}
