//! New sums of the usage of models.

use journeyman_core::ids::RunId;
use journeyman_core::job::Job;
use journeyman_core::usage::UsageSum;
use rusqlite::{Connection, params};

use crate::lists::LARGEST_SUM;

/// Adds the usage of a run, which has ended, to the sum of its day, project, model, author and key.
pub(super) fn add(db: &Connection, job: &Job, run: RunId, sum: &UsageSum) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens,
                                 cached_tokens, cost_micros, estimated_micros)
         SELECT runs.finished_at / 86400000000, ?2, ?3, coalesce(messages.author, ''), coalesce(messages.key, ''), ?4,
                ?5, ?6, ?7, ?8, ?9, ?11
         FROM runs LEFT JOIN messages ON messages.id = runs.message
         WHERE runs.id = ?1 AND runs.finished_at IS NOT NULL
         ON CONFLICT DO UPDATE
         SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
             input_tokens = min(input_tokens + excluded.input_tokens, ?10),
             output_tokens = min(output_tokens + excluded.output_tokens, ?10),
             cached_tokens = min(cached_tokens + excluded.cached_tokens, ?10),
             cost_micros = min(cost_micros + excluded.cost_micros, ?10),
             estimated_micros = min(estimated_micros + excluded.estimated_micros, ?10)",
    )?
    .execute(params![
        run.to_string(),
        job.project.as_str(),
        job.model,
        number(sum.runs),
        number(sum.unpriced),
        number(sum.input_tokens),
        number(sum.output_tokens),
        number(sum.cached_tokens),
        number(sum.cost_micros),
        LARGEST_SUM,
        number(sum.estimated_micros),
    ])?;
    Ok(())
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(LARGEST_SUM)
}
