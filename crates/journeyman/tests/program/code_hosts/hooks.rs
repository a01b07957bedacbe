//! Tests of many webhooks while the service is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::restarts::{Restarts, all_events, open_events};
use super::{World, prompts, requests};
use crate::storm::parameter;

/// The number of times that the service is killed.
const KILLS: usize = 4;

#[test]
fn each_webhook_that_was_answered_is_carried_out_once_although_the_service_is_killed() {
    kills(200);
}

/// Reads `COUNT` from the environment; see the Makefile.
#[test]
#[ignore = "sends COUNT webhooks: make chaos-hosts COUNT=1000"]
fn each_of_many_webhooks_that_was_answered_is_carried_out_once() {
    kills(usize::try_from(parameter("COUNT", 1000)).unwrap());
}

/// Sends webhooks, of which every tenth has a task, and some twice.
fn kills(count: usize) {
    let world = World::with("create-per-hour = 0\nmessage-per-hour = 0\n");
    let service = Restarts::new(&world);
    let (job, number) = service.with(|service| world.job(service, "Add a greeting\n[[write hello.txt|Hello]]"));
    let maria = world.user("maria", "write");
    let is_task = |index: usize| index.is_multiple_of(10);
    let text = |index: usize| format!("{}do {index}.", if is_task(index) { "@journeyman-bot " } else { "" });
    let bodies: Vec<Value> = (0..count).map(|index| world.comment(number, maria, &text(index)).1).collect();
    let sent = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let deliver = || {
            for (index, body) in bodies.iter().enumerate() {
                let delivery = format!("hook-{index}");
                service.deliver(&delivery, "issue_comment", body);
                if index.is_multiple_of(7) {
                    service.deliver(&delivery, "issue_comment", body);
                }
                sent.fetch_add(1, Ordering::SeqCst);
            }
        };
        let delivering = scope.spawn(deliver);
        for kill in 1..=KILLS {
            while sent.load(Ordering::SeqCst) < kill * count / (KILLS + 1) && !delivering.is_finished() {
                std::thread::yield_now();
            }
            service.restart();
        }
        delivering.join().unwrap();
    });
    service.until_nothing_is_open(open_events);
    service.with(|service| {
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        let mut deliveries = BTreeSet::new();
        for event in all_events(service) {
            *outcomes.entry(event["outcome"].as_str().unwrap().to_owned()).or_default() += 1;
            assert!(deliveries.insert(event["delivery"].to_string()), "{event:#} is there twice");
        }
        let tasks = (0..count).filter(|index| is_task(*index)).count();
        let expected = [("message".to_owned(), tasks), ("not_addressed".to_owned(), count - tasks)];
        assert_eq!(outcomes, BTreeMap::from(expected));
        assert_eq!(deliveries.len(), count);
        let prompts = prompts(service, &job);
        // The other comments are context, each at most once in a message. Those of the last seconds before a message come with
        // the next one again, because the clocks of the host and the service may differ.
        let asked = requests(&prompts).join("\n");
        for index in 0..count {
            let text = format!("do {index}.");
            assert_eq!(asked.matches(&text).count(), usize::from(is_task(index)), "{index}: {prompts:#?}");
            assert!(prompts.iter().all(|prompt| prompt.matches(&text).count() <= 1), "{index}: {prompts:#?}");
        }
    });
}
