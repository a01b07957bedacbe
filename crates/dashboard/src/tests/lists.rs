//! Tests of the lists of jobs, and of the choices in forms.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::{Admission, NewJob};
use journeyman_core::ids::JobId;
use journeyman_core::job::event::TranscriptKind;
use journeyman_core::job::label::Labels;
use journeyman_core::job::{JobState, JobStatus};
use journeyman_core::model::Effort;
use journeyman_core::ports::{JobLists as _, JobStore as _, WebhookStore as _};
use journeyman_core::project::Project;
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;
use serde_json::json;

use super::job::{create_job, prompt, running_job};
use super::pulls::{Fake, detail, job_with_pull};
use super::{Fixture, START, fixture, project};

async fn shop() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn see(fixture: &Fixture, path: &str) -> String {
    let reply = fixture.send(Some(Role::Member), Method::GET, path, "").await;
    assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.body);
    reply.body
}

/// Returns the positions of the texts, which must all be on the page.
fn positions(page: &str, texts: &[&str]) -> Vec<usize> {
    texts.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("{text} is not in {page}"))).collect()
}

async fn labeled(fixture: &Fixture, text: &str, label: &str) -> JobId {
    let new = NewJob { labels: Labels::new([label.to_owned()]).unwrap(), ..NewJob::new(prompt(text)) };
    fixture.engine.create_job(&project(), new, Admission::default()).await.unwrap().record.id
}

#[tokio::test]
async fn active_jobs_are_on_top_with_their_step_and_the_others_follow_by_age() {
    let fixture = shop().await;
    let old = create_job(&fixture, "Split the module").await;
    fixture.engine.cancel(&project().id, old).await.unwrap();
    fixture.world.advance(Duration::from_secs(2 * 86_400));
    let (_, number) = job_with_pull(&fixture).await;
    let call = json!({"toolCallId": "1", "title": "cargo test", "status": "in_progress"});
    let running = running_job(&fixture, "Add a timeout", vec![(TranscriptKind::ToolCall, call)]).await;
    fixture.world.advance(Duration::from_secs(1));
    create_job(&fixture, "Bump the version").await;
    let page = see(&fixture, "/projects/shop/jobs").await;
    let pill = format!("href=\"/projects/shop/pulls/{number}\"");
    let order = positions(
        &page,
        &[
            "<h2>Active</h2><span class=\"num\">2</span>",
            "<bdi>Bump the version</bdi>",
            "waits for a worker",
            &format!("id=\"row-shop/{running}\""),
            "<span><bdi>ci</bdi></span><span>1 message</span><span class=\"mono\"><bdi>cargo test</bdi></span>",
            "data-clock=\"2026-",
            "<h2>Last 24 hours</h2><span class=\"num\">1</span>",
            &pill,
            "<h2>Last 7 days</h2><span class=\"num\">1</span>",
            "<span class=\"mark stopped\"><span class=\"unseen\">cancelled</span>",
            "<bdi>Split the module</bdi>",
        ],
    );
    assert!(order.is_sorted(), "{order:?} {page}");
    assert!(page.contains("<meta name=\"running\" content=\"1\">"), "{page}");
    assert_eq!(page.matches("id=\"row-").count(), 4, "each job has one row: {page}");
}

#[tokio::test]
async fn filters_are_in_the_url_and_can_be_cleared() {
    let fixture = shop().await;
    let bug = labeled(&fixture, "Fix the parser", "bug").await;
    let other = labeled(&fixture, "Write the guide", "docs").await;
    for (query, shows_bug, shows_other) in [
        ("", true, true),
        ("?label=bug", true, false),
        ("?label=docs&author=ci", false, true),
        ("?author=nobody", false, false),
        ("?agent=journeyman", true, true),
        ("?agent=pi", false, false),
        ("?q=PARSER", true, false),
        ("?pull=open", false, false),
        ("?status=failed", false, false),
    ] {
        for list in ["/projects/shop/jobs", "/jobs"] {
            let page = see(&fixture, &format!("{list}{query}")).await;
            let shown = [bug, other].map(|id| page.contains(&format!("id=\"row-shop/{id}\"")));
            assert_eq!(shown, [shows_bug, shows_other], "{list}{query}: {page}");
            let clear = format!("href=\"{list}\">Clear filters</a>");
            assert_eq!(page.contains(&clear), !query.is_empty(), "{list}{query}: {page}");
        }
    }
    let page = see(&fixture, "/jobs?label=bug").await;
    for part in [
        "Label: <span class=\"cut\"><bdi>bug</bdi></span>",
        "<a href=\"/jobs?label=bug&#38;author=ci\"><bdi>ci</bdi></a>",
        "<input type=\"hidden\" name=\"label\" value=\"bug\">",
        "<span>shop</span>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn the_list_of_all_projects_has_a_filter_by_project() {
    let fixture = shop().await;
    let other = Project::new("other".parse().unwrap(), "local:other", START);
    fixture.store.create_project(other.clone(), [].into()).await.unwrap();
    let own = create_job(&fixture, "Fix it").await;
    let new = NewJob::new(prompt("Write it"));
    let foreign = fixture.engine.create_job(&other, new, Admission::default()).await.unwrap().record.id;
    let rows = [format!("id=\"row-shop/{own}\""), format!("id=\"row-other/{foreign}\"")];
    for (path, shown) in [
        ("/jobs", [true, true]),
        ("/jobs?project=shop", [true, false]),
        ("/jobs?project=other", [false, true]),
        ("/jobs?project=none", [false, false]),
        ("/projects/shop/jobs?project=other", [true, false]),
    ] {
        let page = see(&fixture, path).await;
        assert_eq!(rows.each_ref().map(|row| page.contains(row)), shown, "{path}: {page}");
        assert_eq!(page.contains("id=\"filter-project\""), path.starts_with("/jobs"), "{path}: {page}");
    }
    let page = see(&fixture, "/jobs?project=shop").await;
    for part in [
        "Project: <span class=\"cut\"><bdi>shop</bdi></span>",
        "<a href=\"/jobs?project=other\"><bdi>other</bdi></a>",
        "<a href=\"/jobs?project=shop&#38;status=active\">Active <span class=\"muted tiny num\">1</span></a>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let own = see(&fixture, "/projects/shop/jobs?project=other").await;
    assert!(!own.contains("Clear filters"), "the list of a project has no such filter: {own}");
}

#[tokio::test]
async fn a_filter_is_cleared_on_its_own_and_named_if_nothing_matches() {
    let fixture = shop().await;
    labeled(&fixture, "Fix the parser", "bug").await;
    let page = see(&fixture, "/projects/shop/jobs?label=bug&author=member").await;
    for part in [
        "href=\"/projects/shop/jobs?author=member\" aria-label=\"Clear the filter Label\">",
        "href=\"/projects/shop/jobs?label=bug\" aria-label=\"Clear the filter Author\">",
        "<bdi>Me</bdi>",
        "<p>No job matches all these filters:</p>",
        "href=\"/projects/shop/jobs?author=member\"><span class=\"unseen\">Clear </span>Label: <bdi>bug</bdi>",
        "<span class=\"unseen\">Clear </span>Author: <bdi>Me</bdi>",
        "data-key=\"f\" aria-keyshortcuts=\"f\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let one = see(&fixture, "/projects/shop/jobs?q=%3Cnone%3E").await;
    assert!(one.contains("<p>No job matches this filter:</p>") && one.contains("<bdi>&#60;none&#62;</bdi>"), "{one}");
}

/// Returns the digest of a list.
async fn seen(fixture: &Fixture, path: &str) -> String {
    let page = see(fixture, path).await;
    let (_, rest) = page.split_once("<turbo-stream-source id=\"live-").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

#[tokio::test]
async fn statuses_have_the_numbers_of_jobs_if_there_is_no_other_filter() {
    let fixture = shop().await;
    let other = Project::new("other".parse().unwrap(), "local:other", START);
    fixture.store.create_project(other.clone(), [].into()).await.unwrap();
    create_job(&fixture, "Fix it").await;
    let failed = create_job(&fixture, "Split it").await;
    fixture.engine.cancel(&project().id, failed).await.unwrap();
    fixture.engine.create_job(&other, NewJob::new(prompt("Write it")), Admission::default()).await.unwrap();
    let count = |number: u64| format!(" <span class=\"muted tiny num\">{number}</span></a>");
    for (list, all, active) in [("/projects/shop/jobs", 2, 1), ("/jobs", 3, 2)] {
        for (query, of_all, of_active) in
            [("", " aria-current=\"true\"", ""), ("?status=active", "", " aria-current=\"true\"")]
        {
            let page = see(&fixture, &format!("{list}{query}")).await;
            for link in [
                format!("<a href=\"{list}\"{of_all}>All{}", count(all)),
                format!("<a href=\"{list}?status=active\"{of_active}>Active{}", count(active)),
                format!("<a href=\"{list}?status=failed\">Failed{}", count(1)),
                format!("<a href=\"{list}?status=archived\">Archived</a>"),
            ] {
                assert!(page.contains(&link), "{list}{query}: {link} is not in {page}");
            }
        }
        let page = see(&fixture, &format!("{list}?q=it")).await;
        assert!(page.contains("?q=it&#38;status=failed\">Failed</a>"), "{list}: {page}");
    }
}

#[tokio::test]
async fn a_list_is_refreshed_when_its_numbers_change() {
    let fixture = shop().await;
    let failed = create_job(&fixture, "Split it").await;
    fixture.engine.cancel(&project().id, failed).await.unwrap();
    let lists = ["/projects/shop/jobs?status=failed", "/jobs?status=failed", "/jobs?status=failed&q=split"];
    let mut before = Vec::new();
    for list in lists {
        before.push(seen(&fixture, list).await);
        assert_eq!(before.last(), Some(&seen(&fixture, list).await), "{list}: nothing has changed");
    }
    create_job(&fixture, "Fix it").await;
    for ((list, before), changes) in lists.into_iter().zip(before).zip([true, true, false]) {
        assert_eq!(seen(&fixture, list).await != before, changes, "{list}");
    }
}

#[tokio::test]
async fn a_value_that_a_list_does_not_know_is_refused() {
    let fixture = shop().await;
    let job = create_job(&fixture, "Fix it").await;
    let remote = Project::new("remote".parse().unwrap(), "https://git.example/acme/shop", START);
    fixture.store.create_project(remote, [].into()).await.unwrap();
    let webhook = "url=https%3A%2F%2Fhooks.example%2Fa&format=standard&event=job.created";
    fixture.send(Some(Role::Administrator), Method::POST, "/projects/shop/webhooks", webhook).await;
    let webhook = fixture.store.webhooks_after(project().id, None, 1).await.unwrap().remove(0).id;
    let (webhook, events) = (format!("/projects/shop/webhooks/{webhook}"), format!("/projects/shop/jobs/{job}/events"));
    let statuses = "use active, failed, completed or archived.";
    let date = "use a date such as 2026-11-23.";
    for (path, query, allowed) in [
        ("/", "whose=bogus", "use everybody."),
        ("/home/live", "whose=bogus", "use everybody."),
        ("/jobs", "project=No+such", "use the ID of a project."),
        ("/jobs", "status=bogus", statuses),
        ("/jobs", "pull=bogus", "use open, merged or closed."),
        ("/jobs", "after=bogus", "use the links to other pages."),
        ("/jobs/live", "status=bogus", statuses),
        ("/projects/shop/jobs", "status=bogus&q=x", statuses),
        ("/projects/shop/jobs/live", "pull=bogus", "use open, merged or closed."),
        ("/projects/shop/pulls", "state=bogus", "use open, merged or closed."),
        ("/projects/remote/pulls", "state=bogus", "use open, merged or closed."),
        ("/projects/remote/pulls", "after=bogus", "use the links to other pages."),
        ("/projects/shop/inbox", "state=bogus", "use received, waiting, done, ignored or failed."),
        ("/projects/shop/inbox", "outcome=bogus", "is not allowed; use "),
        ("/system/inbox", "before=bogus", "use the number of an event."),
        (events.as_str(), "kind=bogus", "run.finished or run.started."),
        (events.as_str(), "after=bogus", "use the number of an event."),
        ("/projects/shop/webhooks", "after=bogus", "use the ID of a webhook."),
        (webhook.as_str(), "state=bogus", "use pending, delivered or failed."),
        (webhook.as_str(), "before=bogus", "use the number of a delivery."),
        ("/audit", "what=bogus", "key., user., session."),
        ("/audit", "project=No+such", "use the ID of a project."),
        ("/audit", "before=bogus", "use the number of an entry."),
        ("/audit", "from=bogus", date),
        ("/audit/export", "to=bogus", date),
        ("/audit/export", "format=bogus", "use csv or jsonl."),
        ("/usage", "days=bogus", "is not a number from 1 to 366."),
        ("/usage", "from=bogus", "is not a date such as 2026-11-23."),
        ("/usage", "from=2026-11-30&to=2026-11-01", "must not be after to."),
        ("/usage", "project=No+such", "use the ID of a project."),
        ("/usage.csv", "days=9999", "is not a number from 1 to 366."),
    ] {
        let page = fixture.send(Some(Role::Administrator), Method::GET, &format!("{path}?{query}"), "").await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{path}?{query}: {}", page.body);
        let name = query.split('=').next().unwrap();
        assert!(page.body.contains(&format!("<p class=\"sentence\">{name}: ")), "{path}?{query}: {}", page.body);
        assert!(page.body.contains(allowed), "{path}?{query}: {}", page.body);
        let list = path.trim_end_matches("/live").trim_end_matches("/export").trim_end_matches(".csv");
        let list = if list == "/home" { "/" } else { list };
        let clear = format!("<a class=\"button\" href=\"{list}\">Clear filters</a>");
        assert!(page.body.contains(&clear), "{path}?{query}: {}", page.body);
        let cleared = fixture.send(Some(Role::Administrator), Method::GET, list, "").await;
        assert_eq!(cleared.status, StatusCode::OK, "{list}");
    }
}

#[tokio::test]
async fn a_long_list_has_pages() {
    let fixture = shop().await;
    for number in 0..51 {
        let id = create_job(&fixture, &format!("Task {number:02}.")).await;
        fixture.engine.cancel(&project().id, id).await.unwrap();
        fixture.world.advance(Duration::from_secs(1));
    }
    let first = see(&fixture, "/projects/shop/jobs?q=task").await;
    assert!(first.contains("Task 50.") && !first.contains("Task 00.") && !first.contains(">Newest<"), "{first}");
    let older = first.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let second = see(&fixture, &older.replace("&#38;", "&")).await;
    assert!(second.contains("Task 00.") && !second.contains("Task 01."), "{second}");
    assert!(
        second.contains("href=\"/projects/shop/jobs?q=task\">Newest</a>") && !second.contains(">Older<"),
        "{second}"
    );
}

#[tokio::test]
async fn chosen_jobs_are_archived_and_the_list_is_shown_again() {
    let fixture = shop().await;
    let other = Project::new("other".parse().unwrap(), "local:other", START);
    fixture.store.create_project(other.clone(), [].into()).await.unwrap();
    let first = create_job(&fixture, "One").await;
    let new = NewJob::new(prompt("Two"));
    let second = fixture.engine.create_job(&other, new, Admission::default()).await.unwrap().record.id;
    let kept = create_job(&fixture, "Three").await;
    for path in [format!("shop/jobs/{first}"), format!("other/jobs/{second}")] {
        fixture.send(Some(Role::Member), Method::POST, &format!("/projects/{path}/cancel"), "").await;
    }
    let form = format!("job=shop%2F{first}&job=other%2F{second}&back=%2Fjobs%3Fauthor%3Dci");
    let sent = fixture.send(Some(Role::Member), Method::POST, "/jobs/archive", &form).await;
    assert!(sent.header("location").starts_with("/jobs?author=ci&done=archived&undo="), "{}", sent.header("location"));
    let shown = fixture.follow(Role::Member, &sent).await.body;
    let undo = [
        "<form method=\"post\" action=\"/jobs/unarchive\">".to_owned(),
        "<input type=\"hidden\" name=\"back\" value=\"/jobs?author=ci\">".to_owned(),
        format!("<input type=\"hidden\" name=\"job\" value=\"shop/{first}\">"),
        format!("<input type=\"hidden\" name=\"job\" value=\"other/{second}\">"),
    ];
    assert!(shown.contains(&undo.concat()), "{shown}");
    let status = async |id| fixture.store.job(id).await.unwrap().unwrap().status();
    assert_eq!(status(first).await, JobStatus::Archived);
    assert_eq!(status(second).await, JobStatus::Archived);
    assert_eq!(status(kept).await, JobStatus::Active);
    let page = see(&fixture, "/jobs?done=archived").await;
    assert!(page.contains("The jobs are archived."), "{page}");
    assert!(!page.contains(&format!("value=\"shop/{first}\"")), "an archived job cannot be chosen: {page}");
    let foreign = format!("job=other%2F{kept}&back=%2F%2Fevil.example");
    let refused = fixture.send(Some(Role::Member), Method::POST, "/jobs/archive", &foreign).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND, "{}", refused.body);
    assert!(!matches!(fixture.store.job(kept).await.unwrap().unwrap().state, JobState::Archived { .. }));
    let outside = format!("job=shop%2F{kept}&back=https%3A%2F%2Fevil.example");
    let sent = fixture.send(Some(Role::Member), Method::POST, "/jobs/archive", &outside).await;
    assert_eq!(sent.header("location"), "/?done=archived_active", "canceled work cannot be restored");
    let undo = format!("job=shop%2F{first}&job=other%2F{second}&back=%2Fjobs");
    let undone = fixture.send(Some(Role::Member), Method::POST, "/jobs/unarchive", &undo).await;
    assert_eq!((undone.status, undone.header("location")), (StatusCode::SEE_OTHER, "/jobs?done=unarchived"));
    assert_eq!((status(first).await, status(second).await), (JobStatus::Failed, JobStatus::Failed));
    let mut many = String::new();
    for number in 0..30 {
        let job = create_job(&fixture, &format!("Job {number}")).await;
        fixture.send(Some(Role::Member), Method::POST, &format!("/projects/shop/jobs/{job}/cancel"), "").await;
        many.push_str(&format!("job=shop%2F{job}&"));
    }
    let sent = fixture.send(Some(Role::Member), Method::POST, "/jobs/archive", &format!("{many}back=%2Fjobs")).await;
    assert_eq!(sent.header("location"), "/jobs?done=archived", "a form for undo is too long for a URL");
    let viewer = fixture.send(Some(Role::Viewer), Method::GET, "/jobs", "").await.body;
    assert!(!viewer.contains("class=\"choose\"") && !viewer.contains("/jobs/archive"), "{viewer}");
}

#[tokio::test]
async fn a_new_job_offers_agents_models_branches_and_directives() {
    let fixture = shop().await;
    let page = see(&fixture, "/projects/shop/jobs/new").await;
    for part in [
        "<option value=\"\">journeyman (the project's)</option>",
        "<option value=\"\" data-test>test/scripted (the project's)</option>",
        "<option value=\"other\">Another model…</option>",
        "<option value=\"\">the model&#39;s default (the project&#39;s)</option>",
        "<option value=\"xhigh\">xhigh</option>",
        "<datalist id=\"branches\"><option value=\"main\"></option></datalist>",
        "data-insert=\"[[write hello.txt|Hello]]\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let form = "prompt=Fix+it&model=other&model-other=anthropic/claude-x&effort=xhigh&labels=bug,+ui";
    let sent = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", form).await;
    assert_eq!(sent.status, StatusCode::SEE_OTHER, "{}", sent.body);
    let id = sent.header("location").rsplit('/').next().unwrap().parse().unwrap();
    let job = fixture.store.job(id).await.unwrap().unwrap();
    assert_eq!((job.model.as_str(), job.effort), ("anthropic/claude-x", Some(Effort::XHigh)));
    let side = see(&fixture, &format!("/projects/shop/jobs/{id}")).await;
    assert!(side.contains("<dt>Effort</dt><dd>xhigh</dd>"), "{side}");
    let huge = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", "prompt=x&effort=huge").await;
    assert!(huge.body.contains("is not one of none, minimal, low, medium, high, xhigh, max"), "{}", huge.body);
    let summary = fixture.store.summaries_of_jobs(vec![id]).await.unwrap().remove(&id).unwrap();
    let attributes: Vec<String> = summary.attributes.iter().map(ToString::to_string).collect();
    assert_eq!(attributes, ["agent:journeyman", "author:member", "label:bug", "label:ui"]);
    let refused = "prompt=x&branch=a..b&model=other&model-other=anthropic/claude-x";
    let refused = fixture.send(Some(Role::Member), Method::POST, "/projects/shop/jobs", refused).await;
    assert!(refused.body.contains("value=\"other\" selected") && refused.body.contains("value=\"anthropic/claude-x\""));
}
