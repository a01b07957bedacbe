//! Checks after a storm: compares the state that the HTTP interface and the git repository show with the records of the
//! clients.

use std::collections::BTreeSet;

use serde_json::Value;

use super::client::{Known, SentJob};
use crate::program::fixtures::{Service, Site, git};

/// Returns a description of each broken promise; empty if the service kept all of them.
pub(super) fn breaches(site: &Site, service: &Service, jobs: &[SentJob]) -> Vec<String> {
    let mut breaches = Vec::new();
    for job in jobs {
        let mut breach = |text: String| breaches.push(format!("{}: {text}", job.path));
        let record = service.get(&job.path);
        if record["status"] == "active" {
            breach(format!("is still active: {:#}", service.events(&job.path)));
            continue;
        }
        let messages = service.get(&format!("{}/messages", job.path))["messages"].as_array().unwrap().clone();
        check_messages(job, &messages, &mut breach);
        check_branch(site, job, &messages, &mut breach);
        let opened = service.count(&job.path, "pull_request.opened");
        if opened > 1 {
            breach(format!("{opened} pull requests were opened"));
        }
        check_log(service, job, &mut breach);
    }
    let pulls = git(&site.repository(), &["for-each-ref", "--format=%(refname:short)", "refs/heads/journeyman"]);
    for name in pulls.lines().filter(|name| name.contains("-conflict-")) {
        breaches.push(format!("the branch {name}: the service conflicted with its own push"));
    }
    breaches
}

/// Returns the line that a message's prompt appends.
fn text_of(message: &Value) -> String {
    let prompt = message["prompt"].as_str().unwrap();
    prompt.split(['|', ']']).nth(1).unwrap_or(prompt).to_owned()
}

/// Checks that the job has each accepted message once, in the order of sending, and no refused message.
fn check_messages(job: &SentJob, messages: &[Value], breach: &mut impl FnMut(String)) {
    let stored: Vec<String> = messages.iter().map(text_of).collect();
    let once: BTreeSet<&String> = stored.iter().collect();
    if once.len() != stored.len() {
        breach(format!("a message is stored twice: {stored:?}"));
    }
    // A message with an unclear outcome may be stored or not.
    let is_expected = |sent: &super::client::Sent| match sent.known {
        Known::Accepted => true,
        Known::Refused => false,
        Known::Unclear => stored.contains(&sent.text),
    };
    let expected: Vec<&String> = job.messages.iter().filter(|sent| is_expected(sent)).map(|sent| &sent.text).collect();
    if expected != stored.iter().collect::<Vec<_>>() {
        breach(format!("sent and answered: {expected:?}\nstored: {stored:?}\nrecorded: {:?}", job.messages));
    }
    for message in messages {
        match message["status"].as_str().unwrap() {
            // A client cancelled or withdrew the message; `check_branch` checks that it had no effect.
            "finished" | "cancelled" | "withdrawn" => {}
            // A message may fail after several of its workers died.
            "failed" => {}
            other => breach(format!("{} is still {other}", text_of(message))),
        }
    }
}

/// Checks that the branch has the line of each finished message once and in order, and that the receipts name the
/// commits of the branch.
fn check_branch(site: &Site, job: &SentJob, messages: &[Value], breach: &mut impl FnMut(String)) {
    let id = job.path.rsplit('/').next().unwrap();
    let repository = site.repository();
    let heads = git(&repository, &["for-each-ref", "--format=%(refname)", "refs/heads/journeyman"]);
    let short = &id[id.len() - 6..];
    let own: Vec<&str> = heads.lines().filter(|name| name.contains(short)).collect();
    let finished: Vec<&Value> = messages.iter().filter(|message| message["status"] == "finished").collect();
    let [branch] = own.as_slice() else {
        if !finished.is_empty() || !own.is_empty() {
            breach(format!("has the branches {own:?} and {} finished messages", finished.len()));
        }
        return;
    };
    let file = site.file(branch, "log.txt").unwrap_or_default();
    let optional: BTreeSet<String> =
        messages.iter().filter(|message| message["status"] == "failed").map(text_of).collect();
    let lines: Vec<String> = file.lines().map(str::to_owned).filter(|line| !optional.contains(line)).collect();
    let expected: Vec<String> = finished.iter().map(|message| text_of(message)).collect();
    if lines != expected {
        breach(format!("the branch has {lines:?}, but the finished messages are {expected:?}"));
    }
    let commits = git(&repository, &["rev-list", "--reverse", &format!("main..{branch}")]);
    let receipts: Vec<&str> = messages
        .iter()
        .flat_map(|message| message["commits"].as_array().unwrap())
        .map(|commit| commit.as_str().unwrap())
        .collect();
    if receipts != commits.lines().collect::<Vec<_>>() {
        breach(format!("the receipts name {receipts:?}, the branch has {:?}", commits.lines().collect::<Vec<_>>()));
    }
}

/// Checks that the log has no gaps, that runs do not overlap, and that each run ends.
fn check_log(service: &Service, job: &SentJob, breach: &mut impl FnMut(String)) {
    let (mut after, mut open) = (0, None);
    loop {
        let page = service.get(&format!("{}/events?limit=1000&after={after}", job.path));
        let events = page["events"].as_array().unwrap();
        for event in events {
            let seq = event["seq"].as_u64().unwrap();
            if seq != after + 1 {
                breach(format!("the log goes from {after} to {seq}"));
            }
            after = seq;
            let run = event["runId"].as_str().map(str::to_owned);
            match event["type"].as_str().unwrap() {
                "run.started" if open.is_some() => breach(format!("two runs at once: {open:?} and {run:?}")),
                "run.started" => open = run,
                "run.finished" if open != run => breach(format!("a run ended that had not started: {run:?}")),
                "run.finished" => open = None,
                kind if run.is_some() && open != run => breach(format!("{kind} of a run that is not active: {run:?}")),
                _ => {}
            }
        }
        if events.is_empty() {
            break;
        }
    }
    if open.is_some() {
        breach(format!("the run {open:?} never ended"));
    }
}
