//! Tests of webhooks with a real endpoint: the command line, and a service that is killed while it delivers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use journeyman_testkit::until;
use serde_json::Value;

use super::fixtures::{Service, Site, site_with};
use crate::binary::program;

/// A request that an endpoint has received: its `webhook-id`, its signature, and its body.
type Request = (String, String, Value);

/// An endpoint that refuses the first request about each of some events, and accepts all others.
struct Endpoint {
    url: String,
    received: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    /// Starts an endpoint that refuses each `refuses`th event; 0: none.
    fn start(refuses: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}/hook", listener.local_addr().unwrap().port());
        let received: Arc<Mutex<Vec<Request>>> = Arc::default();
        let seen = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || answer(stream, &seen, refuses));
            }
        });
        Self { url, received }
    }

    fn received(&self) -> Vec<Request> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until the endpoint has received enough.
    fn wait_for(&self, what: &str, enough: impl Fn(&[Request]) -> bool) {
        until(what, || enough(&self.received()).then_some(()));
    }
}

/// Answers the requests of a connection. A killed service breaks it at any byte.
fn answer(stream: TcpStream, seen: &Mutex<Vec<Request>>, refuses: u64) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_lowercase(), value.trim().to_owned());
            }
        }
        let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let body = serde_json::from_slice(&body).ok()?;
        let status = {
            let mut seen = seen.lock().unwrap();
            let id = headers.remove("webhook-id")?;
            let number: u64 = id.split('_').nth(1)?.parse().ok()?;
            let is_first = seen.iter().all(|(other, ..)| *other != id);
            seen.push((id, headers.remove("webhook-signature")?, body));
            // The event of a test has the number 0.
            if number > 0 && is_first && number.is_multiple_of(refuses) { 500 } else { 204 }
        };
        stream.write_all(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").as_bytes()).ok()?;
    }
}

fn webhook(site: &Site, service: &Service, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("webhook").args(arguments).stdin(Stdio::null());
    command.env("JOURNEYMAN_URL", &service.url).env("JOURNEYMAN_KEY", &site.key).env("JOURNEYMAN_PROJECT", "shop");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const LOCAL: &str = "webhook-networks = [\"127.0.0.0/8\"]\n";

#[test]
fn a_webhook_is_managed_and_its_events_arrive() {
    let site = site_with(LOCAL);
    let service = site.start();
    let endpoint = Endpoint::start(0);
    let created = out(&webhook(&site, &service, &["create", &endpoint.url, "--event", "job.completed"]));
    assert!(created.contains("secret: whsec_") && created.contains("enabled"), "{created}");
    let id = created.split_whitespace().find(|word| word.starts_with("whk_")).unwrap().to_owned();
    service.settled(&service.create("[[say x]]"));
    endpoint.wait_for("the event", |received| received.len() == 1);
    let (message, signature, body) = endpoint.received().remove(0);
    assert!(message.starts_with("evt_") && signature.starts_with("v1,"), "{message} {signature}");
    assert_eq!((body["type"].clone(), body["data"]["projectId"].clone()), ("job.completed".into(), "shop".into()));
    let tested = webhook(&site, &service, &["test", &id]);
    assert!(out(&tested).starts_with("204 after "), "{tested:?}");
    // The result is stored after the answer.
    let deliveries = || out(&webhook(&site, &service, &["deliveries", &id]));
    until("the delivery is recorded", || deliveries().contains("delivered").then_some(()));
    let delivery = deliveries().lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let redelivered = out(&webhook(&site, &service, &["redeliver", &id, &delivery]));
    assert_eq!(redelivered, format!("The delivery {delivery} is pending again.\n"));
    endpoint.wait_for("the redelivery", |received| received.iter().filter(|(of, ..)| *of == message).count() == 2);
    assert_eq!(
        out(&webhook(&site, &service, &["replay", &id, "--since", "2020-01-01T00:00:00Z"])),
        "1 delivery is pending\n"
    );
    endpoint.wait_for("the replay", |received| received.iter().filter(|(of, ..)| *of == message).count() == 3);
    let rotated = out(&webhook(&site, &service, &["rotate", &id, "--keep-old", "60"]));
    assert!(rotated.contains("secret: whsec_"), "{rotated}");
    let disabled = out(&webhook(&site, &service, &["change", &id, "--disable", "--description", "CI"]));
    assert!(disabled.contains("disabled (on request)"), "{disabled}");
    assert!(out(&webhook(&site, &service, &["list"])).contains(&endpoint.url));
    assert_eq!(webhook(&site, &service, &["delete", &id]).status.code(), Some(2), "it is not confirmed");
    let deleted = out(&webhook(&site, &service, &["delete", &id, "--yes"]));
    assert_eq!(deleted, format!("Deleted the webhook {id} with its deliveries.\n"));
    assert!(!out(&webhook(&site, &service, &["list"])).contains(&id));
    let missing = webhook(&site, &service, &["test", &id]);
    assert_eq!(missing.status.code(), Some(5), "{missing:?}");
    let refused = webhook(&site, &service, &["create", "ftp://hooks.example/"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("url: must be an http or https URL"), "{refused:?}");
}

#[test]
fn a_private_endpoint_is_refused_unless_the_operator_allows_it() {
    let site = site_with("");
    let service = site.start();
    let endpoint = Endpoint::start(0);
    let created = out(&webhook(&site, &service, &["create", &endpoint.url]));
    let id = created.split_whitespace().find(|word| word.starts_with("whk_")).unwrap().to_owned();
    let tested = webhook(&site, &service, &["test", &id]);
    assert_eq!(tested.status.code(), Some(1));
    assert!(
        out(&tested)
            .contains("127.0.0.1 is not a public address; an operator can allow its network with webhook-networks")
    );
    assert_eq!(endpoint.received(), []);
}

/// The service is killed again and again while jobs run and the endpoint refuses some requests.
#[test]
fn every_event_arrives_in_the_order_of_its_job_although_the_service_is_killed() {
    const JOBS: usize = 6;
    let site = site_with(LOCAL);
    let mut service = site.start();
    let endpoint = Endpoint::start(5);
    out(&webhook(&site, &service, &["create", &endpoint.url]));
    let mut jobs = Vec::new();
    for round in 0..JOBS {
        jobs.push(service.create("[[say x]]"));
        if round % 2 == 1 {
            service.kill();
            service = site.start();
        }
    }
    for job in &jobs {
        service.settled(job);
    }
    let kinds = ["job.created", "message.finished", "job.completed"];
    let first_arrivals = |received: &[Request]| {
        let mut orders: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (id, _, body) in received {
            let job = body["data"]["job"]["id"].as_str().unwrap().to_owned();
            let event = (id.clone(), body["type"].as_str().unwrap().to_owned());
            let order = orders.entry(job).or_default();
            if !order.contains(&event) {
                order.push(event);
            }
        }
        orders
    };
    endpoint.wait_for("all events", |received| {
        let orders = first_arrivals(received);
        orders.len() == JOBS && orders.values().all(|order| order.len() == kinds.len())
    });
    for (job, order) in first_arrivals(&endpoint.received()) {
        let seen: Vec<&str> = order.iter().map(|(_, kind)| kind.as_str()).collect();
        assert_eq!(seen, kinds, "{job}");
    }
}

/// Returns what an event is about: its type, its job, and its message.
fn subject(body: &Value) -> [String; 3] {
    let data = &body["data"];
    [&body["type"], &data["job"]["id"], &data["messageId"]].map(ToString::to_string)
}

/// The service is restored from a backup after it has sent events that the backup does not have.
#[test]
fn after_a_restore_new_events_have_new_ids_and_lost_cursors_have_expired() {
    let site = site_with(LOCAL);
    let service = site.start();
    let endpoint = Endpoint::start(0);
    out(&webhook(&site, &service, &["create", &endpoint.url]));
    let job = service.create("[[say x]]");
    service.settled(&job);
    endpoint.wait_for("the first events", |received| received.len() >= 3);
    let kept = service.get("/v2/projects/shop/events");
    let kept_after = service.get(&format!("{job}/events?limit=1000"))["nextAfter"].clone();
    let backup = site.path("backup");
    site.succeed(&["backup", backup.to_str().unwrap()]);
    service.send(&job, "[[say lost]]");
    service.settled(&job);
    service.settled(&service.create("[[say lost too]]"));
    let lost = service.get("/v2/projects/shop/events");
    let lost_after = service.get(&format!("{job}/events?limit=1000"))["nextAfter"].clone();
    let sent = lost["events"].as_array().unwrap().len();
    assert!(sent > kept["events"].as_array().unwrap().len());
    endpoint.wait_for("the lost events", |received| received.len() >= sent);
    service.kill();

    let other = site.new_installation(&[]);
    std::fs::create_dir_all(other.path("data")).unwrap();
    std::fs::copy(site.path("data/master.key"), other.path("data/master.key")).unwrap();
    other.succeed(&["restore", backup.to_str().unwrap()]);
    let service = other.start();
    let events_after = |cursor: &Value| format!("/v2/projects/shop/events?cursor={}", cursor.as_str().unwrap());
    let expired = |path: &str| {
        let (status, body) = service.call("GET", path, None);
        assert_eq!((status, body["code"].as_str()), (410, Some("cursor_expired")), "{path}: {body}");
    };
    let lost_cursor = events_after(&lost["nextCursor"]);
    let lost_log = format!("{job}/events?after={lost_after}");
    let check = || {
        expired(&lost_cursor);
        expired(&lost_cursor.replace("/events", "/events/stream"));
        expired(&lost_log);
        service.get(&format!("{job}/events?after={kept_after}"));
        // A cursor from before the backup is of another epoch too. The answer names the one to continue with.
        let (status, gone) = service.call("GET", &events_after(&kept["nextCursor"]), None);
        assert_eq!((status, gone["code"].as_str()), (410, Some("cursor_expired")), "{gone}");
        let next = service.get(&events_after(&gone["nextCursor"]));
        next["events"].as_array().unwrap().len()
    };
    assert_eq!(check(), 0);
    service.send(&job, "[[say new]]");
    service.settled(&job);
    for text in ["[[say new]]", "[[say newer]]", "[[say newest]]"] {
        service.settled(&service.create(text));
    }
    assert!(check() > sent, "the reader continues, and the lost cursor stays expired");
    let news = service.get("/v2/projects/shop/events");
    let kinds = |all: &Value| all["events"].as_array().unwrap().iter().map(subject).collect::<BTreeSet<_>>();
    endpoint.wait_for("all new events", |received| {
        kinds(&news).is_subset(&received.iter().map(|(_, _, body)| subject(body)).collect())
    });
    let mut subjects: BTreeMap<String, BTreeSet<[String; 3]>> = BTreeMap::new();
    for (id, _, body) in endpoint.received() {
        subjects.entry(id.rsplit_once('_').unwrap().0.to_owned()).or_default().insert(subject(&body));
    }
    assert!(subjects.values().all(|about| about.len() == 1), "no number has two events: {subjects:#?}");
    for event in kept["events"].as_array().unwrap() {
        assert!(news["events"].as_array().unwrap().contains(event), "{event} keeps its ID");
    }
}
