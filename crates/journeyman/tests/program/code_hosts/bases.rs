//! Tests of pull requests on code hosts that conflict with the branch that they are merged into.

use hyper::http::Method;
use journeyman_testkit::code_host::{Fault, Product};
use serde_json::{Value, json};

use super::{PATH, World, until, until_inbox};
use crate::program::fixtures::{Service, git_command};

/// What an agent does that merges the newest base and keeps both sides.
const RESOLVE: &str = "[[run git merge -q origin/main || printf 'Good day and hello\\n' > hello.txt; \
                       git commit -qam 'Merge main']]";

impl World {
    /// Changes a file in a branch, as a person.
    fn people_commit(&self, branch: &str, file: &str, text: &str) {
        self.runtime.block_on(self.host.commit(PATH, branch, file, text));
    }

    /// Returns whether the code host can merge its only pull request: git finds no conflict.
    fn is_mergeable(&self, branch: &str) -> bool {
        let mut merge = git_command(&self.host.git_dir(PATH), &["merge-tree", "--write-tree", "main", branch]);
        merge.output().unwrap().status.success()
    }

    /// Creates a job that writes `hello.txt`, to which people then write something else in `main`. Returns its path and
    /// the name of its branch.
    fn two_sides(&self, service: &Service) -> (String, String) {
        let prompt = json!({ "prompt": "Add a greeting\n[[write hello.txt|Hello]]" });
        let (status, record) = service.call("POST", "/v2/agent/web/job", Some(prompt));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
        assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
        let branch = pull(service, &job)["head"].as_str().unwrap().to_owned();
        self.people_commit("main", "hello.txt", "Good day\n");
        (job, branch)
    }
}

impl Service {
    /// Changes the project, which has its pull requests compared.
    pub(super) fn configure_web(&self, settings: Value) {
        let (status, body) = self.call("PATCH", "/v2/projects/web", Some(settings));
        assert_eq!(status, 200, "{body}");
    }
}

/// Waits until the only pull request of a job is as expected, and returns it.
fn until_pull(service: &Service, job: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    until("the pull request is not as expected", service, || Some(pull(service, job)).filter(&is_expected))
}

/// Returns the only pull request of a job.
fn pull(service: &Service, job: &str) -> Value {
    service.get(&format!("{job}/pulls"))["pulls"][0].clone()
}

#[test]
fn a_follow_up_resolves_a_conflict_on_every_code_host() {
    for product in [
        Product::Github,
        Product::Gitlab,
        Product::Gitea,
        Product::Forgejo,
        Product::Bitbucket,
        Product::BitbucketDataCenter,
    ] {
        let world = World::of(product, "", "off");
        let service = world.site.start();
        let (job, branch) = world.two_sides(&service);
        assert!(!world.is_mergeable(&branch), "{product:?}");
        service.configure_web(json!({ "pullRequest": { "keepUpToDate": "off" } }));
        let shown = until_pull(&service, &job, |pull| pull["behind"] == 1);
        assert_eq!(shown["conflicts"], json!({ "files": ["hello.txt"], "more": 0 }), "{product:?}: {shown}");
        assert_eq!((&shown["behind"], &shown["base"]), (&json!(1), &json!("main")), "{product:?}: {shown}");
        let listed = service.get("/v2/projects/web/pulls")["pulls"][0].clone();
        assert_eq!(listed["conflicts"], shown["conflicts"], "{product:?}: {listed}");
        service.send(&job, &format!("Resolve the conflicts\n{RESOLVE}"));
        assert_eq!(service.settled(&job)["status"], "completed", "{product:?}: {:#}", service.events(&job));
        assert!(world.is_mergeable(&branch), "{product:?}");
        assert_eq!(world.file(&branch, "hello.txt"), "Good day and hello\n", "{product:?}");
        let shown = until_pull(&service, &job, |pull| pull["behind"] == 0);
        assert_eq!(shown["conflicts"], json!({ "files": [], "more": 0 }), "{product:?}: {shown}");
    }
}

#[test]
fn a_webhook_about_a_push_to_the_base_shows_the_conflict() {
    let world = World::new();
    let service = world.start();
    let (job, _) = world.two_sides(&service);
    // The comparison after the push of the job has ended.
    until_pull(&service, &job, |pull| pull["comparedAt"].is_string());
    world.people_commit("main", "hello.txt", "Good evening\n");
    let maria = world.user("maria", "write");
    let body = world.body(maria, json!({ "ref": "refs/heads/main", "commits": [] }));
    world.deliver_all(&service, "push", &[body]);
    until_inbox(&service, &["comparison_queued"]);
    let shown = until_pull(&service, &job, |pull| pull["behind"] == 2);
    assert_eq!(shown["conflicts"], json!({ "files": ["hello.txt"], "more": 0 }), "{shown}");
    assert_eq!(shown["notCompared"], Value::Null, "{shown}");
}

#[test]
fn a_comment_has_a_conflict_resolved() {
    let world = World::new();
    let service = world.start();
    let (job, branch) = world.two_sides(&service);
    let number = pull(&service, &job)["number"].as_u64().unwrap();
    let maria = world.user("maria", "write");
    let (_, body) = world.comment(number, maria, &format!("@journeyman-bot resolve the conflicts {RESOLVE}"));
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["message"]);
    until("no answer", &service, || Some(world.answers()).filter(|answers| !answers.is_empty()));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert!(world.is_mergeable(&branch));
}

#[test]
fn a_code_host_that_does_not_answer_takes_no_result_away() {
    let world = World::new();
    let service = world.start();
    let (job, _) = world.two_sides(&service);
    let before = until_pull(&service, &job, |pull| pull["comparedAt"].is_string());
    service.kill();
    // Another process does not remember the pull request.
    let service = world.start();
    world.host.fault(Fault::FailsBefore, Method::GET, "/pulls/", 100);
    service.configure_web(json!({ "pullRequest": { "keepUpToDate": "off" } }));
    service.until_log("a pull request was not compared with its base");
    let shown = pull(&service, &job);
    assert_eq!((&shown["state"], &shown["behind"]), (&json!("open"), &before["behind"]), "{shown}");
    assert_eq!(shown["comparedAt"], before["comparedAt"], "{shown}");
}

/// Lets the service keep the pull requests of the project up to date, with this limit of automatic messages in a day.
fn keep_up_to_date(service: &Service, most: u32) {
    let settings = json!({ "pullRequest": { "keepUpToDate": "conflicts" }, "limits": { "automaticPerDay": most } });
    service.configure_web(settings);
}

fn origins(service: &Service, job: &str) -> Vec<Value> {
    let messages = service.get(&format!("{job}/messages"))["messages"].clone();
    messages.as_array().unwrap().iter().map(|message| message["origin"].clone()).collect()
}

#[test]
fn the_service_asks_for_an_update_and_answers_on_the_code_host() {
    let world = World::new();
    let service = world.start();
    let (job, _) = world.two_sides(&service);
    keep_up_to_date(&service, 1);
    service.until(&job, "pull_request.outdated", 1);
    // The agent of the tests does nothing without a directive, so the conflict stays.
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    until("no answer", &service, || (world.answers().len() == 1).then_some(()));
    assert_eq!(origins(&service, &job), ["api", "update"]);
}

#[test]
fn the_service_says_that_the_limit_of_automatic_messages_is_used_up() {
    let world = World::new();
    let service = world.start();
    let (job, _) = world.two_sides(&service);
    keep_up_to_date(&service, 0);
    service.until(&job, "pull_request.outdated", 1);
    until("no comment", &service, || {
        let text = "the limit of automatic messages in a day is used up";
        world.answers().iter().any(|answer| answer.contains(text)).then_some(())
    });
    assert_eq!(origins(&service, &job), ["api"]);
}
