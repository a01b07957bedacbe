//! New sums of the usage of models.

use journeyman_core::ids::RunId;
use journeyman_core::job::Job;
use journeyman_core::usage::UsageSum;

use super::pipeline::{Query, call};
use crate::lists::LARGEST_SUM;

/// The usage of a run to add to the sums.
#[derive(Debug)]
pub(super) struct RunSum {
    run: String,
    project: String,
    model: String,
    sum: UsageSum,
}

impl RunSum {
    pub(super) fn new(job: &Job, run: RunId, sum: UsageSum) -> Self {
        Self { run: run.to_string(), project: job.project.to_string(), model: job.model.clone(), sum }
    }
}

/// Returns the statement that adds the usage of runs, which have ended, to the sums of their days, projects, models,
/// authors and keys. Transactions take the locks of the rows in the same order, so they cannot wait for each other in a
/// circle.
pub(super) fn add_sums(sums: &[RunSum]) -> Query {
    let numbers = |value: fn(&UsageSum) -> u64| {
        let number = |row: &RunSum| i64::try_from(value(&row.sum)).unwrap_or(i64::MAX);
        sums.iter().map(number).collect::<Vec<i64>>()
    };
    let texts = |value: fn(&RunSum) -> &String| sums.iter().map(|row| value(row).clone()).collect::<Vec<String>>();
    call!(
        "INSERT INTO usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens,
                                 cached_tokens, cost_micros, estimated_micros)
         SELECT runs.finished_at / 86400000000, new.project, new.model, coalesce(messages.author, ''),
                coalesce(messages.key, ''), sum(new.runs), sum(new.unpriced), sum(LEAST(new.input, $10)),
                sum(LEAST(new.output, $10)), sum(LEAST(new.cached, $10)), sum(LEAST(new.cost, $10)),
                sum(LEAST(new.estimated, $10))
         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $11::bigint[])
                  AS new (run, project, model, runs, unpriced, input, output, cached, cost, estimated)
         JOIN runs ON runs.id = new.run AND runs.finished_at IS NOT NULL
         LEFT JOIN messages ON messages.id = runs.message
         GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
         ON CONFLICT (day, project, model, author, key) DO UPDATE
         SET runs = usage_days.runs + excluded.runs, unpriced = usage_days.unpriced + excluded.unpriced,
             input_tokens = LEAST(usage_days.input_tokens + excluded.input_tokens, $10),
             output_tokens = LEAST(usage_days.output_tokens + excluded.output_tokens, $10),
             cached_tokens = LEAST(usage_days.cached_tokens + excluded.cached_tokens, $10),
             cost_micros = LEAST(usage_days.cost_micros + excluded.cost_micros, $10),
             estimated_micros = LEAST(usage_days.estimated_micros + excluded.estimated_micros, $10)",
        texts(|row| &row.run),
        texts(|row| &row.project),
        texts(|row| &row.model),
        numbers(|sum| sum.runs),
        numbers(|sum| sum.unpriced),
        numbers(|sum| sum.input_tokens),
        numbers(|sum| sum.output_tokens),
        numbers(|sum| sum.cached_tokens),
        numbers(|sum| sum.cost_micros),
        LARGEST_SUM,
        numbers(|sum| sum.estimated_micros),
    )
}
