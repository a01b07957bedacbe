//! A client that records every answer, for the checks after a storm.

use std::time::{Duration, Instant};

use journeyman_testkit::PATIENCE;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::program::fixtures::client;

/// The outcome of a message, as far as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The service accepted the message: the job must have it.
    Accepted,
    /// The answer was lost or left the outcome open: the job may have the message.
    Unclear,
    /// The service refused the message: the job must not have it.
    Refused,
}

/// A message, as its client recorded it.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) text: String,
    pub(super) known: Known,
}

/// A job, as its client recorded it, with its messages in the order of sending.
#[derive(Debug)]
pub(super) struct SentJob {
    pub(super) path: String,
    pub(super) messages: Vec<Sent>,
}

/// The outcome of a request.
enum Answer {
    Success(Value),
    Refused,
    Unclear,
}

pub(super) struct Client {
    number: u64,
    rng: StdRng,
    http: reqwest::blocking::Client,
    key: String,
    urls: Vec<String>,
    count: u64,
    pub(super) jobs: Vec<SentJob>,
    pub(super) log: Vec<String>,
}

impl Client {
    pub(super) fn new(number: u64, seed: u64, key: &str, urls: &[String]) -> Self {
        let rng = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number));
        let (key, urls) = (key.to_owned(), urls.to_vec());
        Self { number, rng, http: client(), key, urls, count: 0, jobs: Vec::new(), log: Vec::new() }
    }

    /// Creates jobs and sends messages until `end`.
    pub(super) fn work(&mut self, end: Instant) {
        while Instant::now() < end {
            if self.jobs.is_empty() || self.jobs.len() < 6 && self.rng.random_bool(0.15) {
                self.create();
            } else if self.rng.random_bool(0.1) {
                self.cancel();
            } else {
                self.send();
            }
            let pause = self.rng.random_range(50..1200);
            std::thread::sleep(Duration::from_millis(pause));
        }
    }

    /// Returns a line that no other prompt has, and a prompt that appends it to a file.
    fn prompt(&mut self) -> (String, String) {
        self.count += 1;
        let name = format!("c{}m{}", self.number, self.count);
        let sleep = self.rng.random_range(0..6);
        (name.clone(), format!("[[append log.txt|{name}]][[sleep 0.{sleep}]]"))
    }

    fn create(&mut self) {
        let (text, prompt) = self.prompt();
        // Always use an idempotency key: without one, the client could not identify a job whose answer was lost.
        let answer = self.send_until_accepted("/v2/agent/shop/job", &json!({ "prompt": prompt }), &text);
        if let Some(record) = answer {
            let path = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
            self.jobs.push(SentJob { path, messages: vec![Sent { text, known: Known::Accepted }] });
        }
    }

    /// Cancels a random job. Regardless of the answer, each message must then be finished with its commits, or
    /// cancelled without commits.
    fn cancel(&mut self) {
        let job = self.rng.random_range(0..self.jobs.len());
        let path = format!("{}/cancel", self.jobs[job].path);
        self.call(&path, &json!({}), None);
    }

    fn send(&mut self) {
        let job = self.rng.random_range(0..self.jobs.len());
        let (text, prompt) = self.prompt();
        let path = format!("{}/message", self.jobs[job].path);
        let body = json!({ "prompt": prompt });
        let known = if self.rng.random_bool(0.5) {
            match self.send_until_accepted(&path, &body, &text) {
                Some(_) => Known::Accepted,
                None => Known::Unclear,
            }
        } else {
            match self.call(&path, &body, None) {
                Answer::Success(_) => Known::Accepted,
                Answer::Refused => Known::Refused,
                Answer::Unclear => Known::Unclear,
            }
        };
        self.jobs[job].messages.push(Sent { text, known });
    }

    /// Sends a request with an idempotency key to random machines until one of them accepts it; returns `None` if none
    /// does within [`PATIENCE`].
    fn send_until_accepted(&mut self, path: &str, body: &Value, key: &str) -> Option<Value> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Answer::Success(record) = self.call(path, body, Some(key)) {
                return Some(record);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        None
    }

    fn call(&mut self, path: &str, body: &Value, key: Option<&str>) -> Answer {
        let url = &self.urls[self.rng.random_range(0..self.urls.len())];
        let mut request = self.http.post(format!("{url}{path}")).bearer_auth(&self.key).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().and_then(|answer| Ok((answer.status().as_u16(), answer.json::<Value>()?)));
        let outcome = match &answer {
            Ok((status, body)) => format!("{status} {}", body["code"]),
            Err(error) => format!("no answer: {error}"),
        };
        self.log.push(format!("{path} {body} key {key:?}: {outcome}"));
        match answer {
            Ok((200 | 201, record)) => Answer::Success(record),
            // The error promises that nothing was stored.
            Ok((503 | 429 | 409, _)) => Answer::Refused,
            Ok((504, _)) | Err(_) => Answer::Unclear,
            Ok((status, body)) => panic!("unexpected answer: {status} {body}"),
        }
    }
}
