//! The statements that store pull requests of the built-in code host and their comments.

use journeyman_core::pull::{Comment, LocalPull};
use journeyman_core::time::Timestamp;

use super::number;
use crate::postgres::error::PgError;
use crate::postgres::pipeline::{Call, call};
use crate::rows::to_json;

/// Returns the statement that stores a new pull request.
pub(super) fn open_pull(pull: &LocalPull) -> Result<Call, PgError> {
    Ok(call!(
        "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        pull.repository.clone(),
        number(pull.number),
        pull.title.clone(),
        pull.body.clone(),
        pull.state.name(),
        i64::from(pull.draft),
        pull.head.clone(),
        pull.base.clone(),
        to_json(&pull.labels)?,
        pull.created_at.as_micros(),
    ))
}

/// Returns the statement that ends a pull request.
pub(super) fn end_pull(pull: &LocalPull) -> Call {
    let (base, head) = pull.ended_between.clone().unzip();
    call!(
        "UPDATE pulls SET state = $3, ended_at = $4, ended_base = $5, ended_head = $6, ended_by = $7, merge_commit = $8
         WHERE repository = $1 AND number = $2",
        pull.repository.clone(),
        number(pull.number),
        pull.state.name(),
        pull.ended_at.map(Timestamp::as_micros),
        base.map(String::from),
        head.map(String::from),
        pull.ended_by.clone(),
        pull.merge_commit.clone().map(String::from),
    )
}

/// Returns the statement that stores a comment.
pub(super) fn put_comment(repository: &str, pull: u64, comment: &Comment) -> Call {
    let Comment { place, comment } = comment;
    let line = comment.line.clone();
    call!(
        "INSERT INTO comments
             (repository, number, place, author, author_id, body, at, path, side, line, hunk, review, draft, message,
              verdict, resolved_by, resolved_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
         ON CONFLICT (repository, number, place)
         DO UPDATE SET at = excluded.at, review = excluded.review, draft = excluded.draft,
                       resolved_by = excluded.resolved_by, resolved_at = excluded.resolved_at",
        repository.to_owned(),
        number(pull),
        number(*place),
        comment.author.clone(),
        comment.author_id.clone(),
        comment.body.clone(),
        comment.at.as_micros(),
        line.as_ref().map(|line| line.path.clone()),
        line.as_ref().map(|line| line.side.name()),
        line.as_ref().map(|line| number(line.line)),
        line.map(|line| line.hunk),
        comment.review.map(number),
        i64::from(comment.is_draft),
        comment.message.map(|message| message.to_string()),
        comment.verdict.name(),
        comment.resolved.as_ref().map(|resolution| resolution.by.clone()),
        comment.resolved.as_ref().map(|resolution| resolution.at.as_micros()),
    )
}
