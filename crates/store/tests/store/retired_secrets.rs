//! Tests of the values of secrets that were changed or removed, on both databases.

use std::time::Duration;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::project::ProjectToChange;
use journeyman_core::ports::Retention;
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock as _;
use journeyman_core::version::Precondition;
use journeyman_testkit::{Seeds as _, decide_on};

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, all, project, shop};
use super::reports::delete_job;

const HOUR: Duration = Duration::from_hours(1);

impl Fixture {
    async fn set_secret(&self, name: &str, value: Option<&str>) {
        let value = value.map(|value| SecretValue(value.to_owned()));
        let changes: SecretChanges = [(name.to_owned(), value)].into();
        let (at, text) = (self.world.now(), |text: &str| text.to_owned());
        let (actor, action, subject) = (text("cli"), text("project.changed"), text("shop"));
        let audit = AuditEntry { at, actor, action, subject, address: None };
        let change = move |state: &_| {
            let edit = |_: Project| Ok((project("shop"), changes.clone()));
            decision::project::change(state, &Precondition::None, edit, "local:shop", audit.clone())
        };
        decide_on(&*self.store, ProjectToChange(shop()), at, change).await.unwrap();
    }

    /// Returns the names and values that a job created now, or `ago` before, may have got, sorted.
    async fn retired(&self, ago: Duration) -> Vec<String> {
        let since = self.world.now() - ago;
        let found = self.store.retired_secrets(shop(), since).await.unwrap();
        let mut found: Vec<String> = found.into_iter().map(|(name, value)| format!("{name}={}", value.0)).collect();
        found.sort();
        found
    }

    async fn sweep_all(&self) {
        self.store.sweep(self.world.now(), Retention::default(), 100).await.unwrap();
    }
}

#[tokio::test]
async fn a_value_that_was_changed_or_removed_is_kept_for_older_jobs() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.world.advance(24 * HOUR);
        fixture.set_secret("TOKEN", Some("one")).await;
        assert!(fixture.retired(HOUR).await.is_empty(), "{name}: the first value replaces none");
        fixture.set_secret("TOKEN", Some("one")).await;
        assert!(fixture.retired(HOUR).await.is_empty(), "{name}: it is the same value");
        fixture.set_secret("TOKEN", Some("two")).await;
        fixture.set_secret("OTHER", Some("three")).await;
        fixture.set_secret("TOKEN", None).await;
        fixture.set_secret("TOKEN", None).await;
        assert_eq!(fixture.retired(HOUR).await, ["TOKEN=one", "TOKEN=two"], "{name}");
        fixture.set_secret("TOKEN", Some("four")).await;
        let current = fixture.store.secrets(shop()).await.unwrap();
        assert_eq!(current["TOKEN"], SecretValue("four".to_owned()), "{name}");

        fixture.world.advance(HOUR);
        fixture.set_secret("OTHER", Some("five")).await;
        assert_eq!(
            fixture.retired(Duration::ZERO).await,
            ["OTHER=three"],
            "{name}: a newer job cannot have the others"
        );
        assert_eq!(fixture.retired(2 * HOUR).await, ["OTHER=three", "TOKEN=one", "TOKEN=two"], "{name}");
        let other = fixture.store.retired_secrets("other".parse().unwrap(), fixture.world.now() - 2 * HOUR).await;
        assert_eq!(other, Ok(Vec::new()), "{name}");
    }
}

#[tokio::test]
async fn a_value_is_removed_with_the_last_job_that_can_have_got_it() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.world.advance(24 * HOUR);
        let job = fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.set_secret("TOKEN", Some("one")).await;
        fixture.set_secret("TOKEN", Some("two")).await;
        fixture.world.advance(2 * HOUR);
        fixture.job().await;
        complete_next_job(&fixture).await;
        fixture.sweep_all().await;
        assert_eq!(fixture.retired(3 * HOUR).await, ["TOKEN=one"], "{name}: the first job may get a follow-up");
        delete_job(&fixture, shop(), job).await.unwrap();
        fixture.sweep_all().await;
        assert!(fixture.retired(3 * HOUR).await.is_empty(), "{name}: the second job is newer");

        fixture.set_secret("TOKEN", Some("three")).await;
        fixture.store.delete_project(shop()).await.unwrap();
        assert!(fixture.retired(3 * HOUR).await.is_empty(), "{name}: the project is gone");
    }
}

#[tokio::test]
async fn a_value_is_kept_until_a_run_that_has_read_it_has_stored_its_job() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.world.advance(24 * HOUR);
        fixture.set_secret("TOKEN", Some("one")).await;
        fixture.set_secret("TOKEN", None).await;
        fixture.sweep_all().await;
        assert_eq!(fixture.retired(Duration::ZERO).await, ["TOKEN=one"], "{name}");
        fixture.world.advance(2 * HOUR);
        fixture.sweep_all().await;
        assert!(fixture.retired(24 * HOUR).await.is_empty(), "{name}: the project has no job");
    }
}
