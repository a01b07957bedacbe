//! Pull requests of the built-in code host.

use async_trait::async_trait;
use journeyman_core::ids::Sha;
use journeyman_core::ports::{PullStore, StoreError};
use journeyman_core::pull::{Comment, LocalPull, NewComment, NewPull, PullState};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::call;
use crate::rows::{self, to_json};

#[async_trait]
impl PullStore for PostgresStore {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        // The lock of the repository serializes the assignment of numbers. If the branch already has an open pull
        // request, the insert violates a unique index and does nothing.
        let lock = call!("SELECT pg_advisory_xact_lock(hashtextextended('pulls/' || $1, 0))", repository.clone());
        let insert = call!(
            "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
             SELECT $1, coalesce(max(number), 0) + 1, $2, $3, 'open', $4, $5, $6, $7, $8
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

    async fn open_pull_of(&self, repository: String, head: String) -> Result<Option<LocalPull>, StoreError> {
        let text = "SELECT * FROM pulls WHERE repository = $1 AND head = $2 AND state = 'open'";
        let found = self.read(call!(text, repository, head)).await?;
        Ok(found.first().map(rows::pull).transpose()?)
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        let text = "SELECT * FROM pulls WHERE repository = $1 ORDER BY number DESC";
        let found = self.read(call!(text, repository)).await?;
        Ok(found.iter().map(rows::pull).collect::<Result<_, PgError>>()?)
    }

    async fn end_pull(
        &self,
        repository: String,
        number: u64,
        state: PullState,
        between: Option<(Sha, Sha)>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (base, head) = between.unzip();
        let end = call!(
            "UPDATE pulls SET state = $3, ended_at = $4, ended_base = $5, ended_head = $6
             WHERE repository = $1 AND number = $2 AND state = 'open' RETURNING number",
            repository,
            i64::try_from(number).unwrap_or(i64::MAX),
            state.name(),
            now.as_micros(),
            base.map(String::from),
            head.map(String::from),
        );
        let answers = self.write(vec![end]).await?;
        Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
    }

    async fn comment(&self, repository: String, number: u64, comment: NewComment) -> Result<Comment, StoreError> {
        let lock = call!("SELECT pg_advisory_xact_lock(hashtextextended('pulls/' || $1, 0))", repository.clone());
        let insert = call!(
            "INSERT INTO comments (repository, number, place, author, body, at, message)
             SELECT $1, $2, coalesce(max(place), 0) + 1, $3, $4, $5, $6
             FROM comments WHERE repository = $1 AND number = $2 RETURNING *",
            repository,
            i64::try_from(number).unwrap_or(i64::MAX),
            comment.author,
            comment.body,
            comment.at.as_micros(),
            comment.message.map(|message| message.to_string()),
        );
        let answers = self.write(vec![lock, insert]).await?;
        let stored = answers.last().and_then(|rows| rows.first()).map(rows::comment).transpose()?;
        stored.ok_or_else(|| StoreError::Unavailable("the comment was not stored".to_owned()))
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let text = "SELECT * FROM comments WHERE repository = $1 AND number = $2 ORDER BY place";
        let found = self.read(call!(text, repository, i64::try_from(number).unwrap_or(i64::MAX))).await?;
        Ok(found.iter().map(rows::comment).collect::<Result<_, PgError>>()?)
    }
}
