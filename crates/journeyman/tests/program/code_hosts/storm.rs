//! Tests of jobs on a code host that fails, while the service is killed at random times.

use std::collections::BTreeSet;
use std::time::Duration;

use hyper::http::Method;
use journeyman_testkit::code_host::{Fault, Issue};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::restarts::{Restarts, open_events};
use super::{PATH, World, prompts};
use crate::program::fixtures::{Service, git};
use crate::storm::parameter;

/// The faults of the code host.
const FAULTS: [Fault; 6] = [
    Fault::FailsBefore,
    Fault::FailsAfter,
    Fault::ClosesBefore,
    Fault::ClosesAfter,
    Fault::RateLimited(1),
    Fault::RateLimitedSilently,
];

/// The requests that fail.
const REQUESTS: [(Method, &str); 8] = [
    (Method::POST, "/pulls"),
    (Method::POST, "/pulls"),
    (Method::GET, "/pulls"),
    (Method::POST, "/comments"),
    (Method::GET, "/comments"),
    (Method::POST, "/reactions"),
    (Method::GET, "/permission"),
    (Method::POST, "/statuses"),
];

#[test]
fn kills_and_faults_of_the_code_host_lose_nothing_and_repeat_nothing() {
    storm(1, 3);
}

/// Reads `ROUNDS` and `SEED` from the environment; see the Makefile.
#[test]
#[ignore = "kills the service ROUNDS times: make chaos-hosts ROUNDS=30 SEED=1"]
fn many_kills_and_faults_of_the_code_host_lose_nothing_and_repeat_nothing() {
    storm(parameter("SEED", 1), u32::try_from(parameter("ROUNDS", 30)).unwrap());
}

/// In each round, an issue becomes a job, and comments and a review arrive for the first job.
fn storm(seed: u64, rounds: u32) {
    let world = World::with("create-per-hour = 0\nmessage-per-hour = 0\n");
    let service = Restarts::new(&world);
    let mut random = StdRng::seed_from_u64(seed);
    let (job, number) = service.with(|service| world.job(service, "Begin\n[[append log.txt|begin]]"));
    let maria = world.user("maria", "write");
    for round in 0..rounds {
        for _ in 0..3 {
            let (method, part) = REQUESTS[random.random_range(0..REQUESTS.len())].clone();
            world.host.fault(FAULTS[random.random_range(0..FAULTS.len())], method, part, 1);
        }
        for (event, body) in round_of(&world, round, number, maria) {
            let delivery = format!("{round}-{event}-{}", random.random_range(0..u64::MAX));
            service.deliver(&delivery, event, &body);
            if random.random_bool(0.3) {
                // A second subscription.
                service.deliver(&format!("{delivery}-again"), event, &body);
            }
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..3000)));
        service.restart();
    }
    service.until_nothing_is_open(|service| open(&world, service));
    service.with(|service| check(&world, service, &job, rounds));
}

/// Returns the events of a round: a comment, a review with two comments, and an issue.
fn round_of(world: &World, round: u32, number: u64, maria: u64) -> [(&'static str, Value); 3] {
    let comment = world.comment(number, maria, &format!("@journeyman-bot [[append log.txt|comment-{round}]]")).1;
    let lines = [format!("[[append log.txt|line-{round}-a]]"), format!("[[append log.txt|line-{round}-b]]")];
    let review = world.review(number, maria, &lines.each_ref().map(String::as_str));
    let text = format!("[[append log.txt|issue-{round}]]");
    let label = "journeyman".to_owned();
    let issue = {
        let mut state = world.host.state();
        let repository = state.by_path(PATH).unwrap();
        // Far from the numbers of pull requests that are being opened.
        let number = 1000 + u64::from(round);
        let (title, labels) = (format!("Issue {round}"), vec![label.clone()]);
        let issue = Issue { number, title, body: text, author: maria, labels, editors: Vec::new() };
        repository.issues.push(issue.clone());
        issue
    };
    let url = format!("{}/{PATH}/issues/{}", world.host.url, issue.number);
    let user = world.sender(maria);
    let issue = json!({ "number": issue.number, "title": issue.title, "body": issue.body, "html_url": url, "user": user,
        "labels": [{ "name": label }] });
    let issue = world.body(maria, json!({ "action": "labeled", "label": { "name": label }, "issue": issue }));
    [("issue_comment", comment), ("pull_request_review", review), ("issues", issue)]
}

/// Returns what is open: events, active jobs, and messages without an answer.
fn open(world: &World, service: &Service) -> Vec<String> {
    let mut open = open_events(service);
    let answered = markers(world, "answer");
    let replied: BTreeSet<u64> = world.replies().into_iter().map(|(to, _)| to).collect();
    let reviews = world.host.state().by_path(PATH).unwrap().reviews.clone();
    for line in reviews.iter().flat_map(|review| &review.comments).filter(|line| !replied.contains(&line.id)) {
        open.push(format!("no reply: {}", line.id));
    }
    for job in jobs(service) {
        let record = service.get(&job);
        if record["status"] == "active" {
            open.push(format!("active: {:#}", service.get(&format!("{job}/details"))));
        }
        let messages = from_host(service, &job);
        for message in messages.iter().filter(|message| !answered.iter().any(|id| message["id"] == id.as_str())) {
            open.push(format!("no answer: {message}"));
        }
    }
    open
}

fn jobs(service: &Service) -> Vec<String> {
    let page = service.get("/v2/agent/web/jobs?limit=100");
    let jobs = page["jobs"].as_array().unwrap().iter();
    jobs.map(|job| format!("/v2/agent/web/job/{}", job["id"].as_str().unwrap())).collect()
}

/// Returns the messages of a job that came from the code host.
fn from_host(service: &Service, job: &str) -> Vec<Value> {
    let messages = service.get(&format!("{job}/messages"))["messages"].take();
    messages.as_array().unwrap().iter().filter(|message| !message["source"].is_null()).cloned().collect()
}

/// Returns the markers of a kind in the comments of the service.
fn markers(world: &World, kind: &str) -> Vec<String> {
    let start = format!("<!-- journeyman:{kind}:");
    let marker = |text: &String| Some(text.split_once(&start)?.1.split(' ').next().unwrap().to_owned());
    world.answers().iter().filter_map(marker).collect()
}

fn check(world: &World, service: &Service, first: &str, rounds: u32) {
    let jobs = jobs(service);
    assert_eq!(jobs.len(), 1 + rounds as usize, "a job for each issue");
    let mut messages = 0;
    let mut branches = BTreeSet::new();
    for job in &jobs {
        let record = service.get(job);
        assert_eq!(record["status"], "completed", "{record:#}\n{:#}", service.events(job));
        let link = record["prLink"].as_str().unwrap();
        let number = link.rsplit('/').next().unwrap().parse().unwrap();
        let branch = world.branch(number);
        let file = world.file(&branch, "log.txt");
        assert!(branches.insert(branch), "{job} shares its branch");
        let mut lines: Vec<&str> = file.lines().collect();
        lines.sort_unstable();
        let all = prompts(service, job).join("\n");
        let mut tasks: Vec<&str> = all.split("|").skip(1).map(|rest| rest.split_once("]]").unwrap().0).collect();
        tasks.sort_unstable();
        assert_eq!(lines, tasks, "{job}: each task is carried out once");
        messages += from_host(service, job).len();
        if job == first {
            assert_eq!(tasks.len(), 1 + 3 * rounds as usize, "each comment is there once: {tasks:?}");
        }
    }
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    let heads: BTreeSet<String> = pulls.iter().map(|pull| pull.head.clone()).collect();
    assert_eq!((pulls.len(), &heads), (jobs.len(), &branches), "one pull request for each branch");
    let pushed =
        git(&world.host.git_dir(PATH), &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/journeyman"]);
    assert_eq!(pushed.lines().map(str::to_owned).collect::<BTreeSet<_>>(), branches);
    let found = markers(world, "answer");
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (messages, messages), "{found:?}");
    let replies = world.replies();
    let threads: BTreeSet<u64> = replies.iter().map(|(to, _)| *to).collect();
    assert_eq!((replies.len(), threads.len()), (2 * rounds as usize, 2 * rounds as usize), "{replies:?}");
}
