//! Pull requests of the built-in code host.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ports::{PullStore, StoreError};
use journeyman_core::pull::{Comment, CommentState, LocalPull, NewComment, NewPull, PullReviews, PullText};
use journeyman_core::time::Timestamp;

use super::{Database, Row, SqlStore, Statement, sql};
use crate::lists;
use crate::rows::{self, Columns as _, to_json};

#[async_trait]
impl<B: Database> PullStore for SqlStore<B> {
    async fn open_pull(
        &self,
        repository: String,
        base: String,
        new: NewPull,
        now: Timestamp,
    ) -> Result<Option<LocalPull>, StoreError> {
        // One statement takes the next number and inserts the row. If the branch already has an open pull request, the
        // insert violates a unique index and does nothing.
        let insert = sql!(
            "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
             SELECT $1, greatest(coalesce(max(number), 0), $9) + 1, $2, $3, 'open', $4, $5, $6, $7, $8
             FROM pulls WHERE repository = $1
             ON CONFLICT DO NOTHING RETURNING *",
            &repository,
            new.title,
            new.body,
            new.draft,
            new.head,
            base,
            to_json(&new.labels)?,
            now,
            self.epoch().pulls_after(),
        );
        let opened = self.run(vec![lock(&repository), insert]).await?;
        opened.first().map(rows::pull).transpose()
    }

    async fn pull(&self, repository: String, number: u64) -> Result<Option<LocalPull>, StoreError> {
        let query = sql!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository, number);
        self.find(query, rows::pull).await
    }

    async fn pulls_of_branch(&self, repository: String, head: String) -> Result<Vec<LocalPull>, StoreError> {
        let query =
            sql!("SELECT * FROM pulls WHERE repository = $1 AND head = $2 ORDER BY number DESC", repository, head);
        self.all(query, rows::pull).await
    }

    async fn edit_pull(&self, repository: String, number: u64, text: PullText) -> Result<(), StoreError> {
        let edit = sql!(
            "UPDATE pulls SET title = coalesce($3, title), body = coalesce($4, body), draft = coalesce($5, draft)
             WHERE repository = $1 AND number = $2",
            repository,
            number,
            text.title,
            text.body,
            text.draft,
        );
        self.run(vec![edit]).await?;
        Ok(())
    }

    async fn pulls(&self, repository: String) -> Result<Vec<LocalPull>, StoreError> {
        self.all(sql!("SELECT * FROM pulls WHERE repository = $1 ORDER BY number DESC", repository), rows::pull).await
    }

    async fn remove_pulls(&self, repository: String) -> Result<(), StoreError> {
        let statements = vec![
            lock(&repository),
            sql!("DELETE FROM comments WHERE repository = $1", &repository),
            sql!("DELETE FROM pulls WHERE repository = $1", repository),
        ];
        self.run(statements).await?;
        Ok(())
    }

    async fn comments(&self, repository: String, number: u64) -> Result<Vec<Comment>, StoreError> {
        let query =
            sql!("SELECT * FROM comments WHERE repository = $1 AND number = $2 ORDER BY place", repository, number);
        self.all(query, rows::comment).await
    }

    async fn comment_states(&self, repository: String, number: u64) -> Result<Vec<CommentState>, StoreError> {
        let query = sql!(
            "SELECT repository, place, resolved_by, resolved_at FROM comments
             WHERE repository = $1 AND number = $2 AND draft = 0 ORDER BY place",
            repository,
            number,
        );
        self.all(query, rows::comment_state).await
    }

    async fn reviews_of_pulls(
        &self,
        repository: String,
        numbers: Vec<u64>,
    ) -> Result<BTreeMap<u64, PullReviews>, StoreError> {
        Ok(lists::reviews(self.all(reviews(repository, &numbers), rows::reviews_of_author).await?))
    }

    async fn comment_once(
        &self,
        repository: String,
        number: u64,
        marker: String,
        comment: NewComment,
    ) -> Result<Option<u64>, StoreError> {
        let epoch = self.epoch();
        let insert = sql!(
            "INSERT INTO comments (repository, number, place, author, author_id, body, at, marker)
             SELECT $1, $2, 1 + greatest((SELECT coalesce(max(place), 0) FROM comments
                                          WHERE repository = $1 AND number = $2),
                                         CASE WHEN created_at < $8 THEN $9 ELSE 0::bigint END), $3, $4, $5, $6, $7
             FROM pulls WHERE repository = $1 AND number = $2
             ON CONFLICT DO NOTHING",
            &repository,
            number,
            comment.author,
            comment.author_id,
            comment.body,
            comment.at,
            &marker,
            epoch.old_before(),
            epoch.base,
        );
        let find = sql!(
            "SELECT place FROM comments WHERE repository = $1 AND number = $2 AND marker = $3",
            &repository,
            number,
            marker,
        );
        let found = self.run(vec![lock(&repository), insert, find]).await?;
        let number = found.first().map(|row: &Row| row.number("place")).transpose()?.flatten();
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }
}

/// Returns the statement that takes the lock of a repository's pull requests, which serializes the assignment of numbers,
/// the ends, and the comments. SQLite has one transaction that writes at a time, so nothing happens there.
pub(crate) fn lock(repository: &str) -> Statement {
    sql!(
        sqlite: "",
        postgres: "SELECT pg_advisory_xact_lock(hashtextextended('pulls/' || $1, 0))";
        repository,
    )
}

/// Returns the query for the numbers of submitted comments on pull requests by author, with the latest verdicts. The
/// comments that a review consists of are not counted.
pub(crate) fn reviews(repository: String, numbers: &[u64]) -> Statement {
    sql!(
        "SELECT repository, number, count(*) FILTER (WHERE review IS NULL OR review = place) AS comments,
                max(CASE WHEN review = place AND verdict = 'approve' THEN place END) AS approval,
                max(CASE WHEN review = place AND verdict = 'request_changes' THEN place END) AS request
         FROM comments WHERE repository = $1 AND number = ANY (($2)) AND draft = 0
         GROUP BY repository, number, author_id",
        repository,
        numbers,
    )
}

/// Returns the statement that stores a new pull request.
pub(crate) fn open(pull: &LocalPull) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &pull.repository,
        pull.number,
        &pull.title,
        &pull.body,
        pull.state.name(),
        pull.draft,
        &pull.head,
        &pull.base,
        to_json(&pull.labels)?,
        pull.created_at,
    ))
}

/// Returns the statement that ends a pull request.
pub(crate) fn end(pull: &LocalPull) -> Statement {
    let (base, head) = pull.ended_between.as_ref().map(|(base, head)| (base.as_str(), head.as_str())).unzip();
    sql!(
        "UPDATE pulls SET state = $3, ended_at = $4, ended_base = $5, ended_head = $6, ended_by = $7, merge_commit = $8
         WHERE repository = $1 AND number = $2",
        &pull.repository,
        pull.number,
        pull.state.name(),
        pull.ended_at,
        base,
        head,
        pull.ended_by.as_ref(),
        pull.merge_commit.as_ref().map(|sha| sha.as_str()),
    )
}

/// Returns the statement that stores a comment.
pub(crate) fn put_comment(repository: &str, pull: u64, comment: &Comment) -> Statement {
    let Comment { number, comment } = comment;
    let (line, resolved) = (comment.line.as_ref(), comment.resolved.as_ref());
    sql!(
        "INSERT INTO comments
             (repository, number, place, author, author_id, body, at, path, side, line, hunk, review, draft, message,
              verdict, resolved_by, resolved_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
         ON CONFLICT (repository, number, place)
         DO UPDATE SET at = excluded.at, review = excluded.review, draft = excluded.draft,
                       resolved_by = excluded.resolved_by, resolved_at = excluded.resolved_at",
        repository,
        pull,
        *number,
        &comment.author,
        comment.author_id.as_ref(),
        &comment.body,
        comment.at,
        line.map(|line| &line.path),
        line.map(|line| line.side.name()),
        line.map(|line| line.line),
        line.map(|line| &line.hunk),
        comment.review,
        comment.is_draft,
        comment.message.map(|message| message.to_string()),
        comment.verdict.name(),
        resolved.map(|resolution| &resolution.by),
        resolved.map(|resolution| resolution.at),
    )
}

/// Returns the statement that removes a draft of a comment.
pub(crate) fn remove_draft(repository: &str, pull: u64, comment: u64) -> Statement {
    sql!(
        "DELETE FROM comments WHERE repository = $1 AND number = $2 AND place = $3 AND draft <> 0",
        repository,
        pull,
        comment,
    )
}
