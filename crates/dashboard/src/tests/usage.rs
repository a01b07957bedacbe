//! Tests of the usage page and of its table.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::{Admission, NewJob, Prompt};
use journeyman_core::ids::WorkerId;
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::project::Project;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::user::Role;
use journeyman_testkit::Seeds as _;
use uuid::Uuid;

use super::job::prompt;
use super::pulls::{Fake, detail};
use super::{Fixture, Reply, START};

async fn fixture() -> Fixture {
    let fixture = super::fixture(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let other = Project::new("docs".parse().unwrap(), "local:docs", START);
    fixture.store.create_project(other, [].into()).await.unwrap();
    fixture
}

/// Completes a job of a project whose run costs an amount.
async fn spend(fixture: &Fixture, project: &str, author: &str, cost_micros: Option<u64>) {
    let prompt = Prompt { author: Some(author.to_owned()), ..prompt("Fix it") };
    let project = Project::new(project.parse().unwrap(), format!("local:{project}"), START);
    let id = fixture.engine.create_job(&project, NewJob::new(prompt), Admission::default()).await.unwrap().record.id;
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = fixture.engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
    let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::Internal, "over"), retry: None };
    let usage = Usage { input_tokens: 1000, output_tokens: 200, cached_tokens: 500, cost_micros, estimated_micros: 0 };
    fixture.engine.report(id, claimed.lease.token, Report::Finished { outcome, usage }).await.unwrap();
}

async fn see(fixture: &Fixture, path: &str) -> Reply {
    fixture.send(Some(Role::Viewer), Method::GET, path, "").await
}

fn all_on(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn usage_is_shown_by_day_project_model_and_person() {
    let fixture = fixture().await;
    assert!(see(&fixture, "/usage").await.body.contains("No usage in this period"));
    spend(&fixture, "shop", "ada", Some(6_000_000)).await;
    fixture.world.advance(Duration::from_secs(2 * 86_400));
    spend(&fixture, "docs", "<b>bob", Some(2_000_000)).await;
    spend(&fixture, "docs", "ada", None).await;
    let page = see(&fixture, "/usage").await.body;
    all_on(
        &page,
        &[
            "<dd class=\"value\">$8.00</dd>",
            "October 25 to November 23, 2026, all projects",
            "plus 1 run without a known price",
            "50 % of the input from caches",
            "<title>November 21: $6.00</title><rect class=\"v1\"",
            "<title>November 23: $2.00</title><rect class=\"v2\"",
            "<th scope=\"row\">November 21</th><td class=\"number\">$6.00</td><td class=\"number\">$0</td>",
            "<span class=\"key k1\"></span>shop",
            "<bdi>&#60;b&#62;bob</bdi></th><td class=\"number\">1</td>",
            "<bdi>ada</bdi></th><td class=\"number\">2</td>",
            "/usage.csv?days=30",
        ],
    );
    assert!(!page.contains("style="), "styles are in the stylesheet");
    // The whole second day is the period before.
    let day = see(&fixture, "/usage?days=1").await.body;
    all_on(&day, &["<dd class=\"value\">$2.00</dd>", "November 23, 2026"]);
    assert!(!day.contains("$6.00"), "{day}");
}

#[tokio::test]
async fn the_period_and_the_project_are_in_the_url() {
    let fixture = fixture().await;
    spend(&fixture, "shop", "ada", Some(6_000_000)).await;
    spend(&fixture, "docs", "ada", Some(1_000_000)).await;
    let page = see(&fixture, "/usage?from=2026-11-01&to=2026-11-30&project=docs").await.body;
    all_on(
        &page,
        &[
            "$1.00",
            "November 1 to November 30, 2026, docs",
            "value=\"2026-11-01\"",
            "<option value=\"docs\" selected>",
            "/usage?days=7&#38;project=docs",
            "/usage.csv?from=2026-11-01&#38;to=2026-11-30&#38;project=docs",
        ],
    );
    assert!(!page.contains("$6.00"), "{page}");
    let nowhere = see(&fixture, "/usage?project=none-such").await;
    assert!(nowhere.status == StatusCode::OK && nowhere.body.contains("No usage in this period"), "{}", nowhere.body);
}

#[tokio::test]
async fn the_table_has_what_the_page_shows_and_no_formulas() {
    let fixture = fixture().await;
    spend(&fixture, "shop", "=1+1", Some(6_000_000)).await;
    spend(&fixture, "docs", "ada", Some(1_000_000)).await;
    let table = see(&fixture, "/usage.csv?days=7&project=shop").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8; header=present");
    let name = "attachment; filename=\"usage-2026-11-15-2026-11-21.csv\"";
    assert_eq!(table.header("content-disposition"), name);
    let lines: Vec<&str> = table.body.split("\r\n").collect();
    assert!(lines[0].starts_with("day,project,model,author,"), "{}", table.body);
    let (start, end) = ("2026-11-21,shop,", ",'=1+1,,,1,1000,200,500,6000000,0,0");
    assert!(lines[1].starts_with(start) && lines[1].ends_with(end), "{}", table.body);
    assert_eq!(lines[2..], [""]);
}
