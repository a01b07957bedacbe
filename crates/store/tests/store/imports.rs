//! Tests of imports into the repositories of projects, on both databases.

use std::time::Duration;

use journeyman_core::audit::{AuditEntry, AuditFilter};
use journeyman_core::import::{IMPORT_LEASE, Import, ImportStage};
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_testkit::Seeds as _;

use super::fixtures::{Fixture, all, shop};

fn begun(before: Option<&Import>, now: Timestamp) -> Import {
    Import::begin(before, shop(), "https://git.example/shop.git".to_owned(), now).unwrap()
}

fn entry(at: Timestamp) -> AuditEntry {
    let [actor, action, subject] = ["ada", "project.import_started", "shop"].map(str::to_owned);
    AuditEntry { at, actor, action, subject, address: Some("10.0.0.1".to_owned()) }
}

impl Fixture {
    /// Returns the number of audit entries about imports.
    async fn imports_noted(&self) -> usize {
        let filter = AuditFilter { action: Some("project.import_started".to_owned()), ..AuditFilter::newest(9) };
        self.store.find_audit(filter).await.unwrap().len()
    }
}

#[tokio::test]
async fn only_the_next_version_of_an_import_is_stored_together_with_its_audit_entry() {
    for fixture in all().await {
        let (name, now, store) = (fixture.name, fixture.world.now(), &fixture.store);
        assert_eq!(store.import_of(shop()).await.unwrap(), None, "{name}");
        let first = begun(None, now);
        assert!(store.put_import(first.clone(), Some(entry(now))).await.unwrap(), "{name}");
        assert_eq!(store.import_of(shop()).await.unwrap(), Some(first.clone()), "{name}");
        assert!(!store.put_import(first.clone(), Some(entry(now))).await.unwrap(), "{name}: at the same time");
        assert_eq!(fixture.imports_noted().await, 1, "{name}");

        let later = now + Duration::from_secs(5);
        let renewed = first.with(ImportStage::Running { until: later + IMPORT_LEASE });
        assert!(store.put_import(renewed.clone(), None).await.unwrap(), "{name}");
        assert!(
            !store.put_import(first.with(ImportStage::Finished { not_copied: None }), None).await.unwrap(),
            "{name}: an old version"
        );
        let skipping =
            renewed.with(ImportStage::Finished { not_copied: None }).with(ImportStage::Finished { not_copied: None });
        assert!(!store.put_import(skipping, None).await.unwrap(), "{name}");
        let failed = renewed.with(ImportStage::Failed { cause: "It does not „answer“.".to_owned() });
        assert!(store.put_import(failed.clone(), None).await.unwrap(), "{name}");
        assert_eq!(store.import_of(shop()).await.unwrap(), Some(failed.clone()), "{name}");
        assert_eq!(fixture.imports_noted().await, 1, "{name}");

        let second = begun(Some(&failed), later);
        assert!(store.put_import(second.clone(), Some(entry(later))).await.unwrap(), "{name}");
        assert_eq!((second.state.number, fixture.imports_noted().await), (2, 2), "{name}");
    }
}

#[tokio::test]
async fn an_import_is_deleted_with_its_project_and_needs_one() {
    for fixture in all().await {
        let (name, now, store) = (fixture.name, fixture.world.now(), &fixture.store);
        let first = begun(None, now);
        assert!(store.put_import(first.clone(), None).await.unwrap(), "{name}");
        store.delete_project(shop()).await.unwrap();
        assert_eq!(store.import_of(shop()).await.unwrap(), None, "{name}");
        let ended = first.with(ImportStage::Finished { not_copied: None });
        assert!(!store.put_import(ended, None).await.unwrap(), "{name}: the process of a deleted project");
        assert!(!store.put_import(first, Some(entry(now))).await.unwrap(), "{name}: there is no project");
        assert_eq!(fixture.imports_noted().await, 0, "{name}");
    }
}
