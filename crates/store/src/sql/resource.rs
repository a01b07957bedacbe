//! The tables of resources: each resource has the same statements.

use async_trait::async_trait;
use journeyman_core::decision::Subject;
use journeyman_core::epoch::Epoch;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ResourceStore, StoreError};
use journeyman_core::refusal::ResourceKind;
use journeyman_core::resource::{Key, Locked, Put, Resource};
use journeyman_core::time::Timestamp;

use super::admin::{Lock, Sealing, put_deleted};
use super::{Database, DbError, Row, SqlStore, Statement, Tx, lock, projects, sql};
use crate::rows::Columns as _;

/// The table of a resource. [`statements!`] defines the first six functions.
#[async_trait]
pub(crate) trait ResourceTable: Resource {
    /// Returns the statement that selects a resource.
    fn by_id(id: &Self::Id) -> Statement;

    /// Returns the statement that selects all resources, in the order of lists: of a project, if they belong to one.
    fn list(project: Option<&ProjectId>) -> Statement;

    /// Returns the statement that selects the resource and locks its row.
    fn select(key: &Key<Self>) -> Statement;

    /// Returns the statement that counts the resources: of the project, if they belong to one.
    fn count(key: &Key<Self>) -> Statement;

    /// Returns the statement that selects a row if another resource has the name of the key; `None` if names may be equal.
    fn with_name(_key: &Key<Self>) -> Option<Statement> {
        None
    }

    /// Returns the statement that deletes the row.
    fn delete(key: &Key<Self>) -> Statement;

    /// Decodes a row.
    fn read(row: &Row) -> Result<Self, StoreError>;

    /// Returns the statements that store the resource and change its secrets.
    fn put(put: &Put<Self>, sealing: Sealing<'_>) -> Result<Vec<Statement>, StoreError>;

    /// Returns the statements that remove the resource with what belongs to it.
    fn remove(key: &Key<Self>) -> Vec<Statement> {
        vec![Self::delete(key)]
    }

    /// `true` if a resource may have so many rows that its removal takes long.
    const HAS_MANY_ROWS: bool = false;

    /// Loads the other rows that the rules need.
    async fn related(_key: &Key<Self>, _tx: &mut (dyn Tx + '_)) -> Result<Self::Related, DbError> {
        Ok(Self::Related::default())
    }
}

/// Defines the statements of a [`ResourceTable`]: of a table with a column `project` or without, with the order of lists,
/// and with a column of unique names or without.
macro_rules! statements {
    ($table:literal, of a project, by $order:literal $(, named $name:literal)?) => {
        fn list(project: Option<&journeyman_core::ids::ProjectId>) -> Statement {
            let text = $crate::sql::sql!(concat!("SELECT * FROM ", $table, " WHERE project = $1 ORDER BY ", $order));
            Statement { values: vec![project.map(|project| project.as_str()).into()], ..text }
        }

        fn select(key: &Key<Self>) -> Statement {
            let text = $crate::sql::sql!(concat!("SELECT * FROM ", $table, " WHERE id = $1 AND project = $2 FOR UPDATE"));
            Statement { values: vec![key.id.to_string().into(), $crate::sql::resource::project(key)], ..text }
        }

        fn count(key: &Key<Self>) -> Statement {
            let text = $crate::sql::sql!(concat!("SELECT count(*) AS number FROM ", $table, " WHERE project = $1"));
            Statement { values: vec![$crate::sql::resource::project(key)], ..text }
        }

        $(fn with_name(key: &Key<Self>) -> Option<Statement> {
            let text = $crate::sql::sql!(concat!(
                "SELECT 1 FROM ", $table, " WHERE project = $1 AND ", $name, " = $2 AND id <> $3"
            ));
            let values = vec![$crate::sql::resource::project(key), key.name.as_str().into(), key.id.to_string().into()];
            Some(Statement { values, ..text })
        })?

        $crate::sql::resource::statements!(@id $table);
    };
    ($table:literal, by $order:literal $(, named $name:literal)?) => {
        fn list(_: Option<&journeyman_core::ids::ProjectId>) -> Statement {
            $crate::sql::sql!(concat!("SELECT * FROM ", $table, " ORDER BY ", $order))
        }

        fn select(key: &Key<Self>) -> Statement {
            $crate::sql::sql!(concat!("SELECT * FROM ", $table, " WHERE id = $1 FOR UPDATE"), key.id.to_string())
        }

        fn count(_: &Key<Self>) -> Statement {
            $crate::sql::sql!(concat!("SELECT count(*) AS number FROM ", $table))
        }

        $(fn with_name(key: &Key<Self>) -> Option<Statement> {
            let text = $crate::sql::sql!(concat!("SELECT 1 FROM ", $table, " WHERE ", $name, " = $1 AND id <> $2"));
            Some(Statement { values: vec![key.name.as_str().into(), key.id.to_string().into()], ..text })
        })?

        $crate::sql::resource::statements!(@id $table);
    };
    (@id $table:literal) => {
        fn by_id(id: &Self::Id) -> Statement {
            $crate::sql::sql!(concat!("SELECT * FROM ", $table, " WHERE id = $1"), id.to_string())
        }

        fn delete(key: &Key<Self>) -> Statement {
            $crate::sql::sql!(concat!("DELETE FROM ", $table, " WHERE id = $1"), key.id.to_string())
        }
    };
}
pub(crate) use statements;

/// Returns the statement that takes the lock of all resources of a kind.
pub(super) fn lock_all(kind: ResourceKind) -> Statement {
    lock(&format!("{}s", kind.noun().to_lowercase()), "", "")
}

/// Returns the project of a key as a parameter.
pub(crate) fn project<R: Resource>(key: &Key<R>) -> super::Value {
    key.project.as_ref().map(|project| project.as_str()).into()
}

#[async_trait]
impl<B: Database, R: ResourceTable> ResourceStore<R> for SqlStore<B> {
    async fn resource(&self, id: R::Id) -> Result<Option<R>, StoreError> {
        self.find(R::by_id(&id), R::read).await
    }

    async fn resources(&self, project: Option<ProjectId>) -> Result<Vec<R>, StoreError> {
        self.all(R::list(project.as_ref()), R::read).await
    }
}

#[async_trait]
impl<R: ResourceTable> Lock for Key<R>
where
    Self: Subject<Locked = Locked<R>>,
{
    /// Locks the project, or all resources of the kind, because their names must be different.
    async fn lock(&self, tx: &mut (dyn Tx + '_), epoch: &Epoch) -> Result<Locked<R>, DbError> {
        let has_project = match &self.project {
            Some(project) => {
                tx.execute(lock("project", project.as_str(), "")).await?;
                tx.exists(projects::lock(project)).await?
            }
            None => {
                tx.execute(lock_all(R::KIND)).await?;
                true
            }
        };
        let named = R::with_name(self).filter(|_| !self.name.is_empty());
        let named = named.unwrap_or_else(|| sql!(sqlite: "", postgres: "SELECT 1 WHERE false"));
        let removed = sql!("SELECT 1 FROM deleted WHERE subject = $1", self.removed_name());
        let [current, count, named, removed] = tx.all([R::select(self), R::count(self), named, removed]).await?;
        let count = count.first().map(|row| row.number("number")).transpose()?.flatten();
        let current = current.first().map(R::read).transpose()?;
        Ok(Locked {
            has_project,
            count: count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
            name_is_taken: !named.is_empty(),
            was_removed: current.is_none() && !removed.is_empty(),
            related: R::related(self, tx).await?,
            epoch: epoch.base,
            current,
        })
    }
}

/// Returns the statements that remove a resource, and remember that it was removed.
pub(super) fn remove<R: ResourceTable>(key: &Key<R>, at: Timestamp) -> Vec<Statement> {
    let mut statements = R::remove(key);
    statements.push(put_deleted(key.removed_name(), at));
    statements
}
