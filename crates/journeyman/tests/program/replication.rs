//! Tests of the permanent loss of a PostgreSQL server that has a standby.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journeyman_testkit::Postgres;
use serde_json::{Value, json};

use super::fixtures::{cluster, git};

#[test]
fn a_synchronous_standby_takes_over_with_every_acknowledged_message() {
    let primary = Postgres::durable();
    let url = primary.database();
    let standby = primary.standby();
    let first = format!("127.0.0.1:{}", primary.port());
    let both = url.replace(&first, &format!("{first},127.0.0.1:{}", standby.port()));
    let site = cluster(&both, "message-per-hour = 0\n");
    let (api, worker) = (site.start_machine("api", "api"), site.start_machine("one", "worker"));
    let job = api.create("[[append log.txt|first]]");
    let (accepted, promoted) = (Mutex::new(vec!["[[append log.txt|first]]".to_owned()]), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Send a few more messages once the standby has taken over.
            let mut more = 3;
            for number in 0.. {
                // At most this many messages are sent before the failover; the rest are sent after it.
                while number > 30 && !promoted.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let prompt = format!("[[append log.txt|{number}]]");
                let taken_over = promoted.load(Ordering::SeqCst);
                let (status, body) = api.call("POST", &format!("{job}/message"), Some(json!({ "prompt": prompt })));
                match status {
                    200 => accepted.lock().unwrap().push(prompt),
                    // The message was not stored, or its outcome is unknown.
                    503 | 504 => {}
                    _ => panic!("{status} {body}"),
                }
                more -= usize::from(taken_over && status == 200);
                if more == 0 {
                    break;
                }
            }
        });
        api.until(&job, "commit.pushed", 2);
        primary.crash();
        standby.promote();
        promoted.store(true, Ordering::SeqCst);
    });
    assert_eq!(api.settled(&job)["status"], "completed", "{}", worker.log());
    let messages = api.get(&format!("{job}/messages"))["messages"].take();
    let prompts: Vec<&str> = messages.as_array().unwrap().iter().map(|one| one["prompt"].as_str().unwrap()).collect();
    for prompt in accepted.into_inner().unwrap() {
        assert_eq!(prompts.iter().filter(|one| **one == prompt).count(), 1, "{prompt} in {prompts:?}");
    }
    let done = |message: &Value| message["status"] == "finished";
    assert!(messages.as_array().unwrap().iter().all(done), "{messages:#}");
    let lines = site.file(&site.branch(), "log.txt").unwrap();
    let expected = prompts.iter().map(|one| one.split_once('|').unwrap().1.trim_end_matches(']'));
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "each took effect once, in order");
    assert_eq!(api.count(&job, "pull_request.opened"), 1);
    git(&site.repository(), &["fsck", "--connectivity-only"]);
}
