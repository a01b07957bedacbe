//! Tests of jobs from Slack, with a stand-in that repeats, reorders and loses what it sends.

mod refused;
mod restarts;
mod socket;

use std::time::{Duration, Instant};

use journeyman_testkit::slack_server::events::{direct, mention, mention_as_message, reply, sign};
use journeyman_testkit::slack_server::{APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackServer};
use journeyman_testkit::{PATIENCE, Postgres};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, cluster, site_with};

/// The channel of the project `shop`.
const CHANNEL: &str = "C0SHOP";

/// The timestamp of the first message of a thread.
const ROOT: &str = "1700000000.000100";

/// A stand-in for Slack, and a service whose channel `C0SHOP` belongs to `shop`. `U0ADA` is a member, `U0VERA` a viewer.
struct World {
    slack: SlackServer,
    site: Site,
    workspace: String,
    _runtime: tokio::runtime::Runtime,
}

/// Starts a stand-in, which runs as long as the runtime.
pub(super) fn stand_in() -> (SlackServer, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    (runtime.block_on(SlackServer::start()), runtime)
}

/// Writes a secret to a file of the site, and returns its path.
pub(super) fn secret_file(site: &Site, name: &str, text: &str) -> String {
    let path = site.path(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

impl World {
    fn new(mode: &str) -> Self {
        let (slack, runtime) = stand_in();
        let site = site_with(&format!("workers = 4\nslack-api-url = {:?}\n", slack.url));
        Self::with(mode, slack, site, runtime)
    }

    fn with(mode: &str, slack: SlackServer, site: Site, runtime: tokio::runtime::Runtime) -> Self {
        site.succeed(&["user", "add", "ada", "--role", "member"]);
        site.succeed(&["user", "add", "vera", "--role", "viewer"]);
        let files = [("bot", BOT_TOKEN), ("signing", SIGNING_SECRET), ("app", APP_TOKEN)];
        let [bot, signing, app] = files.map(|(name, text)| secret_file(&site, name, text));
        let connect = ["slack", "connect", "--mode", mode, "--bot-token-file", &bot, "--signing-secret-file", &signing];
        let more = ["--app-token-file", &app, "--channel", "C0SHOP=shop", "--user", "U0ADA=ada", "--user"];
        let printed = site.succeed(&[connect.as_slice(), &more, &["U0VERA=vera"]].concat());
        let workspace = printed.lines().next().unwrap().to_owned();
        Self { slack, site, workspace, _runtime: runtime }
    }

    /// Returns a world on a database of PostgreSQL, in which [`end_leases`] works.
    fn on(database: &str) -> Self {
        let (slack, runtime) = stand_in();
        let site = cluster(database, &format!("slack-api-url = {:?}\n", slack.url));
        Self::with("events", slack, site, runtime)
    }

    fn path(&self, below: &str) -> String {
        format!("/v2/slack/workspaces/{}{below}", self.workspace)
    }

    /// Sends an event, signed with a secret at a time that is `age` seconds ago.
    fn deliver_with(&self, service: &Service, body: &Value, secret: &str, age: u64, retry: u32) -> (u16, Value) {
        let text = body.to_string();
        let timestamp = (seconds() - age).to_string();
        let request = client().post(format!("{}/hooks/slack/{}", service.url, self.workspace));
        let mut request = request.header("content-type", "application/json");
        request = request.header("x-slack-signature", sign(secret, &timestamp, &text));
        request = request.header("x-slack-request-timestamp", timestamp);
        if retry > 0 {
            request =
                request.header("x-slack-retry-num", retry.to_string()).header("x-slack-retry-reason", "http_timeout");
        }
        let answer = request.body(text).send().unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().unwrap()).unwrap_or_default())
    }

    /// Sends an event, and returns what the service answers about it.
    fn deliver(&self, service: &Service, body: &Value) -> String {
        let (status, answer) = self.deliver_with(service, body, SIGNING_SECRET, 0, 0);
        assert_eq!(status, 200, "{answer}");
        answer["status"].as_str().unwrap().to_owned()
    }

    /// Returns the outcome or the state of each event, oldest first.
    fn outcomes(&self, service: &Service) -> Vec<String> {
        let events = service.get(&self.path("/events"));
        let name = |event: &Value| event["outcome"].as_str().or(event["state"].as_str()).unwrap().to_owned();
        events["events"].as_array().unwrap().iter().rev().map(name).collect()
    }

    fn until_outcomes(&self, service: &Service, expected: &[&str]) {
        let found = || (self.outcomes(service) == expected).then_some(());
        self.until(service, &format!("the outcomes are not {expected:?}"), found);
    }

    /// Returns the path of the only job.
    fn job(&self, service: &Service) -> String {
        let events = service.get(&self.path("/events"));
        let ids = events["events"].as_array().unwrap().iter().filter_map(|event| event["jobId"].as_str());
        let mut ids: Vec<&str> = ids.collect();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{events:#}");
        format!("/v2/agent/shop/job/{}", ids[0])
    }

    /// Waits until `found` returns something.
    fn until<T>(&self, service: &Service, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found() {
                return found;
            }
            let late = Instant::now() > end;
            assert!(!late, "{what}: {:#}\n{:#?}", service.get(&self.path("/events")), self.slack.posts());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the thread has these texts; each is given by its beginning.
    fn until_thread(&self, service: &Service, channel: &str, thread: &str, expected: &[&str]) {
        let found = || {
            let texts = self.slack.thread(channel, thread);
            let is_it = texts.len() == expected.len()
                && texts.iter().zip(expected).all(|(text, beginning)| text.starts_with(beginning));
            is_it.then_some(())
        };
        self.until(service, &format!("the thread is not {expected:?}"), found);
    }
}

/// Ends the leases of a process that was killed, which would hide its events and posts for a minute.
fn end_leases(database: &str) {
    let name = database.rsplit('/').next().unwrap();
    for end in [
        "UPDATE journeyman.slack_events SET due_at = 1 WHERE due_at IS NOT NULL",
        "UPDATE journeyman.slack_posts SET due_at = 1, busy_until = NULL WHERE due_at IS NOT NULL",
    ] {
        Postgres::shared().sql(name, end);
    }
}

#[expect(clippy::disallowed_methods, reason = "the service compares the time of a request with the machine's clock")]
fn seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn prompts(service: &Service, job: &str) -> Vec<String> {
    let messages = service.get(&format!("{job}/messages"));
    let prompts = messages["messages"].as_array().unwrap().iter();
    prompts.map(|message| message["prompt"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_mention_becomes_a_job_and_replies_its_messages_with_status_and_result_in_the_thread() {
    let world = World::new("events");
    let service = world.site.start();
    let first = mention("Ev1", "U0ADA", CHANNEL, ROOT, "Add a greeting [[write hello.txt|Hello]]");
    assert_eq!(world.deliver(&service, &first), "stored");
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done in `"]);
    let job = world.job(&service);
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{record:#}");
    let post = world.slack.posts().remove(0);
    let link = record["prLink"].as_str().unwrap();
    assert!(post.text.contains(&format!("<{link}|")) && post.text.contains("|Job>"), "{}", post.text);
    assert!(post.before.iter().all(|text| text.starts_with("⏳ ") || text.starts_with("⚙️ ")), "{post:?}");
    assert_eq!(world.slack.reactions(), [(CHANNEL.to_owned(), ROOT.to_owned(), "eyes".to_owned())]);

    let next = reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "Thanks. [[append hello.txt|Goodbye]]");
    assert_eq!(world.deliver(&service, &next), "stored");
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done in `", "✅ Done in `"]);
    assert_eq!(world.site.file(&world.site.branch(), "hello.txt").unwrap(), "Hello\nGoodbye\n");
    assert_eq!(service.count(&job, "pull_request.opened"), 1);
    let messages = service.get(&format!("{job}/messages"));
    assert_eq!(
        (&messages["messages"][1]["origin"], &messages["messages"][1]["author"]),
        (&json!("slack"), &json!("ada"))
    );
}

#[test]
fn repeated_and_reordered_events_make_each_message_once_and_in_order() {
    let world = World::new("events");
    let service = world.site.start();
    let first = mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say one]]");
    let second = reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "[[say two]]");
    let third = reply("Ev3", "U0ADA", CHANNEL, ROOT, "1700000002.000100", "[[say three]]");
    for body in [&third, &second, &first] {
        assert_eq!(world.deliver(&service, body), "stored");
    }
    for (retry, body) in (1..).zip([&first, &second, &third, &first]) {
        let (status, answer) = world.deliver_with(&service, body, SIGNING_SECRET, 0, retry);
        assert_eq!((status, &answer["status"]), (200, &json!("known")));
    }
    // The same message in another event.
    assert_eq!(world.deliver(&service, &mention_as_message("Ev4", "U0ADA", CHANNEL, ROOT, "[[say one]]")), "not_used");
    assert_eq!(world.deliver(&service, &mention("Ev5", "U0ADA", CHANNEL, ROOT, "[[say one]]")), "stored");
    world.until_outcomes(&service, &["message", "message", "job_created", "duplicate"]);
    let job = world.job(&service);
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(prompts(&service, &job), ["[[say one]]", "[[say two]]", "[[say three]]"]);
    world.until_thread(&service, CHANNEL, ROOT, &["✅ Done", "✅ Done", "✅ Done"]);
    assert_eq!(world.slack.reactions().len(), 3);
}

#[test]
fn a_thread_shows_the_status_and_stops_its_job() {
    let world = World::new("events");
    let service = world.site.start();
    world.deliver(&service, &mention("Ev1", "U0ADA", CHANNEL, ROOT, "[[say working]][[sleep 3600]]"));
    world.until_thread(&service, CHANNEL, ROOT, &["⚙️ Working"]);
    world.deliver(&service, &reply("Ev2", "U0ADA", CHANNEL, ROOT, "1700000001.000100", "status"));
    world.until_thread(&service, CHANNEL, ROOT, &["⚙️ Working", "⚙️ Working"]);
    world.deliver(&service, &reply("Ev3", "U0ADA", CHANNEL, ROOT, "1700000002.000100", "<@U0BOT> stop"));
    world.until_thread(&service, CHANNEL, ROOT, &["⏹️ This was stopped", "⚙️ Working", "⏹️ The job was stopped"]);
    world.until_outcomes(&service, &["job_created", "answered", "cancelled"]);
}

/// Creates a user, and returns a function that gets codes for an account of Slack from the user's page.
fn codes<'a>(world: &World, service: &'a Service, name: &str) -> impl Fn() -> String + 'a {
    let cookie = service.use_link(&world.site.succeed(&["user", "add", name, "--role", "member"]));
    move || {
        let page = service.secret_page(&cookie, "/account/slack", "");
        let mut words = page.split("link ").filter_map(|part| part.split(['<', '"', ' ']).next());
        let code = words.find(|code| code.len() > 20).unwrap_or_else(|| panic!("no code: {page}"));
        code.to_owned()
    }
}

#[test]
fn a_person_connects_an_account_with_a_code_in_a_direct_message() {
    let world = World::new("events");
    let service = world.site.start();
    let code = codes(&world, &service, "grace")();
    for (event, ts, outcome) in [("Ev1", ROOT, "linked"), ("Ev2", "1700000001.000100", "code_refused")] {
        assert_eq!(world.deliver(&service, &direct(event, "U0GRACE", ts, &format!("link {code}"))), "stored");
        world.until(&service, outcome, || world.outcomes(&service).contains(&outcome.to_owned()).then_some(()));
    }
    world.until_thread(&service, "D0DIRECT", ROOT, &["✅ Your account is connected with the user grace."]);
    world.deliver(&service, &mention("Ev3", "U0GRACE", CHANNEL, "1700000002.000100", "[[say x]]"));
    world.until_outcomes(&service, &["linked", "code_refused", "job_created"]);
    assert_code_is_not_kept(&world, &service, &code);
}

#[test]
fn a_code_that_is_sent_in_a_channel_is_revoked_and_its_author_gets_an_explanation() {
    let world = World::new("events");
    let service = world.site.start();
    let code = codes(&world, &service, "grace")();
    let text = format!("link {code}");
    assert_eq!(world.deliver(&service, &mention("Ev1", "U0GRACE", CHANNEL, ROOT, &text)), "stored");
    world.until_thread(&service, CHANNEL, ROOT, &["❌ <@U0GRACE>, everyone in this channel can read that code"]);
    world.deliver(&service, &direct("Ev2", "U0EVE", "1700000001.000100", &text));
    world.until_outcomes(&service, &["code_refused", "code_refused"]);
    assert_eq!(service.get("/v2/agent/shop/jobs")["jobs"], json!([]));
    assert_code_is_not_kept(&world, &service, &code);
}

/// Checks that neither the interface nor the log nor the files of the database contain a code.
fn assert_code_is_not_kept(world: &World, service: &Service, code: &str) {
    let events = service.get(&world.path("/events")).to_string();
    assert!(!events.contains(code) && !service.log().contains(code), "the code is shown: {events}");
    let read = |name: &str| std::fs::read(world.site.path(&format!("data/{name}"))).unwrap_or_default();
    let files = [read("journeyman.db"), read("journeyman.db-wal")].concat();
    let files = String::from_utf8_lossy(&files);
    assert!(files.contains("U0GRACE"), "the database has the events");
    assert!(!files.contains(code), "the code is in the database");
}
