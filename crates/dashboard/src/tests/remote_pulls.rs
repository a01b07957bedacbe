//! Tests of the list of pull requests on a remote code host.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::{HostName, PullRef, PullRepository, PullState};
use journeyman_core::engine::{Admission, NewJob};
use journeyman_core::ids::JobId;
use journeyman_core::job::JobOptions;
use journeyman_core::poll::{Poll, PollProblem};
use journeyman_core::ports::{JobStore, PollStore, ProjectStore};
use journeyman_core::project::Project;
use journeyman_core::pull::Pull;
use journeyman_core::pull::existing::ExistingPull;
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;

use super::job::prompt;
use super::pulls::{Fake, assert_harmless, detail, hostile};
use super::{Fixture, START, fixture};

const LIST: &str = "/projects/remote/pulls";

/// Returns a fixture with the project `remote`, whose repository is on a remote code host.
async fn remote() -> Fixture {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    for (id, repository) in [("remote", "https://git.example/acme/shop"), ("path", "/srv/shop.git")] {
        let project = Project::new(id.parse().unwrap(), repository, START);
        fixture.store.create_project(project, [].into()).await.unwrap();
    }
    fixture
}

fn repository() -> PullRepository {
    PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() }
}

impl Fixture {
    /// Creates a job that works on a pull request of the project `remote`.
    async fn on_pull(&self, number: u64, text: &str, change: impl FnOnce(&mut Pull)) -> JobId {
        self.world.advance(Duration::from_secs(1));
        let project = self.store.project("remote".parse().unwrap()).await.unwrap().unwrap();
        let known = Pull::new(number, format!("https://git.example/acme/shop/pull/{number}"));
        let mut pull = Pull { repository: Some(repository()), title: Some(text.to_owned()), ..known };
        change(&mut pull);
        let (head, base) = (format!("branch-{number}"), "main".to_owned());
        let existing = Some(Box::new(ExistingPull { pull, head, head_sha: None, base }));
        let options = JobOptions { pull: existing, ..JobOptions::default() };
        let new = NewJob { options, ..NewJob::new(prompt(&format!("Job {number}"))) };
        self.engine.create_job(&project, new, Admission::default()).await.unwrap().record.id
    }

    async fn list(&self, query: &str) -> String {
        let page = self.send(Some(Role::Viewer), Method::GET, &format!("{LIST}{query}"), "").await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.body);
        page.body
    }
}

/// Returns the row of polls that have failed this number of times.
fn failing(failures: u32) -> Poll {
    let problem = PollProblem { text: "the code host did not find <it>: acme/shop".to_owned(), since: START };
    Poll {
        project: "remote".parse().unwrap(),
        host: repository().host,
        cursor: None,
        next_at: START,
        pulls: 1,
        quiet: 0,
        failures,
        problem: Some(problem),
        version: u64::from(failures),
    }
}

#[tokio::test]
async fn the_pages_of_a_project_say_that_its_repository_cannot_be_read() {
    let fixture = remote().await;
    let pages = [LIST, "/projects/remote/jobs", "/projects/remote/settings/repository"];
    let notice = "id=\"problem\"";
    fixture.store.put_poll(failing(1)).await.unwrap();
    for path in pages {
        let page = fixture.send(Some(Role::Administrator), Method::GET, path, "").await.body;
        assert!(!page.contains(notice), "one failure may be an outage of a moment: {path} {page}");
    }
    fixture.store.put_poll(failing(2)).await.unwrap();
    for path in pages {
        let page = fixture.send(Some(Role::Administrator), Method::GET, path, "").await.body;
        assert!(page.contains(notice), "{path} {page}");
        assert!(page.contains("The code host did not find &#60;it&#62;: acme/shop."), "{path} {page}");
        assert!(page.contains("<a href=\"/projects/remote/settings/repository\">settings</a>"), "{path} {page}");
    }
    let other = fixture.send(Some(Role::Viewer), Method::GET, LIST, "").await.body;
    assert!(other.contains("An administrator can check the address"), "{other}");
}

#[tokio::test]
async fn the_list_shows_each_pull_request_of_a_remote_code_host() {
    let fixture = remote().await;
    fixture.on_pull(1, "Fix the typo", |pull| pull.draft = true).await;
    let job = fixture.on_pull(2, "Add a test", |_| {}).await;
    let old = fixture.on_pull(3, "", |pull| pull.title = None).await;
    let merged = PullRef { repository: repository(), number: 3 };
    let project = "remote".parse().unwrap();
    fixture.engine.record_pull(&project, old, merged, PullState::Merged, false, None).await.unwrap();
    let page = fixture.list("").await;
    for part in [
        "<title>Pull requests · remote · Journeyman</title>".to_owned(),
        "href=\"https://git.example/acme/shop/pull/1\"><bdi>Fix the typo</bdi></a>".to_owned(),
        "#1 <span class=\"word\">Draft</span></span>".to_owned(),
        "#2 <span class=\"word\">Open</span></span>".to_owned(),
        "<bdi>branch-2</bdi>".to_owned(),
        format!("Job <a href=\"/projects/remote/jobs/{job}\"><bdi>Job 2</bdi></a>"),
        "<div class=\"row-side\"><span class=\"badge queued\">job waits</span></div>".to_owned(),
        ">2 open</a>".to_owned(),
        ">1 merged</a>".to_owned(),
        ">0 closed</a>".to_owned(),
        "<a href=\"/projects/remote/pulls\" aria-current=\"page\">".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} is not in {page}");
    }
    assert!(page.find("Add a test") < page.find("Fix the typo"), "the newest is first: {page}");
    let merged = fixture.list("?state=merged").await;
    assert!(merged.contains("pull/3\"><bdi>Job 3</bdi></a>"), "an unknown title is that of the job: {merged}");
    assert!(merged.contains("<span>merged <time") && !merged.contains("Fix the typo"), "{merged}");
    assert!(fixture.list("?state=closed").await.contains("No closed pull requests"));
}

#[tokio::test]
async fn a_long_list_has_pages() {
    let fixture = remote().await;
    for number in 1..=27 {
        fixture.on_pull(number, &format!("Title {number}."), |_| {}).await;
    }
    let first = fixture.list("").await;
    assert_eq!(first.matches("<li class=\"row pullrow\">").count(), 25);
    let (_, href) = first.split_once("rel=\"next\" href=\"").unwrap();
    let query = href.split_once('"').unwrap().0.strip_prefix(LIST).unwrap().to_owned();
    let second = fixture.list(&query).await;
    assert!(second.contains("Title 2.") && second.contains("Title 1.") && !second.contains("Title 3."), "{second}");
    assert!(second.contains(">Newest</a>") && !second.contains(">Older</a>"), "{second}");
}

#[tokio::test]
async fn an_empty_list_explains_the_next_step() {
    let fixture = remote().await;
    let page = fixture.list("").await;
    assert!(page.contains("Send a job.") && page.contains("/v2/agent/remote/job"), "{page}");
}

#[tokio::test]
async fn a_repository_on_the_server_has_no_list() {
    let fixture = remote().await;
    let jobs = fixture.send(Some(Role::Viewer), Method::GET, "/projects/path/jobs", "").await;
    assert!(!jobs.body.contains("/projects/path/pulls"), "{}", jobs.body);
    let list = fixture.send(Some(Role::Viewer), Method::GET, "/projects/path/pulls", "").await;
    assert_eq!(list.status, StatusCode::NOT_FOUND);
    assert!(list.body.contains("a path on the server, and has no pull requests"), "{}", list.body);
}

#[tokio::test]
async fn texts_of_the_code_host_are_escaped_and_only_web_pages_are_links() {
    let fixture = remote().await;
    fixture.on_pull(1, &hostile("title"), |pull| pull.url = "javascript:alert(1)".to_owned()).await;
    let page = fixture.list("").await;
    assert_harmless(&page, &["title"]);
    assert!(!page.contains("javascript:"), "{page}");
}

#[tokio::test]
async fn a_new_job_may_ask_the_code_host_to_merge() {
    let fixture = remote().await;
    let offers = async |project: &str| {
        let path = format!("/projects/{project}/jobs/new?auto-merge=on");
        fixture.send(Some(Role::Member), Method::GET, &path, "").await.body.contains("name=\"auto-merge\" checked")
    };
    assert!(offers("remote").await);
    assert!(!offers("shop").await, "the built-in code host does not merge by itself");
    for (form, expected) in [("prompt=x&auto-merge=on", Some(true)), ("prompt=x", None)] {
        let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/remote/jobs", form).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
        let id: JobId = sent.header("location").rsplit('/').next().unwrap().parse().unwrap();
        let job = fixture.store.job(id).await.unwrap().unwrap();
        assert_eq!(job.options.auto_merge, expected, "{form}");
    }
}
