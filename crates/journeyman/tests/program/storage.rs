//! Tests of a blob store that fails after the agent's answer: no message fails, and no turn is paid for twice.

use std::process::Command;

use journeyman_testkit::{BucketFault, BucketServer, Postgres, until};
use serde_json::Value;

use super::fixtures::{Service, Site, cluster, site};

/// The ways in which a bucket fails.
const FAULTS: [BucketFault; 11] = [
    BucketFault::Answers(500, "InternalError"),
    BucketFault::Answers(503, "SlowDown"),
    BucketFault::Answers(403, "InvalidAccessKeyId"),
    BucketFault::Answers(404, "NoSuchBucket"),
    BucketFault::AnswersWrites(403, "AccessDenied"),
    BucketFault::AnswersWrites(507, "InsufficientStorage"),
    BucketFault::Refuses,
    BucketFault::Resets,
    BucketFault::LosesAnswers,
    BucketFault::Garbage,
    BucketFault::Hangs,
];

/// Starts a service whose blobs are in a bucket.
fn start(site: &Site, bucket: &BucketServer) -> Service {
    let mut wrapper = Command::new("env");
    wrapper.arg(format!("JOURNEYMAN_BLOB_URL={}", bucket.url()));
    wrapper.args(bucket.environment().map(|(name, value)| format!("{name}={value}")));
    site.start_wrapped(wrapper)
}

/// Waits until the job waits for the storage; returns its details.
fn waiting(service: &Service, job: &str) -> Value {
    until("the job waits for the storage", || {
        let details = service.get(&format!("{job}/details"));
        assert_eq!(details["status"], "active", "{details:#}\n{}", service.log());
        let code = details["waiting"]["reason"]["code"].as_str().map(str::to_owned);
        assert!(code.as_ref().is_none_or(|code| code == "storage_unavailable"), "{details:#}");
        code.map(|_| details)
    })
}

/// Waits until the job is done, and checks that its only message was prompted once.
fn check(service: &Service, site: &Site, job: &str, fault: BucketFault) {
    assert_eq!(service.settled(job)["status"], "completed", "{fault:?}: {:#}\n{}", service.events(job), service.log());
    let message = service.get(&format!("{job}/messages"))["messages"][0].clone();
    assert_eq!(message["status"], "finished", "{fault:?}: {message:#}");
    assert_eq!(service.count(job, "agent.message"), 1, "{fault:?}: the agent answered once: {:#}", service.events(job));
    assert_eq!(service.count(job, "checkout.incomplete"), 0, "{fault:?}");
    let branch = service.get(&format!("{job}/details"))["branch"].as_str().unwrap().to_owned();
    assert_eq!(site.file(&branch, "a.txt").as_deref(), Some("1\n"), "{fault:?}");
}

/// Lets a bucket fail in every way after the agent has answered.
fn fail_in_every_way(site: &Site) {
    let mut bucket = BucketServer::start();
    let mut service = start(site, &bucket);
    for (number, fault) in FAULTS.into_iter().enumerate() {
        bucket.fail(fault);
        let job = service.create("[[write a.txt|1]] [[say it is done]]");
        if fault == BucketFault::Hangs {
            until("a write is not answered", || (bucket.failures() > 0).then_some(()));
        } else {
            waiting(&service, &job);
            let ready = until("the health check tells", || {
                let (status, ready) = service.call("GET", "/readyz", None);
                assert_eq!(status, 200, "{ready}");
                (ready["storage"]["ok"] == false).then_some(ready)
            });
            assert_eq!(
                (&ready["status"], &ready["storage"]["code"]),
                (&"degraded".into(), &"storage_unavailable".into())
            );
            // Neither shows the cause during an attempt.
            until("the metrics tell", || {
                let metrics = service.text("/metrics");
                metrics.contains("journeyman_jobs_waiting{cause=\"storage_unavailable\"} 1").then_some(())
            });
            if number == 0 {
                let url = format!("{}/projects/shop/jobs/{}", service.url, job.rsplit('/').next().unwrap());
                until("the page tells", || {
                    let (_, page) = service.page(site, &url);
                    page.contains("Waiting to retry.</strong> the work continues when the blob store").then_some(())
                });
            }
        }
        // Some of the services are killed while the work waits.
        if number % 4 == 0 {
            service.kill();
            service = start(site, &bucket);
        }
        bucket.work();
        service.call("POST", &format!("{job}/retry"), None);
        check(&service, site, &job, fault);
    }
    assert!(!bucket.keys("sessions/").is_empty(), "the sessions are in the bucket");
}

#[test]
fn a_bucket_that_fails_in_any_way_fails_no_message_and_repeats_no_turn() {
    fail_in_every_way(&site());
}

#[test]
fn a_bucket_that_fails_in_any_way_fails_no_message_with_postgresql() {
    let mut site = cluster(&Postgres::shared().database(), "");
    site.reconfigure("blob-url = ", "# blob-url = ");
    fail_in_every_way(&site);
}
