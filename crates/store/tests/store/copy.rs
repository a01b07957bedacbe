//! Tests of copying a database from SQLite to PostgreSQL.

use std::time::Duration;

use journeyman_core::secret::SecretValue;
use journeyman_core::usage::{UsageGroup, UsageQuery};
use journeyman_store::{CopyError, PostgresStore, Schema, copy_to_postgres};
use journeyman_testkit::{Postgres, Seeds as _};

use super::conformance::complete_next_job;
use super::fixtures::{Fixture, free, keyed, master_key, new_job, project, prompt, shop, sqlite};

/// Returns a SQLite store with secrets and finished jobs.
async fn populated() -> Fixture {
    let fixture = sqlite().await;
    fill(&fixture).await;
    fixture
}

/// Adds secrets, and jobs with finished work.
pub(crate) async fn fill(fixture: &Fixture) {
    let secrets = [("TOKEN".to_owned(), Some(SecretValue("s3cret".to_owned())))].into();
    fixture.store.update_project(project("shop"), secrets).await.unwrap();
    for number in 0..3 {
        let id = fixture.engine.create_job(&project("shop"), new_job("Schön"), free()).await.unwrap().record.id;
        fixture.engine.add_message(&shop(), id, prompt("b"), keyed(&number.to_string(), "b")).await.unwrap();
        complete_next_job(fixture).await;
    }
}

/// Returns the projects, secrets, reports and jobs of a store as text, to compare stores.
pub(crate) async fn contents(fixture: &Fixture) -> Vec<String> {
    let mut seen = vec![format!("{:?}", fixture.store.projects().await.unwrap())];
    seen.push(format!("{:?}", fixture.store.secrets(shop()).await.unwrap()));
    for groups in [vec![UsageGroup::Model], vec![UsageGroup::Author]] {
        let query = UsageQuery { last_day: i64::MAX, groups, limit: 9, ..UsageQuery::default() };
        let report = fixture.store.usage(query).await.unwrap();
        seen.push(format!("{report:?}"));
    }
    let all = journeyman_core::ports::JobFilter::newest(shop(), 100);
    for job in fixture.store.jobs(all).await.unwrap() {
        seen.push(format!("{job:?}"));
        seen.push(format!("{:?}", fixture.store.messages(job.id).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.runs(job.id).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.log(job.id, 0, 1000).await.unwrap()));
        seen.push(format!("{:?}", fixture.store.extras_of_jobs(vec![job.id]).await.unwrap()));
    }
    seen
}

#[tokio::test]
async fn a_copied_database_is_complete_and_usable() {
    let (old, url) = (populated().await, Postgres::shared().database());
    let file = old.dir.as_ref().unwrap().path().join("journeyman.db");
    let copied = copy_to_postgres(&file, &url).await.unwrap();
    let rows = |table: &str| copied.iter().find(|(name, _)| *name == table).unwrap().1;
    assert_eq!((rows("jobs"), rows("messages"), rows("runs"), rows("idempotency_keys")), (3, 6, 3, 3));
    let store = PostgresStore::open(&url, 4, Schema::Check, master_key(), old.world.clone()).await.unwrap();
    let new = Fixture::over("postgres", old.world.clone(), std::sync::Arc::new(store));
    assert_eq!(contents(&new).await, contents(&old).await);
    // The numbers of new rows follow the copied ones, and an idempotency key is still known.
    new.world.advance(Duration::from_secs(60));
    complete_next_job(&new).await;
    let id = new.engine.create_job(&project("shop"), new_job("a"), free()).await.unwrap().record.id;
    let again = new.engine.add_message(&shop(), id, prompt("b"), keyed("0", "b")).await.unwrap();
    assert!(again.replayed);
}

#[tokio::test]
async fn a_target_that_is_not_empty_is_refused() {
    let (old, url) = (populated().await, Postgres::shared().database());
    let file = old.dir.as_ref().unwrap().path().join("journeyman.db");
    copy_to_postgres(&file, &url).await.unwrap();
    assert!(matches!(copy_to_postgres(&file, &url).await, Err(CopyError::NotEmpty("meta"))));
}

#[tokio::test]
async fn a_row_that_differs_is_detected_and_nothing_is_copied() {
    let (old, server) = (populated().await, Postgres::shared());
    let url = server.database();
    let database = url.rsplit('/').next().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let spoil = "
        CREATE FUNCTION journeyman.spoil() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN NEW.prompt = NEW.prompt || '?'; RETURN NEW; END $$;
        CREATE TRIGGER spoil BEFORE INSERT ON journeyman.messages FOR EACH ROW EXECUTE FUNCTION journeyman.spoil()";
    server.sql(database, spoil);
    let file = old.dir.as_ref().unwrap().path().join("journeyman.db");
    let refused = copy_to_postgres(&file, &url).await;
    assert!(matches!(refused, Err(CopyError::Differs { table: "messages", row: 1 })), "{refused:?}");
    assert_eq!(server.sql(database, "SELECT count(*) FROM journeyman.jobs"), "0");
}
