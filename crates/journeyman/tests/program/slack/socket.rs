//! Tests of Socket Mode: an event is stored before it is acknowledged, and one process holds the connection.

use journeyman_testkit::Postgres;
use journeyman_testkit::slack_server::APP_TOKEN;
use journeyman_testkit::slack_server::events::{mention, reply};

use super::super::fixtures::cluster;
use super::{CHANNEL, ROOT, World, stand_in};

#[test]
fn events_arrive_over_a_connection_also_after_it_breaks_or_is_renewed() {
    let world = World::new("socket");
    let service = world.site.start();
    let first = world.slack.send(mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say one]]"));
    let acknowledged = |id: &str| {
        world.until(&service, "no acknowledgment", || world.slack.is_acknowledged(id).then_some(()));
    };
    acknowledged(&first);
    assert_eq!(world.outcomes(&service).len(), 1, "an acknowledged event is stored");

    world.slack.announce_end();
    world.until(&service, "no second connection", || (world.slack.connected() == 2).then_some(()));
    acknowledged(&world.slack.send(reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "[[say two]]")));
    world.slack.break_connections();
    // Slack may send an event again although it was acknowledged.
    acknowledged(&world.slack.send(reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "[[say two]]")));
    acknowledged(&world.slack.send(reply("Ev3", "U0ADA", CHANNEL, ROOT, "1700000002.000100", "[[say three]]")));
    world.until_outcomes(&service, &["job_created", "message", "message"]);
    let job = world.job(&service);
    service.settled(&job);
    assert_eq!(super::prompts(&service, &job), ["[[say one]]", "[[say two]]", "[[say three]]"]);
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done", "✅ Done", "✅ Done"]);
    assert!(!service.log().contains("ticket=") && !service.log().contains(APP_TOKEN), "a secret is in the log");
}

#[test]
fn of_two_processes_one_holds_the_connection_and_the_other_takes_over() {
    let (slack, runtime) = stand_in();
    let site = cluster(&Postgres::shared().database(), &format!("slack-api-url = {:?}\n", slack.url));
    let world = World::with("socket", slack, site, runtime);
    let first = world.site.start_machine("one", "api");
    world.until(&first, "no connection", || (world.slack.connections().0 == 1).then_some(()));
    let second = world.site.start_machine("two", "api");
    let one = world.slack.send(mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]"));
    world.until(&second, "no acknowledgment", || world.slack.is_acknowledged(&one).then_some(()));
    // The second process looks for a connection every two seconds.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(world.slack.connections(), (1, 1), "one connection at a time");
    first.kill();
    let two = world.slack.send(reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "[[say y]]"));
    world.until(&second, "the other process does not take over", || world.slack.is_acknowledged(&two).then_some(()));
    assert_eq!(world.slack.times_sent(&two), 1);
    world.until_outcomes(&second, &["job_created", "message"]);
    assert_eq!(world.slack.connections(), (1, 1));
}
