//! Tests of the home page and of the page of a project without jobs.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::audit::AuditFilter;
use journeyman_core::code_host::{PullRef, PullRepository, PullState};
use journeyman_core::engine::{Admission, NewJob, Prompt};
use journeyman_core::ids::{JobId, Sha, TrustId, WorkerId};
use journeyman_core::import::ImportProgress;
use journeyman_core::job::command::{Outcome, Published, Report};
use journeyman_core::job::event::TranscriptKind;
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::ports::{
    ImportStore as _, JobFilter, JobLists as _, JobStore as _, KeyStore as _, PullPagesError, UserStore as _,
};
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_testkit::{FakeForges, Seeds as _};
use serde_json::json;
use uuid::Uuid;

use super::job::{prompt, running_job};
use super::pulls::{Fake, comparison, detail, job_with_pull};
use super::{Fixture, Reply, START, audit_entry, empty_fixture, fixture, project};

async fn shop() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn see(fixture: &Fixture, role: Role, path: &str) -> String {
    let reply = fixture.send(Some(role), Method::GET, path, "").await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.body);
    reply.body
}

/// Creates a job of this author that fails for this reason.
async fn failed(fixture: &Fixture, author: &str, reason: Reason) -> JobId {
    let prompt = Prompt { author: Some(author.to_owned()), ..prompt("Move the session store") };
    let created = fixture.engine.create_job(&project(), NewJob::new(prompt), Admission::default()).await.unwrap();
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = fixture.engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(claimed.job.id, created.record.id);
    let finished = Report::Finished { outcome: Outcome::Failed { reason, retry: None }, usage: Usage::default() };
    fixture.engine.report(claimed.job.id, claimed.lease.token, finished).await.unwrap();
    claimed.job.id
}

/// Creates a job of this author that completes without a pull request.
async fn completed(fixture: &Fixture, author: &str, title: &str) -> JobId {
    let prompt = Prompt { author: Some(author.to_owned()), ..prompt(title) };
    fixture.engine.create_job(&project(), NewJob::new(prompt), Admission::default()).await.unwrap();
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = fixture.engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
    let base: Sha = "a".repeat(40).parse().unwrap();
    let begun = TurnBegun {
        branch: "journeyman/x".into(),
        generation: 1,
        base: base.clone(),
        head: base.clone(),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    let (artifacts, ending) = (TurnArtifacts::default(), Ending::Done);
    let ended = Report::TurnEnded { head: base, commits: Vec::new(), artifacts, ending };
    let outcome = Outcome::Published { pushed: None, pull: Published::Nothing };
    for report in [Report::TurnBegun(begun), ended, Report::Finished { outcome, usage: Usage::default() }] {
        fixture.engine.report(claimed.job.id, claimed.lease.token, report).await.unwrap();
    }
    claimed.job.id
}

#[tokio::test]
async fn home_shows_the_latest_completed_jobs_without_an_open_pull_request() {
    let fixture = shop().await;
    let (reviewed, number) = job_with_pull(&fixture).await;
    let row = |id: JobId| format!("id=\"finished-shop/{id}\"");
    let before = see(&fixture, Role::Member, "/?whose=everybody").await;
    assert!(!before.contains("id=\"finished\""), "an open pull request needs a review: {before}");
    let pull = PullRef { repository: PullRepository::local("shop"), number };
    let merged = PullState::Merged;
    fixture.engine.record_pull(&project().id, reviewed, pull, merged, false, None).await.unwrap();
    let own = completed(&fixture, "member", "Explain the build").await;
    let page = see(&fixture, Role::Member, "/").await;
    let mark = "<span class=\"mark completed\"><span class=\"unseen\">completed</span></span>";
    assert!(page.contains(&format!("{}>{mark}", row(own))), "{page}");
    assert!(page.contains("<bdi>Explain the build</bdi>") && !page.contains(&row(reviewed)), "{page}");
    super::audit::key(&fixture, "ci").await;
    let of_key = see(&fixture, Role::Administrator, "/").await;
    assert!(of_key.contains(&row(reviewed)) && !of_key.contains(&row(own)), "the job of an own key: {of_key}");
    let all = see(&fixture, Role::Viewer, "/?whose=everybody").await;
    assert!(all.contains(&row(reviewed)) && all.contains(&row(own)), "{all}");
    for number in 0..5 {
        fixture.world.advance(Duration::from_secs(1));
        completed(&fixture, "ci", &format!("Task {number}")).await;
    }
    let five = see(&fixture, Role::Viewer, "/?whose=everybody").await;
    assert_eq!(five.matches("id=\"finished-shop/").count(), 5, "{five}");
    assert!(!five.contains(&row(own)), "{five}");
    let positions: Vec<usize> = (0..5).rev().map(|number| five.find(&format!("Task {number}")).unwrap()).collect();
    assert!(positions.is_sorted(), "the newest is first: {five}");
    let nothing = see(&fixture, Role::Viewer, "/").await;
    assert!(!nothing.contains("id=\"finished\""), "{nothing}");
}

#[tokio::test]
async fn an_empty_installation_says_what_to_do_first() {
    let fixture = shop().await;
    fixture.store.delete_project(project().id).await.unwrap();
    let page = see(&fixture, Role::Administrator, "/").await;
    assert!(page.contains("<h1>Welcome to Journeyman</h1>") && page.contains("href=\"/projects/new\""), "{page}");
    let viewer = see(&fixture, Role::Viewer, "/").await;
    assert!(
        viewer.contains("Only administrators can create projects.") && !viewer.contains("/projects/new"),
        "{viewer}"
    );
}

#[tokio::test]
async fn home_shows_failures_with_their_remedy_and_only_those_of_the_viewer_unless_asked() {
    let fixture = shop().await;
    let reason = || Reason::new(ReasonCode::ModelUnauthorized, "Anthropic <refused> the key\nand more");
    let own = failed(&fixture, "administrator", reason()).await;
    let other = failed(&fixture, "ci", Reason::new(ReasonCode::OutOfMemory, "out of memory (4 GiB)")).await;
    let page = see(&fixture, Role::Administrator, "/").await;
    for part in [
        "Anthropic &#60;refused&#62; the key</bdi>",
        &format!("href=\"/projects/shop/jobs/{own}\"><bdi>Move the session store</bdi>"),
        "href=\"/projects/shop/settings/environment\">Fix key<",
        "<span class=\"count hot\">1</span>",
        "<a href=\"/\" aria-current=\"true\">Mine</a>",
        "No job is running.",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains(&other.to_string()), "{page}");
    let all = see(&fixture, Role::Viewer, "/?whose=everybody").await;
    assert!(all.contains(&own.to_string()) && all.contains(&other.to_string()), "{all}");
    assert!(!all.contains("Fix key"), "a viewer cannot change the settings: {all}");
    assert!(!all.contains("Try again"), "a viewer cannot send messages: {all}");
    let member = see(&fixture, Role::Member, "/?whose=everybody").await;
    let action = |id: JobId| format!("<form method=\"post\" action=\"/projects/shop/jobs/{id}/again\">");
    assert!(member.contains(&action(other)) && !member.contains(&action(own)), "a setting is the remedy: {member}");
    let message = fixture.store.messages(other).await.unwrap().remove(0).id;
    let body = format!("message={message}&once=again-{message}");
    assert!(member.contains(&format!("value=\"again-{message}\"")), "{member}");
    let path = format!("/projects/shop/jobs/{other}");
    let sent = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/again"), &body).await;
    assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, path.as_str()));
    assert_eq!(fixture.store.messages(other).await.unwrap().len(), 2);
    let nothing = see(&fixture, Role::Viewer, "/").await;
    assert!(nothing.contains("None of your jobs has failed"), "{nothing}");
}

#[tokio::test]
async fn jobs_of_an_api_key_belong_to_the_user_who_created_the_key() {
    let fixture = shop().await;
    let reason = || Reason::new(ReasonCode::OutOfMemory, "out of memory (4 GiB)");
    let id = failed(&fixture, "ci", reason()).await.to_string();
    let sees = async |role, path| see(&fixture, role, path).await.contains(&id);
    assert!(!sees(Role::Administrator, "/").await, "the key has no owner");
    let owner = fixture.store.user_by_name("administrator".into()).await.unwrap().unwrap().id;
    let new =
        NewKey { name: "ci".into(), scopes: vec![Scope::Jobs], projects: None, expires_at: None, allowed_ips: None };
    let trust = TrustId::from_uuid(Uuid::from_u128(1)).to_string();
    let (exchanged, _) = new.make((&trust, Some(owner)), START, &*fixture.world).unwrap();
    fixture.store.create_key(exchanged, audit_entry()).await.unwrap();
    assert!(!sees(Role::Administrator, "/").await, "a trust has created the key");
    super::audit::key(&fixture, "ci").await;
    assert!(sees(Role::Administrator, "/").await);
    assert!(!sees(Role::Member, "/").await, "another user");
    assert!(sees(Role::Member, "/?whose=everybody").await);
}

#[tokio::test]
async fn a_failed_message_is_sent_again_although_a_later_one_was_withdrawn() {
    let fixture = shop().await;
    let id = super::job::running_job(&fixture, "Move the session store", Vec::new()).await;
    let later = fixture.engine.add_message(&project().id, id, prompt("And then"), Admission::default()).await.unwrap();
    let running = fixture.store.job(id).await.unwrap().unwrap();
    let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::OutOfMemory, "out of memory"), retry: None };
    let finished = Report::Finished { outcome, usage: Usage::default() };
    fixture.engine.report(id, running.lease().unwrap().token, finished).await.unwrap();
    fixture.engine.withdraw(&project().id, id, later.message.unwrap()).await.unwrap();
    let failed = fixture.store.messages(id).await.unwrap().remove(0).id;
    let page = see(&fixture, Role::Member, "/?whose=everybody").await;
    assert!(page.contains(&format!("name=\"message\" value=\"{failed}\"")), "{page}");
}

#[tokio::test]
async fn pull_requests_with_conflicts_come_before_those_to_review() {
    let fixture = fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let (_, number) = job_with_pull(&fixture).await;
    let conflicts = Conflicts { files: vec!["a.rs".into(), "b.rs".into()], more: 0 };
    fixture.comparisons.put(number, comparison(1, conflicts));
    let page = see(&fixture, Role::Member, "/?whose=everybody").await;
    assert!(!page.contains("conflicts with its base"), "it was not compared yet: {page}");
    fixture.compare().await;
    let page = see(&fixture, Role::Member, "/?whose=everybody").await;
    for part in [
        "<span class=\"sign warn\">",
        "conflicts with its base in 2 files",
        &format!("href=\"/projects/shop/pulls/{number}#merge\">Resolve<span"),
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let viewer = see(&fixture, Role::Viewer, "/?whose=everybody").await;
    assert!(viewer.contains("conflicts with its base") && !viewer.contains(">Resolve<"), "{viewer}");
}

#[tokio::test]
async fn pull_requests_whose_repository_cannot_be_read_wait_for_a_review() {
    let fixture = fixture(Arc::new(Fake::failing(&PullPagesError::Failed("/srv/secret".into())))).await;
    let (_, number) = job_with_pull(&fixture).await;
    let page = see(&fixture, Role::Member, "/?whose=everybody").await;
    assert!(page.contains(&format!("href=\"/projects/shop/pulls/{number}\">Review<span")), "{page}");
    assert!(!page.contains("/srv/secret"), "{page}");
}

#[tokio::test]
async fn cancelled_jobs_need_nobody() {
    let fixture = shop().await;
    let id = super::job::create_job(&fixture, "Try an arena").await;
    fixture.engine.cancel(&project().id, id).await.unwrap();
    let page = see(&fixture, Role::Administrator, "/?whose=everybody").await;
    assert!(!page.contains("Try an arena"), "{page}");
}

#[tokio::test]
async fn home_shows_open_pull_requests_and_the_progress_of_running_jobs() {
    let fixture = shop().await;
    let (_, number) = job_with_pull(&fixture).await;
    let step = |status: &str| json!({"content": "x", "status": status});
    let id = running_job(
        &fixture,
        "Add a timeout",
        vec![
            (TranscriptKind::Plan, json!({"entries": [step("completed"), step("in_progress"), step("pending")]})),
            (TranscriptKind::ToolCall, json!({"toolCallId": "1", "title": "cargo <test>", "status": "in_progress"})),
        ],
    )
    .await;
    super::job::create_job(&fixture, "Waits").await;
    let page = see(&fixture, Role::Member, "/?whose=everybody").await;
    for part in [
        ">Review<span class=\"unseen\">",
        &format!("href=\"/projects/shop/pulls/{number}\"><bdi>#{number} Fix the typo</bdi>"),
        &format!("href=\"/projects/shop/jobs/{id}\"><bdi>Add a timeout</bdi>"),
        "<span class=\"mono\"><bdi>cargo &#60;test&#62;</bdi></span>",
        "<meter class=\"meter share\" min=\"0\" max=\"3\" value=\"1\" aria-label=\"Steps of the plan\">1 of 3</meter>",
        "data-clock=\"2026-",
        "1 job waits",
        "<span>1 running</span><span class=\"open-count\">1 open</span>",
        "<meta name=\"running\" content=\"1\">",
        "href=\"/projects/shop/jobs/new\" data-key=\"c\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!see(&fixture, Role::Viewer, "/").await.contains("/jobs/new"));
}

#[tokio::test]
async fn a_project_without_jobs_waits_for_the_first_push() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    fake.branches.lock().unwrap().clear();
    let fixture = fixture(fake.clone()).await;
    let waiting = see(&fixture, Role::Member, "/projects/shop/jobs").await;
    for part in [
        "<h1>Start with shop</h1>",
        "git remote add journeyman http://member@localhost:8080/git/shop.git",
        "Waiting for the first push.",
        "data-after-push",
        "Send after the push",
    ] {
        assert!(waiting.contains(part), "{part} is not in {waiting}");
    }
    let early = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", "prompt=Kept&after-push=1").await;
    assert_eq!(early.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", early.body);
    assert!(
        early.body.contains("Nothing has been pushed yet.") && early.body.contains(">Kept</textarea>"),
        "{}",
        early.body
    );
    assert!(fixture.store.jobs(JobFilter::newest(project().id, 9)).await.unwrap().is_empty());

    fake.branches.lock().unwrap().push("main".to_owned());
    let arrived = see(&fixture, Role::Member, "/projects/shop/jobs").await;
    assert!(arrived.contains("<bdi>main</bdi> has arrived</strong>, 3 commits."), "{arrived}");
    assert!(arrived.contains("Send job") && !arrived.contains("data-after-push"), "{arrived}");
    let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", "prompt=Now&after-push=1").await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    let viewer = see(&fixture, Role::Viewer, "/projects/shop/jobs?status=failed").await;
    assert!(viewer.contains("No matching jobs") && viewer.contains("Clear filters"), "{viewer}");
}

/// Sends the form of an import, and returns the answer.
async fn import(fixture: &Fixture, role: Role, form: &str) -> Reply {
    fixture.send(Some(role), Method::POST, "/projects/shop/import", form).await
}

/// Waits until the import of the project has ended.
async fn import_ended(fixture: &Fixture) {
    loop {
        let import = fixture.store.import_of(project().id).await.unwrap().unwrap();
        if import.progress(fixture.world.now()) != ImportProgress::Running {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_administrator_imports_a_repository_into_an_empty_project() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    let fixture = fixture(fake.clone()).await;
    let branches = std::mem::take(&mut *fake.branches.lock().unwrap());
    let path = "/projects/shop/jobs";
    let page = see(&fixture, Role::Administrator, path).await;
    assert!(page.contains("Import from a URL") && page.contains("action=\"/projects/shop/import\""), "{page}");
    assert!(!see(&fixture, Role::Member, path).await.contains("Import from a URL"));
    let refused = import(&fixture, Role::Member, "url=https://git.example/a.git").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);

    for (form, text) in [
        ("url=/srv/git/shop.git", "The URL must be https://"),
        ("url=https://ada:s3cr3t@git.example/a.git", "must not contain a credential"),
        ("url=https://links.example/a.git&token=s3cr3t", "links.example, which has the address 169.254.7.7"),
        ("url=http://169.254.169.254/a.git", "a cloud metadata service"),
        ("url=git@git.example:a.git&token=s3cr3t", "A token is only for https"),
    ] {
        let refused = import(&fixture, Role::Administrator, form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(
            refused.body.contains("The import was not started.") && refused.body.contains(text),
            "{}",
            refused.body
        );
        assert!(!refused.body.contains("s3cr3t"), "{}", refused.body);
    }
    assert_eq!(fixture.store.import_of(project().id).await.unwrap(), None);

    let sent = import(&fixture, Role::Administrator, "url=https://git.example/a.git&username=ada&token=s3cr3t").await;
    assert_eq!((sent.status, sent.header("location")), (StatusCode::SEE_OTHER, path));
    import_ended(&fixture).await;
    let failed = see(&fixture, Role::Administrator, path).await;
    for part in [
        "<strong>The import from git.example failed.</strong> There is no repository at this URL.",
        "value=\"https://git.example/a.git\"",
        "id=\"how-import\" checked",
    ] {
        assert!(failed.contains(part), "{part} is not in {failed}");
    }
    let stored = fixture.store.import_of(project().id).await.unwrap().unwrap();
    assert!(!format!("{stored:?}").contains("s3cr3t"));
    let audit = fixture.store.find_audit(AuditFilter::newest(2)).await.unwrap();
    assert_eq!(audit[0].entry.action, "project.import_ended");
    let audit = &audit[1].entry;
    assert_eq!(
        (audit.action.as_str(), audit.subject.as_str()),
        ("project.import_started", "shop (from https://git.example/a.git)")
    );

    let sent = import(&fixture, Role::Administrator, &format!("url={}", FakeForges::IMPORTED)).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    import_ended(&fixture).await;
    *fake.branches.lock().unwrap() = branches;
    let arrived = see(&fixture, Role::Administrator, path).await;
    assert!(arrived.contains("<bdi>main</bdi> has arrived</strong>, 3 commits."), "{arrived}");
    let late = import(&fixture, Role::Administrator, "url=https://git.example/a.git").await;
    assert_eq!((late.status, late.header("location")), (StatusCode::SEE_OTHER, path));
}

#[tokio::test]
async fn what_an_import_has_left_out_is_shown() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    let fixture = fixture(fake.clone()).await;
    let branches = std::mem::take(&mut *fake.branches.lock().unwrap());
    let sent = import(&fixture, Role::Administrator, &format!("url={}", FakeForges::PARTLY_IMPORTED)).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    import_ended(&fixture).await;
    *fake.branches.lock().unwrap() = branches;
    let told = "1 of 2 objects of Git LFS were not copied: the disk is full.";
    let arrived = see(&fixture, Role::Viewer, "/projects/shop/jobs").await;
    let title = "The import from <bdi>partly.example</bdi> is not complete.</strong> ";
    assert!(arrived.contains(&format!("{title}{told}")), "{arrived}");
    let settings = see(&fixture, Role::Administrator, "/projects/shop/settings/repository").await;
    for part in
        [told, "The repository takes 7 bytes, and 9 objects of Git LFS 8 bytes.", "Its repository is removed, too"]
    {
        assert!(settings.contains(part), "{part} is not in {settings}");
    }
}

#[tokio::test]
async fn a_running_import_is_shown_and_refuses_another_one_until_its_lease_expires() {
    let fake = Arc::new(Fake::with(detail(PullState::Open)));
    let fixture = fixture(fake.clone()).await;
    let branches = std::mem::take(&mut *fake.branches.lock().unwrap());
    let (path, form) = ("/projects/shop/jobs", format!("url={}", FakeForges::ENDLESS));
    assert_eq!(import(&fixture, Role::Administrator, &form).await.status, StatusCode::SEE_OTHER);
    fixture.world.advance(Duration::from_secs(12));
    // Branches count when the import has ended.
    *fake.branches.lock().unwrap() = branches;
    let running = see(&fixture, Role::Member, path).await;
    assert!(running.contains("Importing from <bdi>endless.example</bdi>…</strong>"), "{running}");
    assert!(running.contains(">0:12</span>") && !running.contains("git push journeyman"), "{running}");
    let early = fixture.send(Some(Role::Member), Method::POST, path, "prompt=Kept&after-push=1").await;
    assert_eq!(early.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", early.body);

    fake.branches.lock().unwrap().clear();
    let second = import(&fixture, Role::Administrator, &form).await;
    assert_eq!(second.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", second.body);

    // The clock of the store advances and that of the timers does not, as if the process had died.
    fixture.world.advance(Duration::from_secs(60));
    let interrupted = see(&fixture, Role::Administrator, path).await;
    assert!(interrupted.contains("The server stopped during the import. Start it again"), "{interrupted}");
    assert_eq!(import(&fixture, Role::Administrator, &form).await.status, StatusCode::SEE_OTHER);
    let stored = fixture.store.import_of(project().id).await.unwrap().unwrap();
    assert_eq!(stored.state.number, 2);
}

#[tokio::test]
async fn signed_out_visitors_of_home_sign_in_first() {
    let fixture = empty_fixture(Arc::new(Fake::with(detail(PullState::Open))));
    let reply = fixture.send(None, Method::GET, "/", "").await;
    assert_eq!((reply.status, reply.header("location")), (StatusCode::SEE_OTHER, "/login"));
}
