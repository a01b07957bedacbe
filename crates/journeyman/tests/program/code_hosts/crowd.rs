//! Tests of many jobs on one repository at the same time.

use std::collections::BTreeSet;

use serde_json::json;

use super::{PATH, World};
use crate::program::fixtures::Service;
use crate::storm::parameter;

#[test]
fn many_jobs_at_once_open_one_pull_request_each() {
    crowd(12);
}

/// Reads `JOBS` from the environment; see the Makefile.
#[test]
#[ignore = "runs JOBS jobs: make chaos-hosts JOBS=200"]
fn very_many_jobs_at_once_open_one_pull_request_each() {
    crowd(usize::try_from(parameter("JOBS", 200)).unwrap());
}

fn crowd(count: usize) {
    let world = World::with("create-per-hour = 0\n");
    let service = world.start();
    let create = |number: usize| {
        let prompt = format!("Job {number}\n[[write file-{number}.txt|{number}]]");
        let (status, record) = service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": prompt })));
        assert_eq!(status, 201, "{record}");
        format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap())
    };
    let jobs: Vec<String> = (0..count).map(create).collect();
    let links: BTreeSet<String> = jobs.iter().map(|job| link(&service, job)).collect();
    assert_eq!(links.len(), count);
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    let heads: BTreeSet<&String> = pulls.iter().map(|pull| &pull.head).collect();
    assert_eq!((pulls.len(), heads.len()), (count, count), "{pulls:#?}");
}

/// Waits for a job, however long, and returns the link to its pull request.
fn link(service: &Service, job: &str) -> String {
    loop {
        let record = service.get(&format!("{job}?wait=30"));
        if record["status"] != "active" {
            assert_eq!(record["status"], "completed", "{record:#}\n{:#}", service.events(job));
            return record["prLink"].as_str().unwrap().to_owned();
        }
    }
}
