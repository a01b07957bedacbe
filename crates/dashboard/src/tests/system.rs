//! Tests of the operator's page.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{HoldStore as _, WorkerStore as _};
use journeyman_core::project::hold::{HoldCause, HoldFailure};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_core::user::Role;
use journeyman_core::worker::{DiskState, SandboxState, WorkerReport, WorkerState};
use uuid::Uuid;

use super::Fixture;
use super::job::create_job;
use super::pulls::{Fake, detail};

async fn fixture() -> Fixture {
    super::fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

fn worker(number: u128) -> WorkerId {
    WorkerId::from_uuid(Uuid::from_u128(number))
}

fn state(host: &str, busy: u32, now: Timestamp) -> WorkerState {
    let sandbox = SandboxState { kind: "bubblewrap".to_owned(), holds: 9, ..SandboxState::default() };
    WorkerState {
        host: host.to_owned(),
        version: "1.2.3".to_owned(),
        started_at: now,
        slots: 2,
        busy,
        serves: true,
        disk: Some(DiskState {
            total_bytes: 480_000_000_000,
            free_bytes: 200_000_000_000,
            reserve_bytes: 4_000_000_000,
        }),
        sandbox: Some(sandbox),
        agents: vec!["journeyman".to_owned()],
    }
}

async fn report(fixture: &Fixture, number: u128, state: WorkerState) {
    let now = fixture.world.now();
    let report = WorkerReport { id: worker(number), seen_at: now, state };
    fixture.store.report_worker(report, Duration::from_secs(3600)).await.unwrap();
}

async fn see(fixture: &Fixture, role: Role) -> String {
    fixture.send(Some(role), Method::GET, "/system", "").await.body
}

fn all_on(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn an_idle_worker_is_shown_with_its_slots() {
    let fixture = fixture().await;
    let now = fixture.world.now();
    report(&fixture, 1, state("forge-1", 0, now)).await;
    fixture.world.advance(Duration::from_secs(2));
    let page = see(&fixture, Role::Viewer).await;
    all_on(
        &page,
        &[
            "aria-label=\"0 of 2 slots busy\"",
            "on 1 worker, seen <span id=\"seen-all\" class=\"num\"><span data-elapsed=\"",
            "\">2 s</span> ago</span></dd>",
            "Version 1.2.3 on 1 machine, up for less than 1 min",
            "<bdi>forge-1</bdi></span> <span class=\"muted tiny\">also serves pages</span>",
            "0 of 2 busy",
            "all 9 hold",
            "200 GB <span class=\"of\">of 480 GB</span>",
            "no job waits",
            "all are delivered",
            "1 of 1 installed",
            "/system/live?seen=",
            "<p class=\"row-sub\"><span>200 GB of 480 GB free. No run begins below 4.0 GB (<code>disk-reserve</code>).</span></p>",
        ],
    );
    assert!(!page.contains("needs you") && !page.contains("need you"), "nothing needs a person: {page}");
    assert!(!page.contains("/srv/database"), "only administrators see where data is stored: {page}");
    assert!(see(&fixture, Role::Administrator).await.contains("/srv/database"));
}

#[tokio::test]
async fn what_needs_a_person_is_counted_and_says_what_to_do() {
    let fixture = fixture().await;
    all_on(&see(&fixture, Role::Viewer).await, &["1 thing needs you", "No worker reports. Start journeyman serve"]);

    let now = fixture.world.now();
    let full = DiskState { total_bytes: 480_000_000_000, free_bytes: 3_000_000_000, reserve_bytes: 4_000_000_000 };
    report(&fixture, 1, WorkerState { disk: Some(full), ..state("forge-1", 0, now) }).await;
    let sandbox = SandboxState { missing: vec!["network".to_owned()], ..SandboxState::default() };
    let other = WorkerState {
        sandbox: Some(sandbox),
        version: "1.2.2".to_owned(),
        agents: Vec::new(),
        ..state("forge-2", 1, now)
    };
    report(&fixture, 2, other).await;
    let failure = HoldFailure {
        reason: Reason::new(ReasonCode::CredentialRefused, "the token is refused; set another one"),
        cause: HoldCause::Fetch,
        started_at: now,
        at: now,
        permille: 0,
    };
    fixture.store.hold_project("shop".parse().unwrap(), failure).await.unwrap().unwrap();
    let page = see(&fixture, Role::Administrator).await;
    all_on(
        &page,
        &[
            "3 things need you",
            "aria-label=\"1 of 4 slots busy\"",
            "on forge-1: no run begins",
            "forge-1 has less free space than the reserve of 4.0 GB (disk-reserve)",
            "The sandbox on forge-2 does not guarantee network",
            "other version",
            "on 1 of 2 workers",
            "The token is refused; set another one.",
            "/projects/shop/settings/repository",
        ],
    );
    assert!(!see(&fixture, Role::Viewer).await.contains("/projects/shop/settings/repository"));
}

#[tokio::test]
async fn a_worker_without_a_sign_is_not_counted_among_the_slots() {
    let fixture = fixture().await;
    let now = fixture.world.now();
    report(&fixture, 1, state("<i>gone", 2, now)).await;
    fixture.world.advance(Duration::from_secs(240));
    report(&fixture, 2, state("forge-2", 1, now)).await;
    create_job(&fixture, "Fix it").await;
    fixture.world.advance(Duration::from_secs(20));
    let page = see(&fixture, Role::Member).await;
    all_on(
        &page,
        &[
            "aria-label=\"1 of 2 slots busy\"",
            "&#60;i&#62;gone has sent no report for 4 min.",
            "no sign",
            "the oldest for less than 1 min",
            "1 thing needs you",
        ],
    );
    assert!(!page.contains("<i>gone"), "{page}");
}

/// Returns the digest of the page.
async fn seen(fixture: &Fixture) -> String {
    let page = see(fixture, Role::Viewer).await;
    let (_, rest) = page.split_once("/system/live?seen=").unwrap();
    rest.split_once('"').unwrap().0.to_owned()
}

#[tokio::test]
async fn a_report_that_says_nothing_new_does_not_refresh_the_page() {
    let fixture = fixture().await;
    let started = fixture.world.now();
    report(&fixture, 1, state("forge-1", 0, started)).await;
    let first = seen(&fixture).await;
    for _ in 0..3 {
        fixture.world.advance(Duration::from_secs(5));
        report(&fixture, 1, state("forge-1", 0, started)).await;
    }
    assert_eq!(seen(&fixture).await, first);
    let nearly = DiskState { free_bytes: 200_000_000_001, ..state("forge-1", 0, started).disk.unwrap() };
    report(&fixture, 1, WorkerState { disk: Some(nearly), ..state("forge-1", 0, started) }).await;
    assert_eq!(seen(&fixture).await, first, "the page shows whole gigabytes");

    report(&fixture, 1, state("forge-1", 1, started)).await;
    let busy = seen(&fixture).await;
    assert_ne!(busy, first, "a slot is busy");
    fixture.world.advance(Duration::from_secs(30));
    let silent = seen(&fixture).await;
    assert_ne!(silent, busy, "the worker is silent");
    fixture.world.advance(Duration::from_secs(60));
    assert_ne!(seen(&fixture).await, silent, "for another minute");
}
