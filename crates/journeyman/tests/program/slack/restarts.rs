//! Tests of a service that is killed, and of answers that are lost: nothing is lost, and nothing is posted twice.

use journeyman_testkit::Postgres;
use journeyman_testkit::slack_server::Fault;
use journeyman_testkit::slack_server::events::mention;

use super::{CHANNEL, ROOT, World, end_leases};

#[test]
fn an_event_whose_process_is_killed_after_the_answer_becomes_one_job() {
    let database = Postgres::shared().database();
    let world = World::on(&database);
    let service = world.site.start();
    world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]"));
    service.kill();
    end_leases(&database);
    let service = world.site.start();
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done"]);
    world.until_outcomes(&service, &["job_created"]);
    assert_eq!(service.get("/v2/agent/shop/jobs")["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]")), "known");
}

#[test]
fn a_message_whose_answer_is_lost_is_posted_once() {
    let world = World::new("events");
    let service = world.site.start();
    world.slack.fault(Fault::AnswerLost, "chat.postMessage", 1);
    world.slack.fault(Fault::AnswerLost, "reactions.add", 1);
    world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]"));
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done"]);
    assert_eq!((world.slack.calls("chat.postMessage"), world.slack.posts().len()), (1, 1));
    world.until(&service, "no reaction", || (world.slack.reactions().len() == 1).then_some(()));
}

/// The process dies between the post and its record. The thread has other messages, so that the search reads several pages.
#[test]
fn a_message_whose_process_is_killed_before_it_is_recorded_is_posted_once() {
    let database = Postgres::shared().database();
    let world = World::on(&database);
    let service = world.site.start();
    for number in 1..=3 {
        let id = format!("Ev{number}");
        let ts = format!("170000000{number}.000100");
        let text = "[[say x]]";
        let event = match number {
            1 => mention(&id, "U0ADA", CHANNEL, &ts, text),
            _ => super::reply(&id, "U0ADA", CHANNEL, "1700000001.000100", &ts, text),
        };
        world.deliver(&service, &event);
    }
    world.until_thread(&service, CHANNEL, "1700000001.000100", &["✅ Done"; 3]);
    let before = world.slack.calls("chat.postMessage");
    world.slack.fault(Fault::Silent, "chat.postMessage", 1);
    let reply = super::reply("Ev4", "U0ADA", CHANNEL, "1700000001.000100", "1700000004.000100", "[[say x]]");
    world.deliver(&service, &reply);
    world.until(&service, "no post", || (world.slack.calls("chat.postMessage") == before + 1).then_some(()));
    service.kill();
    end_leases(&database);
    let service = world.site.start();
    // The message is searched when the lease of the dead process has ended.
    let searched = || (world.slack.calls("conversations.replies") == 2).then_some(());
    world.until(&service, "the search does not read all pages", searched);
    world.until_thread(&service, CHANNEL, "1700000001.000100", &["✅ Done"; 4]);
    assert_eq!(world.slack.calls("chat.postMessage"), before + 1);
}
