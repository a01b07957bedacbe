//! A client that writes down what it was answered: the witness of a storm.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// What a client knows of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It was answered with success: it must be there.
    Accepted,
    /// The answer was lost: it may be there.
    Unclear,
    /// It was refused: it must not be there.
    Refused,
}

/// A message as its client remembers it, in the order of sending.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) text: String,
    pub(super) known: Known,
}

/// A job as its client remembers it.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) path: String,
    pub(super) messages: Vec<Sent>,
}

/// What became of a request.
enum Answer {
    Success(Value),
    Refused,
    Unclear,
}

pub(super) struct Client {
    number: u64,
    chance: StdRng,
    http: reqwest::blocking::Client,
    key: String,
    urls: Vec<String>,
    count: u64,
    pub(super) jobs: Vec<Remembered>,
    pub(super) log: Vec<String>,
}

impl Client {
    pub(super) fn new(number: u64, seed: u64, key: &str, urls: &[String]) -> Self {
        let http = reqwest::blocking::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
        let chance = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number));
        let (key, urls) = (key.to_owned(), urls.to_vec());
        Self { number, chance, http, key, urls, count: 0, jobs: Vec::new(), log: Vec::new() }
    }

    /// Creates jobs and sends messages until `end`.
    pub(super) fn work(&mut self, end: Instant) {
        while Instant::now() < end {
            if self.jobs.is_empty() || self.jobs.len() < 6 && self.chance.random_bool(0.15) {
                self.create();
            } else if self.chance.random_bool(0.1) {
                self.cancel();
            } else {
                self.send();
            }
            let pause = self.chance.random_range(50..1200);
            std::thread::sleep(Duration::from_millis(pause));
        }
    }

    /// A prompt whose effect is one line of its own.
    fn prompt(&mut self) -> (String, String) {
        self.count += 1;
        let name = format!("c{}m{}", self.number, self.count);
        let sleep = self.chance.random_range(0..6);
        (name.clone(), format!("[[append log.txt|{name}]][[sleep 0.{sleep}]]"))
    }

    fn create(&mut self) {
        let (text, prompt) = self.prompt();
        // Always with a key: a job whose answer is lost could not be told from another's.
        let answer = self.insist("/v2/agent/shop/job", &json!({ "prompt": prompt }), &text);
        if let Some(record) = answer {
            let path = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
            self.jobs.push(Remembered { path, messages: vec![Sent { text, known: Known::Accepted }] });
        }
    }

    /// Cancels a random job. Whatever the answer, a message is finished with its commits or cancelled without any.
    fn cancel(&mut self) {
        let job = self.chance.random_range(0..self.jobs.len());
        let path = format!("{}/cancel", self.jobs[job].path);
        self.call(&path, &json!({}), None);
    }

    fn send(&mut self) {
        let job = self.chance.random_range(0..self.jobs.len());
        let (text, prompt) = self.prompt();
        let path = format!("{}/message", self.jobs[job].path);
        let body = json!({ "prompt": prompt });
        let known = if self.chance.random_bool(0.5) {
            match self.insist(&path, &body, &text) {
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

    /// Sends with an idempotency key until there is an answer, to whichever machine; `None` after a minute.
    fn insist(&mut self, path: &str, body: &Value, key: &str) -> Option<Value> {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Answer::Success(record) = self.call(path, body, Some(key)) {
                return Some(record);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        None
    }

    fn call(&mut self, path: &str, body: &Value, key: Option<&str>) -> Answer {
        let url = &self.urls[self.chance.random_range(0..self.urls.len())];
        let mut request = self.http.post(format!("{url}{path}")).bearer_auth(&self.key).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().and_then(|answer| Ok((answer.status().as_u16(), answer.json::<Value>()?)));
        let told = match &answer {
            Ok((status, body)) => format!("{status} {}", body["code"]),
            Err(error) => format!("no answer: {error}"),
        };
        self.log.push(format!("{path} {body} key {key:?}: {told}"));
        match answer {
            Ok((200 | 201, record)) => Answer::Success(record),
            // "Nothing was stored."
            Ok((503 | 429 | 409, _)) => Answer::Refused,
            Ok((504, _)) | Err(_) => Answer::Unclear,
            Ok((status, body)) => panic!("an answer that makes no sense: {status} {body}"),
        }
    }
}
