//! Pull requests of the built-in code host.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ports::{PullStore, StoreError};
use journeyman_core::pull::{Comment, CommentState, LocalPull, NewComment, NewPull, PullReviews, PullText};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::lists;
use crate::rows::{self, to_json};

/// The lock of a repository's pull requests, which serializes the assignment of numbers, the ends, and the comments.
pub(super) const PULLS_LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('pulls/' || $1, 0))";

/// Selects the states of the submitted comments on a pull request.
const COMMENT_STATES: &str = "
    SELECT repository, place, resolved_by, resolved_at FROM comments
    WHERE repository = $1 AND number = $2 AND draft = 0 ORDER BY place";

/// Selects the numbers of submitted comments on pull requests by author, with the latest verdicts. The comments that a
/// review consists of are not counted.
pub(super) const REVIEWS: &str = "
    SELECT repository, number, count(*) FILTER (WHERE review IS NULL OR review = place) AS comments,
           max(CASE WHEN review = place AND verdict = 'approve' THEN place END) AS approval,
           max(CASE WHEN review = place AND verdict = 'request_changes' THEN place END) AS request
    FROM comments WHERE repository = $1 AND number = ANY($2::bigint[]) AND draft = 0
    GROUP BY repository, number, author_id";

#[async_trait]
impl PullStore for PostgresStore {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        // If the branch already has an open pull request, the insert violates a unique index and does nothing.
        let lock = call!(PULLS_LOCK, repository.clone());
        let insert = call!(
            "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
             SELECT $1, GREATEST(coalesce(max(number), 0), $9) + 1, $2, $3, 'open', $4, $5, $6, $7, $8
             FROM pulls WHERE repository = $1
             ON CONFLICT DO NOTHING RETURNING *",
            repository,
            new.title,
            new.body,
            i64::from(new.draft),
            new.head,
            base,
            to_json(&new.labels)?,
            now.as_micros(),
            i64::try_from(self.epochs.current().pulls_after()).unwrap_or(i64::MAX),
        );
        let answers = self.write(vec![lock, insert]).await?;
        Ok(answers.last().and_then(|rows| rows.first()).map(rows::pull).transpose()?)
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let text = "SELECT * FROM pulls WHERE repository = $1 AND number = $2";
        let found = self.read(call!(text, repository, number)).await?;
        Ok(found.first().map(rows::pull).transpose()?)
    }

    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError> {
        let text = "SELECT * FROM pulls WHERE repository = $1 AND head = $2 ORDER BY number DESC";
        let found = self.read(call!(text, repository, head)).await?;
        Ok(found.iter().map(rows::pull).collect::<Result<_, PgError>>()?)
    }

    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError> {
        let edit = call!(
            "UPDATE pulls SET title = coalesce($3, title), body = coalesce($4, body), draft = coalesce($5, draft)
             WHERE repository = $1 AND number = $2",
            repository,
            i64::try_from(number).unwrap_or(i64::MAX),
            text.title,
            text.body,
            text.draft.map(i64::from),
        );
        self.write(vec![edit]).await?;
        Ok(())
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        let text = "SELECT * FROM pulls WHERE repository = $1 ORDER BY number DESC";
        let found = self.read(call!(text, repository)).await?;
        Ok(found.iter().map(rows::pull).collect::<Result<_, PgError>>()?)
    }

    async fn remove_pulls(&self, repository: String) -> Result<(), StoreError> {
        let calls = vec![
            call!(PULLS_LOCK, repository.clone()),
            call!("DELETE FROM comments WHERE repository = $1", repository.clone()),
            call!("DELETE FROM pulls WHERE repository = $1", repository),
        ];
        self.write(calls).await?;
        Ok(())
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let text = "SELECT * FROM comments WHERE repository = $1 AND number = $2 ORDER BY place";
        let found = self.read(call!(text, repository, i64::try_from(number).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::comment).collect::<Result<_, PgError>>()?)
    }

    async fn comment_states(&self, repository: String, number: u64) -> Result<Vec<CommentState>, StoreError> {
        let found = self.read(call!(COMMENT_STATES, repository, i64::try_from(number).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::comment_state).collect::<Result<_, PgError>>()?)
    }

    async fn reviews_of_pulls(
        &self,
        repository: String,
        numbers: Vec<u64>,
    ) -> Result<BTreeMap<u64, PullReviews>, StoreError> {
        let numbers: Vec<i64> = numbers.into_iter().map(|number| i64::try_from(number).unwrap_or(i64::MAX)).collect();
        let found = self.read(call!(REVIEWS, repository, numbers)).await?;
        Ok(lists::reviews(found.iter().map(rows::reviews_of_author).collect::<Result<_, PgError>>()?))
    }

    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let epoch = self.epochs.current();
        let insert = call!(
            "INSERT INTO comments (repository, number, place, author, author_id, body, at, marker)
             SELECT $1, $2, 1 + GREATEST((SELECT coalesce(max(place), 0) FROM comments
                                          WHERE repository = $1 AND number = $2),
                                         CASE WHEN created_at < $8 THEN $9 ELSE 0::bigint END), $3, $4, $5, $6, $7
             FROM pulls WHERE repository = $1 AND number = $2
             ON CONFLICT DO NOTHING",
            repository.clone(),
            number,
            comment.author,
            comment.author_id,
            comment.body,
            comment.at.as_micros(),
            marker.clone(),
            epoch.old_before().as_micros(),
            i64::try_from(epoch.base).unwrap_or(i64::MAX),
        );
        let find = call!(
            "SELECT place FROM comments WHERE repository = $1 AND number = $2 AND marker = $3",
            repository.clone(),
            number,
            marker,
        );
        let answers = self.write(vec![call!(PULLS_LOCK, repository), insert, find]).await?;
        let place = answers.last().and_then(|rows| rows.first()).map(|row| row.try_get::<_, i64>("place"));
        Ok(place.transpose().map_err(PgError::from)?.and_then(|place| u64::try_from(place).ok()))
    }
}
