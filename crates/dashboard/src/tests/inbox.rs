//! Tests of the pages of the inbox.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::Method;
use journeyman_core::code_host::{CodeHost, CodeHostId, HostKind, HostName, PullState};
use journeyman_core::hook::{
    CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment, HostUser,
};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::inbox::{Content, Decision, InboxEvent, InboxState, NewEvent, Next, Outcome};
use journeyman_core::ports::{HookRefusal, Hooks, InboxStore as _, JobStore as _, RawHook, StoreError, VerifiedHook};
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;

use super::job::create_job;
use super::pulls::{Fake, detail};
use super::{Fixture, fixture, project};

/// Knows the code host `github`, and refuses all webhooks.
pub(super) struct Github;

#[async_trait]
impl Hooks for Github {
    async fn check_head(&self, _: &CodeHostId, _: Option<&ProjectId>, _: &RawHook) -> Result<(), HookRefusal> {
        Err(HookRefusal::NotFound)
    }

    async fn verify(&self, _: &CodeHostId, _: Option<&ProjectId>, _: &RawHook) -> Result<VerifiedHook, HookRefusal> {
        Err(HookRefusal::NotFound)
    }

    async fn host(&self, host: &CodeHostId, _: Option<&ProjectId>) -> Result<Option<CodeHost>, StoreError> {
        let found = CodeHost::of_address(host.clone(), HostKind::Github, "https://github.com".to_owned());
        Ok(Some(found).filter(|found| found.id.as_str() == "github"))
    }

    fn read(&self, _: &CodeHost, _: &str, _: &[u8]) -> Result<HookEvent, String> {
        Err("not used".to_owned())
    }
}

fn comment(path: &str, body: &str) -> HookEvent {
    let comment = HostComment {
        kind: CommentKind::Pull,
        id: "1".to_owned(),
        version: "1".to_owned(),
        url: format!("https://github.com/{path}/pull/7#issuecomment-1"),
        author: HostUser { id: "5".to_owned(), name: "maria".to_owned(), is_bot: false },
        body: body.to_owned(),
        position: None,
        hunk: None,
        thread: None,
        review: None,
    };
    HookEvent {
        repository: Some(EventRepository { id: "17".to_owned(), path: path.to_owned() }),
        sender: None,
        content: HookContent::Comment { number: 7, action: CommentAction::Created, comment },
    }
}

async fn shop() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

impl Fixture {
    /// Receives an event, and claims it.
    async fn received(&self, delivery: &str) -> InboxEvent {
        let event = NewEvent {
            host: HostName("github.com".to_owned()),
            code_host: Some("github".parse().unwrap()),
            project: None,
            delivery: delivery.to_owned(),
            event: "issue_comment".to_owned(),
            content: Content::Raw(Vec::new()),
            at: self.world.now(),
        };
        assert!(self.store.receive(event).await.unwrap());
        self.store.claim_events(self.world.now(), Duration::from_secs(30), 1).await.unwrap().remove(0)
    }

    /// Receives an event, and ends it.
    async fn ended(
        &self,
        delivery: &str,
        (project, job): (Option<ProjectId>, Option<JobId>),
        read: HookEvent,
        (state, outcome, detail): (InboxState, Outcome, Option<&str>),
    ) {
        let event = self.received(delivery).await;
        let next = Next::Ends { state, outcome, detail: detail.map(str::to_owned) };
        let decision = Decision { project, job, event: Some(Box::new(read)), subject: None, next };
        self.store.decide_event(event.number, event.attempts, decision).await.unwrap();
    }

    pub(super) async fn page(&self, role: Role, path: &str) -> String {
        self.send(Some(role), Method::GET, path, "").await.body
    }
}

fn shop_id() -> ProjectId {
    project().id
}

const IGNORED: InboxState = InboxState::Ignored;

#[tokio::test]
async fn an_event_is_shown_with_its_outcome_and_what_to_do() {
    let fixture = shop().await;
    let job = create_job(&fixture, "Fix the typo").await;
    let read = comment("acme/shop", "<!-- hidden --> @journeyman rename <b>it</b>\nplease");
    let why = "maria may not push to the repository";
    let outcome = (IGNORED, Outcome::NotPermitted, Some(why));
    fixture.ended("1", (Some(shop_id()), Some(job)), read, outcome).await;
    let page = fixture.page(Role::Viewer, "/projects/shop/inbox").await;
    for part in [
        "<a href=\"https://github.com/acme/shop/pull/7#issuecomment-1\"><bdi>Comment on #7</bdi></a>",
        "by <bdi>maria</bdi>",
        "<bdi>@journeyman rename &#60;b&#62;it&#60;/b&#62;</bdi>",
        "<span>github.com</span><span class=\"mono\"><bdi>acme/shop</bdi></span>",
        "<bdi>issue_comment</bdi>",
        "<strong>It is not permitted.</strong> The author needs write access to the repository.",
        "<bdi>(maria may not push to the repository)</bdi>",
        &format!("Job <a href=\"/projects/shop/jobs/{job}\"><bdi>Fix the typo</bdi></a>"),
        "<span class=\"badge archived\">ignored</span>",
        "<time datetime=\"2026-11-21T01:25:30.123Z\"",
        "aria-current=\"page\">",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("hidden --"), "{page}");
}

#[tokio::test]
async fn an_event_that_became_a_message_links_to_it() {
    let fixture = shop().await;
    let job = create_job(&fixture, "Fix the typo").await;
    let event = fixture.received("1").await;
    let until = fixture.world.now();
    let read = Some(Box::new(comment("acme/shop", "@journeyman go on")));
    let decision =
        Decision { project: Some(shop_id()), job: Some(job), event: read, subject: None, next: Next::Waits(until) };
    fixture.store.decide_event(event.number, event.attempts, decision).await.unwrap();
    let waiting = fixture.page(Role::Viewer, "/projects/shop/inbox").await;
    assert!(waiting.contains("Waits for other comments, to become one message with them."), "{waiting}");
    let message: MessageId = fixture.add_message_of(job, event.number).await;
    let page = fixture.page(Role::Viewer, "/projects/shop/inbox").await;
    assert!(page.contains("<strong>Sent to the job.</strong>"), "{page}");
    assert!(page.contains(&format!("<a href=\"/projects/shop/jobs/{job}#m-{message}\">Message</a>")), "{page}");
}

impl Fixture {
    /// Sends a message that is made of an event.
    async fn add_message_of(&self, job: JobId, event: u64) -> MessageId {
        let source = journeyman_core::message::MessageSource {
            origin: journeyman_core::message::Origin::Comment,
            newer: None,
            repository: journeyman_core::code_host::PullRepository::local("shop"),
            number: 7,
            id: "1".to_owned(),
            url: String::new(),
            author: None,
            comments: Vec::new(),
            inbox: vec![event],
            logs: Vec::new(),
            files: Vec::new(),
        };
        let prompt = journeyman_core::engine::Prompt { source: Some(Box::new(source)), ..super::job::prompt("go on") };
        let admission = journeyman_core::engine::Admission::default();
        self.engine.add_message(&shop_id(), job, prompt, admission).await.unwrap();
        self.store.messages(job).await.unwrap().last().unwrap().id
    }
}

#[tokio::test]
async fn administrators_can_create_a_project_for_an_unknown_repository() {
    let fixture = shop().await;
    let outcome = (IGNORED, Outcome::NoProject, Some("acme/Web_app"));
    fixture.ended("1", (None, None), comment("acme/Web_app", "@journeyman hi"), outcome).await;
    let page = fixture.page(Role::Administrator, "/system/inbox").await;
    assert!(page.contains("<strong>No project has this repository.</strong>"), "{page}");
    let form = "/projects/new?repository=https%3A%2F%2Fgithub.com%2Facme%2FWeb_app.git";
    assert!(page.contains(&format!("<a class=\"button small\" href=\"{form}\">")), "{page}");

    let new = fixture.page(Role::Administrator, form).await;
    for part in [
        "name=\"id\" class=\"mono\" value=\"web-app\"",
        "name=\"where\" value=\"remote\" checked",
        "name=\"repository\" class=\"mono\" value=\"https://github.com/acme/Web_app.git\"",
    ] {
        assert!(new.contains(part), "{part} is not in {new}");
    }
    let none = fixture.page(Role::Member, "/projects/shop/inbox").await;
    assert!(none.contains("No events yet") && !none.contains("/projects/new"), "{none}");

    // As soon as there is a project, the button disappears.
    let web = journeyman_core::project::Project::new(
        "web".parse().unwrap(),
        "git@github.com:acme/web_app.git",
        fixture.world.now(),
    );
    journeyman_testkit::Seeds::create_project(&*fixture.store, web, [].into()).await.unwrap();
    let page = fixture.page(Role::Administrator, "/system/inbox").await;
    assert!(!page.contains("/projects/new?"), "{page}");
}

#[tokio::test]
async fn the_list_is_filtered_by_state_and_outcome_and_has_pages() {
    let fixture = shop().await;
    for number in 0..60 {
        let outcome = if number % 2 == 0 { Outcome::NotAddressed } else { Outcome::NoJob };
        let read = comment("acme/shop", &format!("number {number}."));
        fixture.ended(&number.to_string(), (Some(shop_id()), None), read, (IGNORED, outcome, None)).await;
    }
    fixture.received("last").await;
    let first = fixture.page(Role::Member, "/projects/shop/inbox").await;
    assert_eq!(first.matches("<li class=\"row top event\">").count(), 50, "{first}");
    assert!(first.contains("number 59.") && first.contains("rel=\"next\" href=\"/projects/shop/inbox?before=11\""));
    let second = fixture.page(Role::Member, "/projects/shop/inbox?before=11").await;
    assert!(second.contains("number 9.") && !second.contains("number 10."), "{second}");
    assert!(second.contains("<a class=\"button small\" href=\"/projects/shop/inbox\">Newest</a>"), "{second}");

    let filtered = fixture.page(Role::Member, "/projects/shop/inbox?state=ignored&outcome=no_job").await;
    assert_eq!(filtered.matches("<li class=\"row top event\">").count(), 30, "{filtered}");
    for part in [
        "<option value=\"no_job\" selected>",
        "name=\"state\" value=\"ignored\"",
        "href=\"/projects/shop/inbox?state=ignored&#38;outcome=no_job\" aria-current=\"true\">Ignored</a>",
    ] {
        assert!(filtered.contains(part), "{part} is not in {filtered}");
    }
    let none = fixture.page(Role::Member, "/projects/shop/inbox?state=failed").await;
    assert!(none.contains("No matching events"), "{none}");
    let all = fixture.page(Role::Administrator, "/system/inbox?state=received").await;
    assert!(all.contains("<strong>Not read yet.</strong>") && !all.contains("number 59."), "{all}");
}
