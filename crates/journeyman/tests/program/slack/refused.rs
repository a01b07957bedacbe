//! Tests of what the service refuses, and of what Slack refuses.

use journeyman_testkit::slack_server::events::{mention, reply};
use journeyman_testkit::slack_server::{BOT_TOKEN, Fault, SIGNING_SECRET};
use serde_json::json;

use super::{CHANNEL, ROOT, World};

#[test]
fn a_wrong_or_old_signature_is_refused_and_nothing_is_stored() {
    let world = World::new("events");
    let service = world.site.start();
    let body = mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]");
    for (secret, age) in [("another-secret", 0), (SIGNING_SECRET, 400)] {
        let (status, answer) = world.deliver_with(&service, &body, secret, age, 0);
        assert_eq!((status, &answer["code"]), (401, &json!("invalid_signature")), "{secret} {age}: {answer}");
    }
    assert_eq!(world.outcomes(&service), Vec::<String>::new());
    let test = json!({ "type": "url_verification", "challenge": "3eZbrw1a" });
    let (status, answer) = world.deliver_with(&service, &test, SIGNING_SECRET, 0, 0);
    assert_eq!((status, &answer["challenge"]), (200, &json!("3eZbrw1a")));
}

#[test]
fn strangers_viewers_and_other_channels_create_no_jobs_and_get_one_answer() {
    let world = World::new("events");
    let service = world.site.start();
    let (second, third) = ("1700000001.000100", "1700000002.000100");
    for body in [
        mention("Ev1", "U0EVE", CHANNEL, ROOT, "[[say x]]"),
        reply("Ev2", "U0EVE", CHANNEL, ROOT, "1700000000.000200", "<@U0BOT> [[say y]]"),
        mention("Ev3", "U0ADA", "C0OTHER", second, "[[say x]]"),
        mention("Ev4", "U0VERA", CHANNEL, third, "[[say x]]"),
    ] {
        assert_eq!(world.deliver(&service, &body), "stored");
    }
    world.until_outcomes(&service, &["unknown_user", "unknown_user", "unknown_channel", "not_permitted"]);
    world.until_thread(&service, CHANNEL, ROOT, &["<@U0EVE>, I do not know who you are"]);
    world.until_thread(&service, "C0OTHER", second, &["This channel is not connected"]);
    world.until_thread(&service, CHANNEL, third, &["❌ "]);
    let jobs = service.get("/v2/agent/shop/jobs");
    assert_eq!(jobs["jobs"], json!([]), "{jobs}");
}

#[test]
fn a_revoked_token_is_shown_until_it_is_valid_again_and_a_rate_limit_only_delays() {
    let world = World::new("events");
    let service = world.site.start();
    world.slack.fault(Fault::RateLimited(2), "chat.postMessage", 2);
    world.slack.fault(Fault::Fails, "reactions.add", 1);
    world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]"));
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done"]);
    world.until(&service, "no reaction", || (world.slack.reactions().len() == 1).then_some(()));

    world.slack.revoke(BOT_TOKEN);
    let second = "1700000001.000100";
    world.deliver(&service, &mention("Ev2", "U0ADA", CHANNEL, second, "[[say x]]"));
    let refused = || {
        let posts = service.get(&world.path("/posts"));
        let refused = posts["posts"].as_array().unwrap().iter().find(|post| !post["detail"].is_null());
        refused.map(|post| (post["state"].clone(), post["detail"].as_str().unwrap().to_owned()))
    };
    let (state, detail) = world.until(&service, "no post is refused", refused);
    assert_eq!(state, "open", "{detail}");
    assert!(detail.contains("token_revoked") && detail.contains("install the app again"), "{detail}");
    assert!(!detail.contains(BOT_TOKEN) && !service.log().contains(BOT_TOKEN), "{detail}");
    let (status, findings) = service.call("POST", &world.path("/check"), None);
    assert_eq!(status, 200, "{findings}");
    let token = &findings["findings"][0];
    assert_eq!((&token["check"], &token["health"]), (&json!("bot token"), &json!("failure")), "{findings}");

    world.slack.restore(BOT_TOKEN);
    world.until_thread(&service, CHANNEL, second, &["✅ Done"]);
    world.until(&service, "the error stays", || refused().is_none().then_some(()));
}

#[test]
fn a_channel_without_the_bot_is_named_and_the_job_runs_anyway() {
    let world = World::new("events");
    let service = world.site.start();
    world.slack.fault(Fault::Refused("not_in_channel"), "chat.postMessage", 4);
    world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say x]]"));
    world.until(&service, "the error is not shown", || {
        let posts = service.get(&world.path("/posts")).to_string();
        (posts.contains("not_in_channel") && posts.contains("invite it there")).then_some(())
    });
    world.until_outcomes(&service, &["job_created"]);
    assert_eq!(service.settled(&world.job(&service))["status"], "completed");
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done"]);
}
