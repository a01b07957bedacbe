//! Tests of comments and reviews on the built-in code host.

use journeyman_testkit::until;
use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, site};

/// A signed-in user of the dashboard.
pub(super) struct DashboardUser {
    cookie: String,
    client: reqwest::blocking::Client,
}

impl DashboardUser {
    pub(super) fn new(site: &Site, service: &Service, name: &str, role: &str) -> Self {
        let cookie = service.use_link(&site.succeed(&["user", "add", name, "--role", role]));
        let client = client();
        Self { cookie, client }
    }

    pub(super) fn read(&self, service: &Service, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", service.url)).header("cookie", &self.cookie);
        request.send().unwrap().text().unwrap()
    }

    /// Sends a form; returns the status.
    pub(super) fn submit(&self, service: &Service, path: &str, form: &str) -> u16 {
        let request = self.client.post(format!("{}{path}", service.url)).header("cookie", &self.cookie);
        let request = request.header("origin", &service.url).body(form.to_owned());
        let answer = request.header("content-type", "application/x-www-form-urlencoded").send().unwrap();
        answer.status().as_u16()
    }

    /// Waits until a page contains a text; returns the page.
    pub(super) fn until(&self, service: &Service, path: &str, text: &str) -> String {
        until(&format!("{text:?} is on the page {path}"), || {
            let page = self.read(service, path);
            page.contains(text).then_some(page)
        })
    }
}

fn messages(service: &Service, job: &str) -> Vec<Value> {
    service.get(&format!("{job}/messages"))["messages"].as_array().unwrap().clone()
}

/// Waits until all events of the inbox have an outcome.
fn until_decided(service: &Service) {
    until("all events have an outcome", || {
        let events = service.get("/v2/projects/shop/inbox")["events"].take();
        events.as_array().unwrap().iter().all(|event| !event["outcome"].is_null()).then_some(())
    });
}

const PULL: &str = "/projects/shop/pulls/1";

#[test]
fn a_comment_on_the_dashboard_reaches_the_job_and_is_answered_there_also_after_a_crash() {
    let site = site();
    let service = site.start();
    let job = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let (ada, eve) =
        (DashboardUser::new(&site, &service, "ada", "member"), DashboardUser::new(&site, &service, "eve", "viewer"));
    assert_eq!(eve.submit(&service, &format!("{PULL}/comments"), "body=@journeyman+stop"), 403);
    assert_eq!(ada.submit(&service, &format!("{PULL}/comments"), "body=Looks+good"), 303);
    // Otherwise, the lease of the killed service delays this event.
    until_decided(&service);
    let form = "body=Please,+@journeyman,+[[append+hello.txt|Goodbye]]&once=k1";
    assert_eq!(ada.submit(&service, &format!("{PULL}/comments"), form), 303);
    service.kill();
    let service = site.start();
    assert_eq!(ada.submit(&service, &format!("{PULL}/comments"), form), 303, "it is sent again");
    let page = ada.until(&service, PULL, "✅ Done in ");
    assert_eq!(page.matches(" sent to the agent</span>").count(), 1, "{page}");
    assert_eq!(page.matches("id=\"c-").count(), 3, "two comments, and one answer: {page}");
    assert_eq!(service.settled(&job)["status"], "completed");
    assert_eq!(site.file(&site.branch(), "hello.txt").as_deref(), Some("Hello\nGoodbye\n"));
    let messages = messages(&service, &job);
    assert_eq!(messages.len(), 2, "{messages:#?}");
    let (message, source) = (&messages[1], &messages[1]["source"]);
    assert_eq!((&message["origin"], &message["author"]), (&json!("comment"), &json!("ada")), "{message:#}");
    assert_eq!(source["author"]["permission"], "write", "{message:#}");
    assert!(source["url"].as_str().unwrap().ends_with("/projects/shop/pulls/1#c-2"), "{message:#}");
    let events = service.get("/v2/projects/shop/inbox");
    let outcomes: Vec<&Value> = events["events"].as_array().unwrap().iter().map(|event| &event["outcome"]).collect();
    assert_eq!(outcomes, ["message", "not_addressed"], "the answer is not an event: {events:#}");
}

#[test]
fn a_review_of_lines_becomes_one_message() {
    let site = site();
    let service = site.start();
    let job = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    assert_eq!(service.settled(&job)["status"], "completed");
    let ada = DashboardUser::new(&site, &service, "ada", "member");
    let lines = format!("{PULL}/lines");
    for form in [
        "path=hello.txt&side=new&line=1&as=draft&body=Say+more.",
        "path=hello.txt&side=new&line=1&as=draft&body=And+politely.",
    ] {
        assert_eq!(ada.submit(&service, &lines, form), 303);
    }
    let missing = "path=hello.txt&side=new&line=7&as=draft&body=Where%3F";
    assert_eq!(ada.submit(&service, &lines, missing), 422);
    assert_eq!(service.get("/v2/projects/shop/inbox")["events"], json!([]), "drafts are private");
    let review = "body=[[append+hello.txt|Goodbye]]";
    assert_eq!(ada.submit(&service, &format!("{PULL}/review"), review), 303);
    let page = ada.until(&service, PULL, "✅ Done in ");
    assert!(page.contains("<span>reviewed</span>") && page.contains(" sent to the agent</span>"), "{page}");
    service.settled(&job);
    let messages = messages(&service, &job);
    assert_eq!((messages.len(), &messages[1]["origin"]), (2, &json!("review")), "{messages:#?}");
    let prompt = messages[1]["prompt"].as_str().unwrap();
    for part in
        ["(3 comments)", "on `hello.txt`, line 1 (ada)", "@@ -0,0 +1 @@\n+Hello\n", "Say more.", "And politely."]
    {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}

#[test]
fn a_mention_on_a_pull_request_that_a_person_has_opened_starts_a_job() {
    let site = site();
    let service = site.start();
    let ada = DashboardUser::new(&site, &service, "ada", "member");
    let clone = super::person::RemoteUser::at(&site, &service);
    clone.git("", &["clone", "--quiet", &format!("{}/git/shop.git", service.url), "work"]);
    std::fs::write(clone.path("work/list.txt"), "b\na\n").unwrap();
    clone.git("work", &["add", "list.txt"]);
    clone.git("work", &["commit", "--quiet", "-m", "Add a list"]);
    clone.git("work", &["push", "--quiet", "origin", "HEAD:sort"]);
    assert_eq!(ada.submit(&service, "/projects/shop/pulls", "title=Sort&head=sort"), 303);
    let form = "body=Please,+@journeyman,+[[append+list.txt|c]]";
    assert_eq!(ada.submit(&service, &format!("{PULL}/comments"), form), 303);
    ada.until(&service, PULL, "✅ Done in ");
    let jobs = service.get("/v2/agent/shop/jobs")["jobs"].take();
    assert_eq!((jobs.as_array().unwrap().len(), &jobs[0]["source"]["ref"]), (1, &json!("sort")), "{jobs}");
    assert_eq!(site.file("sort", "list.txt").as_deref(), Some("b\na\nc\n"));
}
