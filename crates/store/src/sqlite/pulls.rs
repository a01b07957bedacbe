//! Pull requests of the built-in code host.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ports::{PullStore, StoreError};
use journeyman_core::pull::{Comment, CommentState, LocalPull, NewComment, NewPull, PullReviews, PullText};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::lists;
use crate::rows::{self, to_json};

/// Selects the states of the submitted comments on a pull request.
const COMMENT_STATES: &str = "
    SELECT repository, place, resolved_by, resolved_at FROM comments
    WHERE repository = ?1 AND number = ?2 AND draft = 0 ORDER BY place";

/// Selects the numbers of submitted comments on pull requests by author, with the latest verdicts. The comments that a
/// review consists of are not counted.
const REVIEWS: &str = "
    SELECT repository, number, count(*) FILTER (WHERE review IS NULL OR review = place) AS comments,
           max(CASE WHEN review = place AND verdict = 'approve' THEN place END) AS approval,
           max(CASE WHEN review = place AND verdict = 'request_changes' THEN place END) AS request
    FROM comments WHERE repository = ?1 AND number IN (SELECT value FROM json_each(?2)) AND draft = 0
    GROUP BY repository, number, author_id";

#[async_trait]
impl PullStore for SqliteStore {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        self.writer
            .write(move |db| {
                // One statement takes the next number and inserts the row. If the branch already has an open pull
                // request, the insert violates a unique index and does nothing.
                let text =
                    "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
                     SELECT ?1, max(coalesce(max(number), 0), ?9) + 1, ?2, ?3, 'open', ?4, ?5, ?6, ?7, ?8
                     FROM pulls WHERE repository = ?1
                     ON CONFLICT DO NOTHING RETURNING *";
                let mut insert = db.prepare_cached(text)?;
                let mut rows = insert.query(params![
                    repository,
                    new.title,
                    new.body,
                    new.draft,
                    new.head,
                    base,
                    to_json(&new.labels)?,
                    now.as_micros(),
                    i64::try_from(db.epoch.pulls_after()).unwrap_or(i64::MAX)
                ])?;
                Ok::<_, OpError<StoreError>>(rows.next()?.map(rows::pull).transpose()?)
            })
            .await
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM pulls WHERE repository = ?1 AND number = ?2")?;
                let mut rows = query.query(params![repository, number])?;
                rows.next()?.map(rows::pull).transpose()
            })
            .await
    }

    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM pulls WHERE repository = ?1 AND head = ?2 ORDER BY number DESC";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query(params![repository, head])?, |row| rows::pull(row))
            })
            .await
    }

    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                db.prepare_cached(
                    "UPDATE pulls SET title = coalesce(?3, title), body = coalesce(?4, body), draft = coalesce(?5, draft)
                     WHERE repository = ?1 AND number = ?2",
                )?
                .execute(params![repository, number, text.title, text.body, text.draft])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        self.readers.read(move |db| all(db, &repository)).await
    }

    async fn remove_pulls(&self, repository: String) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                for delete in ["DELETE FROM comments WHERE repository = ?1", "DELETE FROM pulls WHERE repository = ?1"]
                {
                    db.prepare_cached(delete)?.execute([&repository])?;
                }
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM comments WHERE repository = ?1 AND number = ?2 ORDER BY place";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query(params![repository, number])?, |row| rows::comment(row))
            })
            .await
    }

    async fn comment_states(&self, repository: String, number: u64) -> Result<Vec<CommentState>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(COMMENT_STATES)?;
                collect(&mut query.query(params![repository, number])?, |row| rows::comment_state(row))
            })
            .await
    }

    async fn reviews_of_pulls(
        &self,
        repository: String,
        numbers: Vec<u64>,
    ) -> Result<BTreeMap<u64, PullReviews>, StoreError> {
        let numbers = to_json(&numbers)?;
        let found = self.readers.read(move |db| {
            let mut query = db.prepare_cached(REVIEWS)?;
            collect(&mut query.query(params![repository, numbers])?, |row| rows::reviews_of_author(row))
        });
        Ok(lists::reviews(found.await?))
    }

    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let text = "INSERT INTO comments (repository, number, place, author, author_id, body, at, marker)
                            SELECT ?1, ?2, 1 + max((SELECT coalesce(max(place), 0) FROM comments
                                                    WHERE repository = ?1 AND number = ?2),
                                                   iif(created_at < ?8, ?9, 0)), ?3, ?4, ?5, ?6, ?7
                            FROM pulls WHERE repository = ?1 AND number = ?2
                            ON CONFLICT DO NOTHING";
                let NewComment { author, author_id, body, at, .. } = &comment;
                db.prepare_cached(text)?.execute(params![
                    repository,
                    number,
                    author,
                    author_id,
                    body,
                    at.as_micros(),
                    marker,
                    db.epoch.old_before().as_micros(),
                    i64::try_from(db.epoch.base).unwrap_or(i64::MAX)
                ])?;
                let text = "SELECT place FROM comments WHERE repository = ?1 AND number = ?2 AND marker = ?3";
                let mut query = db.prepare_cached(text)?;
                let place: Option<i64> =
                    query.query_row(params![repository, number, marker], |row| row.get(0)).optional()?;
                Ok::<_, OpError<StoreError>>(place.and_then(|place| u64::try_from(place).ok()))
            })
            .await
    }
}

fn all(db: &Connection, repository: &str) -> Result<Vec<LocalPull>, ReadError> {
    let mut query = db.prepare_cached("SELECT * FROM pulls WHERE repository = ?1 ORDER BY number DESC")?;
    let mut rows = query.query([repository])?;
    collect(&mut rows, |row| rows::pull(row))
}
