//! The reports of workers, and the filters of the audit log: the same tests for every store.

use std::time::Duration;

use journeyman_core::audit::{AuditEntry, AuditFilter};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::worker::{DiskState, SandboxState, WorkerReport, WorkerState};

use super::fixtures::{Fixture, all, all_for_work, worker};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn report(number: u128, seen_at: Timestamp, busy: u32) -> WorkerReport {
    let sandbox = SandboxState { kind: "bubblewrap".to_owned(), holds: 8, ..SandboxState::default() };
    let state = WorkerState {
        host: format!("forge-{number}"),
        version: "1.2.3".to_owned(),
        started_at: seen_at - Duration::from_secs(60),
        slots: 2,
        busy,
        serves: number == 1,
        disk: Some(DiskState { total_bytes: 480 << 30, free_bytes: 61 << 30, reserve_bytes: 4 << 30 }),
        sandbox: Some(sandbox),
        agents: vec!["codex".to_owned(), "journeyman".to_owned()],
    };
    WorkerReport { id: worker(number), seen_at, state }
}

/// Lets time pass by the clock of the database.
async fn pass() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn a_report_replaces_the_previous_one_and_removes_old_ones() {
    for fixture in all_for_work().await {
        let (name, now, store) = (fixture.name, fixture.world.now(), &fixture.store);
        assert!(store.workers().await.unwrap().is_empty(), "{name}");
        let (first, second) = (report(1, now, 0), report(2, now, 1));
        for report in [&second, &first] {
            store.report_worker(report.clone(), DAY).await.unwrap();
        }
        assert_eq!(store.workers().await.unwrap(), [first, second.clone()], "{name}");

        pass().await;
        let later = report(1, now + Duration::from_secs(5), 2);
        store.report_worker(later.clone(), DAY).await.unwrap();
        assert_eq!(store.workers().await.unwrap(), [later.clone(), second], "{name}: not older than the limit");
        store.report_worker(later.clone(), Duration::from_millis(10)).await.unwrap();
        assert_eq!(store.workers().await.unwrap(), std::slice::from_ref(&later), "{name}");

        store.forget_worker(worker(2)).await.unwrap();
        assert_eq!(store.workers().await.unwrap(), [later], "{name}: the worker is not known any more");
        store.forget_worker(worker(1)).await.unwrap();
        assert!(store.workers().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_worker_with_a_wrong_clock_removes_no_report_and_keeps_its_own() {
    for fixture in all_for_work().await {
        let (name, now, store) = (fixture.name, fixture.world.now(), &fixture.store);
        let (right, ahead, behind) = (report(1, now, 0), report(2, now + 30 * DAY, 0), report(3, now - 30 * DAY, 0));
        for report in [&right, &ahead, &behind, &right, &ahead] {
            store.report_worker(report.clone(), DAY).await.unwrap();
        }
        assert_eq!(store.workers().await.unwrap(), [right, ahead, behind], "{name}");
    }
}

impl Fixture {
    async fn note_all(&self, entries: &[(i64, &str, &str, &str)]) {
        for (at, actor, action, subject) in entries {
            let [actor, action, subject] = [actor, action, subject].map(|text| (*text).to_owned());
            let entry = AuditEntry { at: Timestamp::from_micros(*at), actor, action, subject, address: None };
            self.store.note(entry).await.unwrap();
        }
    }

    /// Returns the subjects of the selected entries.
    async fn subjects(&self, filter: AuditFilter) -> Vec<String> {
        let lines = self.store.find_audit(filter).await.unwrap();
        lines.into_iter().map(|line| line.entry.subject).collect()
    }
}

#[tokio::test]
async fn the_audit_log_is_filtered_by_actor_action_object_and_time() {
    for fixture in all().await {
        let name = fixture.name;
        fixture
            .note_all(&[
                (10, "ada", "key.created", "key_1"),
                (20, "bob", "key.revoked", "key_1"),
                (30, "ada", "keyring.made", "shop-2"),
                (40, "ada", "project.changed", "shop (repository at 10.0.0.1)"),
                (50, "bob", "pull.merged", "shop#7"),
                (60, "cli", "project.created", "shop"),
                (70, "cli", "project.created", "%"),
            ])
            .await;
        let all = AuditFilter::newest(3);
        assert_eq!(fixture.subjects(all.clone()).await, ["%", "shop", "shop#7"], "{name}");
        let all = AuditFilter { limit: 100, ..all };
        let text = |text: &str| Some(text.to_owned());
        let at = |at| Some(Timestamp::from_micros(at));
        let about = |objects: &[&str]| Some(objects.iter().map(|object| (*object).to_owned()).collect());
        for (filter, expected) in [
            (AuditFilter { actors: about(&["bob"]), ..all.clone() }, vec!["shop#7", "key_1"]),
            (AuditFilter { action: text("key."), ..all.clone() }, vec!["key_1", "key_1"]),
            (AuditFilter { action: text("key.revoked"), ..all.clone() }, vec!["key_1"]),
            (
                AuditFilter { about: about(&["shop"]), ..all.clone() },
                vec!["shop", "shop#7", "shop (repository at 10.0.0.1)"],
            ),
            (AuditFilter { about: about(&["shop-2", "%"]), ..all.clone() }, vec!["%", "shop-2"]),
            (AuditFilter { about: about(&[]), ..all.clone() }, vec![]),
            (AuditFilter { from: at(20), until: at(40), ..all.clone() }, vec!["shop-2", "key_1"]),
            (
                AuditFilter { actors: about(&["ada"]), about: about(&["shop"]), ..all.clone() },
                vec!["shop (repository at 10.0.0.1)"],
            ),
            (AuditFilter { actors: about(&["nobody", "bo"]), ..all.clone() }, vec![]),
        ] {
            let found = fixture.subjects(filter.clone()).await;
            assert_eq!(found, expected, "{name}: {filter:?}");
        }
        let lines = fixture.store.find_audit(all.clone()).await.unwrap();
        let before = AuditFilter { before: Some(lines[5].number), ..all };
        assert_eq!(fixture.subjects(before).await, ["key_1"], "{name}");
    }
}
