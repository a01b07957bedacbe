//! The statements that delete projects.

use journeyman_core::admin::deleted_project;
use journeyman_core::ids::ProjectId;
use journeyman_core::job::effect::Effect;
use journeyman_core::time::Timestamp;

use super::put_deleted;
use crate::postgres::connect::PLAN_FOR_MANY;
use crate::postgres::pipeline::{Call, call};
use crate::postgres::webhooks;
use crate::sql::slack;

/// Returns the statements that delete a project with everything that belongs to it.
pub(super) fn delete_project(project: &ProjectId, at: Timestamp) -> Vec<Call> {
    let id = || project.to_string();
    let mut calls = vec![
        // A project may have many rows, so the deletion may take long.
        call!("SET LOCAL statement_timeout = '10min'"),
        call!(PLAN_FOR_MANY[0]),
        call!(PLAN_FOR_MANY[1]),
        call!("DELETE FROM log WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!("DELETE FROM runs WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!("DELETE FROM messages WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!(
            "INSERT INTO tasks (kind, effect, created_at, due_at)
             SELECT $2::text, json_build_object('kind', $2::text, 'job', id)::text, $3::bigint, $3::bigint
             FROM jobs WHERE project = $1",
            id(),
            Effect::REMOVE_BLOBS,
            at.as_micros()
        ),
    ];
    calls.extend(slack::remove_jobs_of(project).map(Call::from));
    calls.extend([
        call!("DELETE FROM job_pulls WHERE project = $1", id()),
        call!("DELETE FROM job_issues WHERE project = $1", id()),
        call!("DELETE FROM check_watches WHERE project = $1", id()),
        call!("DELETE FROM base_comparisons WHERE project = $1", id()),
        call!("DELETE FROM comparison_schedule WHERE project = $1", id()),
        call!("DELETE FROM inbox WHERE project = $1", id()),
        call!("DELETE FROM job_attributes WHERE project = $1", id()),
        call!("DELETE FROM feed WHERE project = $1", id()),
        call!("DELETE FROM jobs WHERE project = $1", id()),
        call!("DELETE FROM idempotency_keys WHERE project = $1", id()),
        call!("DELETE FROM rate_windows WHERE project = $1", id()),
        call!("DELETE FROM spending WHERE project = $1", id()),
        call!("DELETE FROM reservations WHERE project = $1", id()),
    ]);
    calls.extend(webhooks::remove(None, project));
    calls.extend([call!("DELETE FROM projects WHERE id = $1", id()), put_deleted(deleted_project(project), at)]);
    calls
}
