//! Tests of `journeyman template`, and of jobs that are created from a template.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::fixtures::{Service, Site, site};
use crate::binary::program;

fn command(site: &Site, service: &Service, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null());
    command.env("JOURNEYMAN_URL", &service.url).env("JOURNEYMAN_KEY", &site.key).env("JOURNEYMAN_PROJECT", "shop");
    command
}

fn run(site: &Site, service: &Service, arguments: &[&str]) -> Output {
    command(site, service, arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn templates_are_created_listed_changed_and_deleted() {
    let site = site();
    let service = site.start();
    let template = |arguments: &[&str]| run(&site, &service, &[&["template"], arguments].concat());
    let empty = out(&template(&["list"]));
    assert_eq!(empty, "No templates in shop; `journeyman template create` creates one.\n");

    let created = out(&template(&["create", "Fix a bug", "Fix it:\n[[say done]]", "--label", "bug", "--label", "ui"]));
    for part in ["Fix a bug", "bug, ui", "Fix it:\n[[say done]]"] {
        assert!(created.contains(part), "{part}: {created}");
    }
    let mut piped = command(&site, &service, &["template", "create", "Piped", "-", "--json"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"From stdin").unwrap();
    let piped = piped.wait_with_output().unwrap();
    let made: Value = serde_json::from_slice(&piped.stdout).unwrap();
    assert_eq!(made["prompt"], "From stdin");

    let table = out(&template(&["list"]));
    assert!(table.starts_with("NAME") && table.lines().count() == 3, "{table}");
    let set = ["update", "fix a BUG", "--model", "test/scripted", "--description", "d", "--label", ""];
    let set: Value = serde_json::from_str(&out(&template(&[&set[..], &["--json"]].concat()))).unwrap();
    assert_eq!(
        (&set["model"], &set["labels"], &set["name"]),
        (&json!("test/scripted"), &json!([]), &json!("Fix a bug"))
    );
    let id = set["id"].as_str().unwrap();
    let reset: Value = serde_json::from_str(&out(&template(&["update", id, "--model", "", "--json"]))).unwrap();
    assert_eq!((&reset["model"], &reset["description"]), (&Value::Null, &json!("d")));

    assert!(out(&template(&["show", id])).contains("Fix it:"));
    assert_eq!(out(&template(&["delete", "Piped", "--yes"])), "Deleted the template Piped.\n");
    for missing in [&["show", "Piped"][..], &["delete", "none such", "--yes"]] {
        let missing = template(missing);
        assert_eq!((missing.status.code(), err(&missing).contains("no such template")), (Some(5), true), "{missing:?}");
    }
    let taken = template(&["create", "FIX A BUG", "x"]);
    assert_eq!((taken.status.code(), err(&taken).contains("already exists")), (Some(7), true), "{taken:?}");
}

#[test]
fn a_job_is_created_from_a_template_and_its_options_come_first() {
    let site = site();
    let service = site.start();
    let settings = ["--label", "bug", "--model", "test/other"];
    out(&run(&site, &service, &[&["template", "create", "Greet", "Greet [[say hello]]"], &settings[..]].concat()));
    let details = |arguments: &[&str]| {
        let made = out(&run(&site, &service, &[&["job", "create", "--json"], arguments].concat()));
        let record: Value = serde_json::from_str(&made).unwrap();
        let path = format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap());
        let messages = service.get(&format!("{path}/messages"));
        let details = service.get(&format!("{path}/details"));
        (messages["messages"][0]["prompt"].clone(), details["model"].clone(), details["labels"].clone())
    };
    let from_template = details(&["--template", "greet"]);
    assert_eq!(from_template, (json!("Greet [[say hello]]"), json!("test/other"), json!(["bug"])));
    let own = details(&["Hi [[say hi]]", "--template", "Greet", "--model", "test/scripted", "--label", "own"]);
    assert_eq!(own, (json!("Hi [[say hi]]"), json!("test/scripted"), json!(["own"])));

    let none = run(&site, &service, &["job", "create"]);
    assert_eq!(none.status.code(), Some(2), "a prompt or a template is needed");
    let missing = run(&site, &service, &["job", "create", "--template", "none"]);
    assert_eq!((missing.status.code(), err(&missing).contains("no such template")), (Some(5), true), "{missing:?}");
}
