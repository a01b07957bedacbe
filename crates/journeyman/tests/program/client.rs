//! Tests of `journeyman job`, as scripts use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::fixtures::{Service, Site, site};
use crate::binary::program;

fn job(site: &Site, service: &Service, arguments: &[&str]) -> Output {
    command(site, service, arguments).output().unwrap()
}

fn command(site: &Site, service: &Service, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("job").args(arguments).stdin(Stdio::null());
    command.env("JOURNEYMAN_URL", &service.url).env("JOURNEYMAN_KEY", &site.key).env("JOURNEYMAN_PROJECT", "shop");
    command
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_list_whose_reader_has_closed_the_pipe_is_not_an_error() {
    let site = site();
    let service = site.start();
    service.settled(&service.create("[[say x]]"));
    let mut listing = command(&site, &service, &["list"]);
    let mut listing = listing.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(listing.stdout.take());
    let ended = listing.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), err(&ended).as_str()), (Some(0), ""));
}

#[test]
fn a_job_is_created_watched_followed_up_and_archived() {
    let site = site();
    let service = site.start();
    let created = job(&site, &service, &["create", "Add a page\n[[write a.txt|one]][[say I did]]", "--watch"]);
    assert_eq!(created.status.code(), Some(0), "{}", err(&created));
    let transcript = out(&created);
    for part in ["> Add a page", "I did", "pull request opened", "status       completed"] {
        assert!(transcript.contains(part), "{part} is missing in {transcript}");
    }
    let listed = job(&site, &service, &["list", "--json"]);
    let record: Value = serde_json::from_str(out(&listed).lines().next().unwrap()).unwrap();
    let id = record["id"].as_str().unwrap();

    let mut sending = command(&site, &service, &["send", id, "-", "--watch"]);
    let mut sending = sending.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sending.stdin.take().unwrap().write_all(b"From stdin\n[[append a.txt|two]]").unwrap();
    let sent = sending.wait_with_output().unwrap();
    let transcript = out(&sent);
    assert!(
        transcript.starts_with("> From stdin"),
        "the transcript of a follow-up begins with its prompt: {transcript}"
    );
    assert!(transcript.contains("pull request updated"), "{transcript}");

    assert!(out(&job(&site, &service, &["diff", id])).ends_with("+one\n+two\n"));
    assert!(out(&job(&site, &service, &["messages", id])).contains("finished"));
    assert!(out(&job(&site, &service, &["runs", id])).contains("succeeded"));
    let archived: Value = serde_json::from_str(&out(&job(&site, &service, &["archive", id, "--json"]))).unwrap();
    assert_eq!(archived["status"], "archived");
    assert_eq!(job(&site, &service, &["send", id, "x"]).status.code(), Some(7));
    assert!(out(&job(&site, &service, &["unarchive", id])).contains("completed"));
    let watched = job(&site, &service, &["watch", id, "--json"]);
    let events = out(&watched).lines().filter(|line| line.contains("\"seq\"")).count();
    assert!(events > 10, "{}", out(&watched));
    let refused = job(&site, &service, &["delete", id]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(err(&refused).contains("confirm with --yes"), "{}", err(&refused));
    let deleted = job(&site, &service, &["delete", id, "--yes"]);
    assert_eq!(
        out(&deleted),
        format!("Deleted the job {id} with its messages, runs and events.\n"),
        "{}",
        err(&deleted)
    );
}

#[test]
fn a_command_ends_with_a_code_that_scripts_can_use() {
    let site = site();
    let service = site.start();
    let failed = job(&site, &service, &["create", "[[fail on purpose]]", "--wait", "--json"]);
    assert_eq!(failed.status.code(), Some(3), "{}", err(&failed));
    let record: Value = serde_json::from_str(&out(&failed)).unwrap();
    let id = record["id"].as_str().unwrap();
    assert!(out(&job(&site, &service, &["runs", id])).contains("on purpose"));
    assert_eq!(job(&site, &service, &["watch", id]).status.code(), Some(3));
    let shown = job(&site, &service, &["get", id, "--wait"]);
    assert_eq!(shown.status.code(), Some(3));
    let reason = out(&shown).lines().any(|line| line.starts_with("reason ") && line.contains("on purpose"));
    assert!(reason && out(&shown).contains("[[fail on purpose]]"), "{}", out(&shown));
    assert_eq!(job(&site, &service, &["get", "../../v2/keys"]).status.code(), Some(5));
    assert_eq!(job(&site, &service, &["get", id, "--project", "nowhere"]).status.code(), Some(5));
    let unknown = job(&site, &service, &["list", "--status", "done"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("active, completed, archived, failed"), "{}", err(&unknown));
    assert_eq!(job(&site, &service, &["list", "--limit", "0"]).status.code(), Some(2));
    assert!(out(&job(&site, &service, &["list", "--status", "failed", "--limit", "1"])).contains(id));
    assert!(!out(&job(&site, &service, &["list", "--status", "completed"])).contains(id));
    let refused = job(&site, &service, &["list", "--key", "jmn_x", "--json"]);
    assert_eq!(refused.status.code(), Some(4));
    let error: Value = serde_json::from_str(&err(&refused)).unwrap();
    assert_eq!(error["code"], "malformed_key");
    let unreachable = job(&site, &service, &["list", "--url", "http://127.0.0.1:1"]);
    assert_eq!(unreachable.status.code(), Some(6));
    assert!(
        err(&unreachable).contains("journeyman serve") && !err(&unreachable).contains(&site.key),
        "{}",
        err(&unreachable)
    );
    assert_eq!(
        command(&site, &service, &["list"]).env_remove("JOURNEYMAN_KEY").output().unwrap().status.code(),
        Some(2)
    );
    assert_eq!(job(&site, &service, &["list", "--url", "nonsense"]).status.code(), Some(2));
}

#[test]
fn invalid_requests_and_numbers_are_usage_errors() {
    let site = site();
    let service = site.start();
    for (arguments, text) in [
        (&["create", ""][..], "prompt"),
        (&["list", "--created-after", "yesterday"], "created"),
        (&["list", "--pull-request", "x"], "write the number of a pull request, such as 7"),
        (&["list", "--limit", "many"], "write a whole number"),
    ] {
        let refused = job(&site, &service, arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", err(&refused));
        assert!(err(&refused).contains(text), "{arguments:?}: {}", err(&refused));
    }
    let mut view = Command::new(program());
    let view = view.args(["pr", "view", "x", "--url", &service.url, "--key", &site.key]).output().unwrap();
    assert!(err(&view).contains("write the number of a pull request"), "{}", err(&view));
}

#[test]
fn an_action_on_a_job_says_what_it_has_done() {
    let site = site();
    let service = site.start();
    let path = service.create("[[say x]]");
    service.settled(&path);
    let id = path.rsplit('/').next().unwrap();
    let cancel = job(&site, &service, &["cancel", id]);
    let text = format!("The job {id} is already completed; nothing to cancel.\n");
    assert!(out(&cancel).starts_with(&text) && cancel.status.success(), "{}", out(&cancel));
    let retry = job(&site, &service, &["retry", id]);
    assert_eq!(retry.status.code(), Some(7), "{}", err(&retry));
    assert!(out(&retry).contains("is already completed; nothing to retry."), "{}", out(&retry));
    let sleeping = service.create("[[sleep 3600]]");
    service.until(&sleeping, "run.started", 1);
    let sleeping = sleeping.rsplit('/').next().unwrap();
    let canceled = job(&site, &service, &["cancel", sleeping]);
    assert!(out(&canceled).starts_with(&format!("Canceled the job {sleeping}.\n")), "{}", out(&canceled));
    let archived = job(&site, &service, &["archive", sleeping, "--json"]);
    let record: Value = serde_json::from_str(&out(&archived)).unwrap();
    assert_eq!(record["status"], "archived", "JSON has no sentence");
}

#[test]
fn a_client_survives_a_restart_of_its_server() {
    let site = site();
    let service = site.start();
    let address = service.url.trim_start_matches("http://").to_owned();
    let path = service.create("[[hold]][[write a.txt|a]]");
    let id = path.rsplit('/').next().unwrap();
    let mut watching = command(&site, &service, &["watch", id]).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdout, mut transcript) = (BufReader::new(watching.stdout.take().unwrap()), String::new());
    // After the first line, the client is connected.
    stdout.read_line(&mut transcript).unwrap();
    service.until(&path, "run.started", 1);
    service.kill();
    let service = site.start_at(&address);
    site.release(&service, &path);
    stdout.read_to_string(&mut transcript).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    assert_eq!(transcript.matches("attempt 1)").count(), 1, "no event is printed twice: {transcript}");
    assert!(transcript.contains("attempt 2)") && transcript.contains("completed"), "{transcript}");
}
