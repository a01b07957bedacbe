//! Tests of failed checks: their repair, and its end.

use journeyman_testkit::code_host::Check;
use serde_json::{Value, json};

use super::{PATH, World, prompts, until};
use crate::program::fixtures::{Service, git};

impl World {
    /// Returns the newest commit of a pull request.
    fn head(&self, number: u64) -> String {
        let branch = self.branch(number);
        self.runtime.block_on(self.host.head(PATH, &branch)).unwrap()
    }

    /// Reports a check of a commit, also with a webhook.
    fn check(&self, service: &Service, sha: &str, name: &str, passed: bool, log: &str) {
        let id = self.host.state().id();
        let (sha, name, log) = (sha.to_owned(), name.to_owned(), log.to_owned());
        let check = Check { id, sha: sha.clone(), name, passed: Some(passed), log };
        self.host.state().by_path(PATH).unwrap().checks.push(check);
        let maria = self.user("maria", "write");
        self.deliver_all(service, "check_run", &[self.body(maria, json!({ "check_run": { "head_sha": sha } }))]);
    }
}

fn react(service: &Service, mode: &str) {
    let settings = json!({ "checks": { "mode": mode, "settleSeconds": 0 } });
    let (status, body) = service.call("PATCH", "/v2/projects/web", Some(settings));
    assert_eq!(status, 200, "{body}");
}

/// Waits for a result of the checks of a commit, and returns the checks.
fn result(service: &Service, job: &str, sha: &str, result: &str) -> Value {
    until(&format!("the checks of {sha} are not {result}"), service, || {
        let checks = service.get(&format!("{job}/checks"));
        (checks["sha"] == sha && checks["result"] == result).then_some(checks)
    })
}

#[test]
fn failed_checks_are_repaired_until_they_fail_in_the_same_way() {
    let world = World::new();
    let service = world.start();
    react(&service, "fix");
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let first = world.head(number);
    // The test model carries out directives, wherever they are.
    let name = "test [[run cat ~/ci/*.log >> log.txt]]";
    world.check(&service, &first, name, false, "test greeting ... FAILED\n");
    service.until(&job, "checks.settled", 1);
    until("no repair was requested", &service, || (prompts(&service, &job).len() == 2).then_some(()));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let message = &service.get(&format!("{job}/messages"))["messages"][1];
    assert_eq!((&message["origin"], &message["source"]["id"]), (&json!("check"), &json!(first)), "{message}");
    let second = world.head(number);
    assert_ne!(first, second, "the repair was pushed");
    let repository = world.host.git_dir(PATH);
    let log = git(&repository, &["show", &format!("{second}:log.txt")]);
    assert_eq!(log, "test greeting ... FAILED\n", "the agent got the log");

    world.check(&service, &second, name, false, "test greeting ... FAILED\n");
    let checks = result(&service, &job, &second, "failed");
    assert_eq!((&checks["stop"], &checks["attempts"]), (&json!("same_failure"), &json!(1)), "{checks}");
    assert_eq!(prompts(&service, &job).len(), 2, "no other attempt");
    until("the comment is missing", &service, || {
        let text = "they fail in the same way as before my last attempt";
        (world.answers().iter().filter(|answer| answer.contains(text)).count() == 1).then_some(())
    });
}

#[test]
fn the_result_of_checks_is_only_reported_unless_the_project_wants_repairs() {
    let world = World::new();
    let service = world.start();
    react(&service, "report");
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let sha = world.head(number);
    world.check(&service, &sha, "lint", true, "");
    world.check(&service, &sha, "test", false, "FAILED");
    let checks = result(&service, &job, &sha, "failed");
    let states = json!([
        checks["checks"][0]["name"],
        checks["checks"][0]["state"],
        checks["checks"][1]["name"],
        checks["checks"][1]["state"],
    ]);
    assert_eq!(states, json!(["test", "failed", "lint", "passed"]), "{checks}");
    assert_eq!((prompts(&service, &job).len(), &checks["stop"]), (1, &Value::Null));
    let message = service.get(&format!("{job}/messages"))["messages"][0].clone();
    assert_eq!(message["checks"], json!(["test failed", "lint passed"]), "{message}");
    let receipt = service.get(&format!("{job}/message/{}", message["id"].as_str().unwrap()));
    assert_eq!(receipt, message);
    // The checks of an earlier commit are not known any more.
    service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let messages = service.get(&format!("{job}/messages"));
    assert_eq!(messages["messages"][0]["checks"], Value::Null, "{messages}");
}
