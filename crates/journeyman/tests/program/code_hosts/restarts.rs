//! A service that is killed and started again, and a code host that sends a webhook until it is answered.

use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use journeyman_testkit::PATIENCE;
use journeyman_testkit::code_host::signature;
use serde_json::Value;

use super::{WEBHOOK_SECRET, World, settle_quickly};
use crate::program::fixtures::{Service, client};
use crate::storm::faketime;

/// The time between two starts on the clock of the service. All leases of a killed process expire in it.
const PAUSE: u64 = 150;

/// The time after which the service is restarted if something is still open: a code host may have asked it to wait.
const STALL: Duration = Duration::from_secs(120);

/// The number of such restarts without any progress after which a test fails.
const STALLS: u32 = 5;

/// The service, whose clock is later at each start.
pub(super) struct Restarts<'w> {
    world: &'w World,
    service: Mutex<Option<Service>>,
    starts: Mutex<u64>,
    client: reqwest::blocking::Client,
}

impl<'w> Restarts<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let new = Self { world, service: Mutex::default(), starts: Mutex::new(0), client: client() };
        new.restart();
        new.with(settle_quickly);
        new
    }

    /// Kills the service, and starts it again.
    pub(super) fn restart(&self) {
        if let Some(service) = self.service.lock().unwrap().take() {
            service.kill();
        }
        let mut starts = self.starts.lock().unwrap();
        *starts += 1;
        let mut wrapper = Command::new("env");
        wrapper.arg(format!("LD_PRELOAD={}", faketime().display())).arg(format!("FAKETIME=+{}s", PAUSE * *starts));
        wrapper.arg("FAKETIME_DONT_FAKE_MONOTONIC=1");
        *self.service.lock().unwrap() = Some(self.world.site.start_wrapped(wrapper));
    }

    /// Runs something with the service, which is not killed meanwhile.
    pub(super) fn with<T>(&self, run: impl FnOnce(&Service) -> T) -> T {
        run(self.service.lock().unwrap().as_ref().unwrap())
    }

    /// Sends a webhook until the service answers it; returns the number of attempts. The service may be killed meanwhile.
    pub(super) fn deliver(&self, delivery: &str, event: &str, body: &Value) -> u32 {
        let (text, end) = (body.to_string(), Instant::now() + PATIENCE);
        let signature = format!("sha256={}", signature(WEBHOOK_SECRET, text.as_bytes()));
        for attempt in 1.. {
            assert!(Instant::now() < end, "{delivery} is not answered");
            let url = self.service.lock().unwrap().as_ref().map(|service| service.url.clone());
            let Some(url) = url else { continue };
            let request = self.client.post(format!("{url}/hooks/github")).body(text.clone());
            let request = request.header("x-github-delivery", delivery).header("x-github-event", event);
            let request = request.header("x-hub-signature-256", &signature).header("content-type", "application/json");
            if let Ok(answer) = request.send() {
                assert_eq!(answer.status().as_u16(), 202, "{delivery}");
                return attempt;
            }
        }
        unreachable!("the loop ends at the time limit")
    }

    /// Waits until nothing is open. `open` says what is. If that does not change for a while, the service is killed once
    /// more.
    pub(super) fn until_nothing_is_open(&self, open: impl Fn(&Service) -> Vec<String>) {
        let (mut last, mut since, mut stalls) = (Vec::new(), Instant::now(), 0);
        loop {
            let now = self.with(&open);
            if now.is_empty() {
                return;
            }
            if now != last {
                (last, since, stalls) = (now, Instant::now(), 0);
            } else if since.elapsed() > STALL {
                (since, stalls) = (Instant::now(), stalls + 1);
                assert!(stalls < STALLS, "{last:#?}\n{}", self.with(Service::log));
                self.restart();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns all events of the inbox, oldest first.
pub(super) fn all_events(service: &Service) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("/v2/inbox?limit=100{cursor}"));
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    events.reverse();
    events
}

/// Returns a line for each event that is open.
pub(super) fn open_events(service: &Service) -> Vec<String> {
    let events = all_events(service).into_iter().filter(|event| event["outcome"].is_null());
    events.map(|event| event.to_string()).collect()
}
