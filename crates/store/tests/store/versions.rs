//! Jobs that processes of several versions write.

use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::engine::NewJob;
use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::model::Effort;
use journeyman_store::{PostgresStore, Schema, SqliteStore};
use journeyman_testkit::{Postgres, World};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::conformance::{complete_next_job, size};
use super::fixtures::{Fixture, free, master_key, migrated, new_job, postgres_at, project, prompt, shop, sqlite};

/// A database that several processes share.
enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

/// Returns a database of each kind, with the store of a process of this version.
async fn databases() -> [(Database, Fixture); 2] {
    let (file, url) = (sqlite().await, migrated().await);
    let path = file.dir.as_ref().unwrap().path().join("journeyman.db");
    let shared = postgres_at(&url).await;
    [(Database::Sqlite(path), file), (Database::Postgres(url), shared)]
}

impl Database {
    /// Opens the store of another process of this version, which has nothing in its cache.
    async fn open(&self, world: &Arc<World>) -> Fixture {
        match self {
            Self::Sqlite(path) => {
                let store = SqliteStore::open(path, master_key(), world.clone()).unwrap();
                Fixture::over("sqlite", world.clone(), Arc::new(store))
            }
            Self::Postgres(url) => {
                let store = PostgresStore::open(url, 2, Schema::Check, master_key(), world.clone()).await.unwrap();
                Fixture::over("postgres", world.clone(), Arc::new(store))
            }
        }
    }

    /// Returns the job as another process of this version reads it.
    async fn job(&self, world: &Arc<World>, id: JobId) -> Job {
        self.open(world).await.store.job(id).await.unwrap().unwrap()
    }

    /// Returns the document of a job.
    fn document(&self, id: JobId) -> Value {
        let text: String = match self {
            Self::Sqlite(path) => {
                let text = "SELECT state FROM jobs WHERE id = ?1";
                Connection::open(path).unwrap().query_row(text, [id.to_string()], |row| row.get(0)).unwrap()
            }
            Self::Postgres(url) => {
                let text = format!("SELECT state FROM journeyman.jobs WHERE id = '{id}'");
                Postgres::shared().sql(url.rsplit('/').next().unwrap(), &text)
            }
        };
        serde_json::from_str(&text).unwrap()
    }

    /// Writes the document of a job, as a version does that does not know the column with the size of the change.
    fn write(&self, id: JobId, document: &Value) {
        match self {
            Self::Sqlite(path) => {
                let text = "UPDATE jobs SET state = ?2 WHERE id = ?1";
                let values = [id.to_string(), document.to_string()];
                assert_eq!(Connection::open(path).unwrap().execute(text, values).unwrap(), 1);
            }
            Self::Postgres(url) => {
                let document = document.to_string().replace('\'', "''");
                let text = format!("UPDATE journeyman.jobs SET state = '{document}' WHERE id = '{id}'");
                Postgres::shared().sql(url.rsplit('/').next().unwrap(), &text);
            }
        }
    }

    /// Removes the sizes of changes from their column, as in a database that was just migrated.
    fn clear_sizes(&self) {
        match self {
            Self::Sqlite(path) => {
                Connection::open(path).unwrap().execute("UPDATE jobs SET diff = NULL", []).unwrap();
            }
            Self::Postgres(url) => {
                let text = "UPDATE journeyman.jobs SET diff = NULL";
                Postgres::shared().sql(url.rsplit('/').next().unwrap(), text);
            }
        }
    }
}

#[tokio::test]
async fn an_older_version_that_writes_a_job_keeps_the_size_of_its_change() {
    for (database, fixture) in databases().await {
        let name = fixture.name;
        let id = fixture.job().await;
        complete_next_job(&fixture).await;
        let mut document = database.document(id);
        assert_eq!(document.get("diff"), None, "{name}: an older version would drop it");
        document["title"] = json!("Changed by an older version");
        database.write(id, &document);
        let job = database.job(&fixture.world, id).await;
        assert_eq!((job.title.as_str(), job.diff), ("Changed by an older version", Some(size())), "{name}");
    }
}

#[tokio::test]
async fn an_older_version_that_writes_a_job_keeps_its_effort() {
    for (database, fixture) in databases().await {
        let name = fixture.name;
        let new = NewJob { effort: Some(Effort::XHigh), ..new_job("a") };
        let id = fixture.engine.create_job(&project("shop"), new, free()).await.unwrap().record.id;
        let mut document = database.document(id);
        assert_eq!(document.get("effort"), None, "{name}: an older version would drop it");
        document["title"] = json!("Changed by an older version");
        database.write(id, &document);
        let job = database.job(&fixture.world, id).await;
        assert_eq!((job.title.as_str(), job.effort), ("Changed by an older version", Some(Effort::XHigh)), "{name}");
    }
}

#[tokio::test]
async fn the_size_of_a_change_is_unknown_after_an_older_version_has_changed_the_branch() {
    for (database, fixture) in databases().await {
        let name = fixture.name;
        let id = fixture.job().await;
        complete_next_job(&fixture).await;
        let document = database.document(id);
        for (field, value) in [("head", json!("c".repeat(40))), ("generation", json!(2))] {
            let mut changed = document.clone();
            changed["branch"][field] = value;
            database.write(id, &changed);
            assert_eq!(database.job(&fixture.world, id).await.diff, None, "{name}: another {field}");
        }
        database.write(id, &document);
        assert_eq!(database.job(&fixture.world, id).await.diff, Some(size()), "{name}");
    }
}

#[tokio::test]
async fn a_size_in_the_document_moves_to_its_column_with_the_next_change() {
    for (database, fixture) in databases().await {
        let name = fixture.name;
        let id = fixture.job().await;
        complete_next_job(&fixture).await;
        let mut document = database.document(id);
        document["diff"] = json!(size());
        database.clear_sizes();
        database.write(id, &document);
        assert_eq!(database.job(&fixture.world, id).await.diff, Some(size()), "{name}: of an earlier version");
        let upgraded = database.open(&fixture.world).await;
        // The second message changes no column that is in an index.
        for text in ["a", "b"] {
            upgraded.engine.add_message(&shop(), id, prompt(text), free()).await.unwrap();
            assert_eq!(database.document(id).get("diff"), None, "{name}: after message {text}");
            assert_eq!(database.job(&fixture.world, id).await.diff, Some(size()), "{name}: after message {text}");
        }
    }
}
