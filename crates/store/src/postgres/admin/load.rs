//! The statements that lock and load what a decision needs.

use journeyman_core::admin::{
    AdminState, Exchange, LiveKeys, Subject, deleted_code_host, deleted_job, deleted_project, deleted_slack_workspace,
    deleted_template, deleted_trust, deleted_webhook,
};
use journeyman_core::epoch::Epoch;
use journeyman_core::ids::{ProjectId, UserId};
use journeyman_core::template::name_key;
use journeyman_core::user::Identity;

use super::number;
use crate::postgres::accept::lock_number;
use crate::postgres::error::PgError;
use crate::postgres::jobs::JOB;
use crate::postgres::pipeline::{Call, call};
use crate::postgres::session::Session;
use crate::rows;
use crate::sql::{projects, pulls, slack};

/// The lock for all changes of users, because the rule that an administrator always exists concerns all users.
const USERS_LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('users', 0))";

/// The lock of an exchange, which no change of users overlaps: a user whose rights end keeps no key.
const USERS_SHARED_LOCK: &str = "SELECT pg_advisory_xact_lock_shared(hashtextextended('users', 0))";

/// Locks and loads the rows of a subject, in a new transaction unless one has begun.
pub(super) async fn load(
    session: &Session,
    subject: &Subject,
    is_begun: bool,
    epoch: &Epoch,
) -> Result<AdminState, PgError> {
    let mut calls = if is_begun { Vec::new() } else { vec![call!("BEGIN")] };
    let first = calls.len() + 1;
    calls.extend(match subject {
        // New jobs lock the row with FOR KEY SHARE, which this lock permits.
        Subject::Project(id) => project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", id),
        Subject::ProjectWithJobs(id) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR UPDATE", id);
            // A project may have many jobs. The locks keep accepted messages from being deleted, and they are taken in
            // the order of all transactions: first jobs, then the rows of jobs.
            calls.insert(0, call!("SET LOCAL statement_timeout = '10min'"));
            calls.push(call!("SELECT id FROM jobs WHERE project = $1 ORDER BY id FOR UPDATE", id.to_string()));
            let active = "SELECT 1 FROM jobs WHERE project = $1 AND due_at IS NOT NULL LIMIT 1";
            calls.push(call!(active, id.to_string()));
            calls.push(call!(DELETED, deleted_project(id)));
            calls
        }
        Subject::Job(id, project) => vec![
            call!("SELECT id FROM jobs WHERE id = $1 FOR UPDATE", id.to_string()),
            call!(JOB, id.to_string()),
            call!(DELETED, deleted_job(*id, project)),
        ],
        Subject::Webhook(id, project) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", project);
            let one = "SELECT * FROM webhooks WHERE id = $1 AND project = $2 FOR UPDATE";
            calls.push(call!(one, id.to_string(), project.to_string()));
            calls.push(call!("SELECT count(*) AS webhooks FROM webhooks WHERE project = $1", project.to_string()));
            calls.push(call!(DELETED, deleted_webhook(*id, project)));
            calls
        }
        Subject::Template(id, project, name) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", project);
            let one = "SELECT * FROM templates WHERE id = $1 AND project = $2";
            calls.push(call!(one, id.to_string(), project.to_string()));
            calls.push(call!("SELECT count(*) AS templates FROM templates WHERE project = $1", project.to_string()));
            let taken = "SELECT 1 FROM templates WHERE project = $1 AND name_key = $2 AND id <> $3";
            calls.push(call!(taken, project.to_string(), name_key(name), id.to_string()));
            calls.push(call!(DELETED, deleted_template(*id, project)));
            calls
        }
        Subject::Key(id) => {
            let lock = lock_number("key", "", &id.to_string());
            vec![
                call!("SELECT pg_advisory_xact_lock($1)", lock),
                call!("SELECT * FROM keys WHERE id = $1 FOR UPDATE", id.to_string()),
            ]
        }
        Subject::User(id) => user_calls(*id),
        Subject::UserIdentity(id, Identity { issuer, subject }) => {
            let taken = "SELECT 1 FROM users WHERE issuer = $1 AND subject = $2 AND id <> $3";
            let mut calls = user_calls(*id);
            calls.push(call!(taken, issuer.clone(), subject.clone(), id.to_string()));
            calls
        }
        Subject::NewUser(name, identity) => {
            let (issuer, subject) = identity.clone().map(|known| (known.issuer, known.subject)).unzip();
            let taken = "SELECT 1 FROM users WHERE name = $1 OR (issuer = $2 AND subject = $3)";
            vec![call!(USERS_LOCK), call!(taken, name.clone(), issuer, subject)]
        }
        Subject::Pull(repository, of) => vec![
            pulls::lock(repository).into(),
            call!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository.clone(), number(*of)),
            call!(
                "SELECT max(place) AS place FROM comments WHERE repository = $1 AND number = $2",
                repository.clone(),
                number(*of)
            ),
            call!(
                "SELECT * FROM comments WHERE repository = $1 AND number = $2 AND draft <> 0 ORDER BY place",
                repository.clone(),
                number(*of)
            ),
        ],
        Subject::NewPull(repository, head) => vec![
            pulls::lock(repository).into(),
            call!(
                "SELECT * FROM pulls WHERE repository = $1 AND head = $2 AND state = 'open'",
                repository.clone(),
                head.clone()
            ),
            call!("SELECT coalesce(max(number), 0) AS last FROM pulls WHERE repository = $1", repository.clone()),
        ],
        Subject::PullLines(repository, of) => vec![
            pulls::lock(repository).into(),
            call!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository.clone(), number(*of)),
            call!(
                "SELECT * FROM comments
                 WHERE repository = $1 AND number = $2 AND draft = 0 AND path IS NOT NULL ORDER BY place",
                repository.clone(),
                number(*of)
            ),
        ],
        Subject::CodeHost(id, name) => vec![
            // One lock for all code hosts, because their names must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("code hosts", "", "")),
            call!("SELECT * FROM code_hosts WHERE id = $1", id.to_string()),
            call!("SELECT 1 FROM code_hosts WHERE name = $1 AND id <> $2", name.0.clone(), id.to_string()),
            call!("SELECT 1 FROM projects WHERE settings::jsonb #>> '{code_host,host}' = $1 LIMIT 1", id.to_string()),
            call!(DELETED, deleted_code_host(id)),
        ],
        Subject::Trust(id, name) => vec![
            // One lock for all trusts, because their names must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("trusts", "", "")),
            call!("SELECT * FROM trusts WHERE id = $1 FOR UPDATE", id.to_string()),
            call!("SELECT count(*) AS trusts FROM trusts"),
            call!("SELECT 1 FROM trusts WHERE name = $1 AND id <> $2", name.clone(), id.to_string()),
            call!("SELECT * FROM keys WHERE creator = $1 AND revoked_at IS NULL FOR UPDATE", id.to_string()),
            call!(DELETED, deleted_trust(*id)),
        ],
        Subject::Exchange(Exchange { trust: id, key, name, at }) => vec![
            call!(USERS_SHARED_LOCK),
            call!("SELECT * FROM trusts WHERE id = $1 FOR UPDATE", id.to_string()),
            call!(
                "SELECT users.* FROM users JOIN trusts ON trusts.owner = users.id WHERE trusts.id = $1",
                id.to_string()
            ),
            // The lock on the trust also covers a key that does not exist yet.
            call!("SELECT * FROM keys WHERE id = $1 FOR UPDATE", key.to_string()),
            call!(
                "SELECT count(*) AS all_live, count(*) FILTER (WHERE name = $3) AS of_subject FROM keys
                 WHERE creator = $1 AND revoked_at IS NULL AND id <> $2 AND expires_at > $4",
                id.to_string(),
                key.to_string(),
                name.clone(),
                at.as_micros(),
            ),
        ],
        Subject::SlackWorkspace(id, team) => vec![
            // One lock for all workspaces, because their IDs at Slack must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("slack workspaces", "", "")),
            slack::by_id(*id).into(),
            call!("SELECT 1 FROM slack_workspaces WHERE team = $1 AND id <> $2", team.clone(), id.to_string()),
            call!(DELETED, deleted_slack_workspace(*id)),
        ],
        Subject::SlackCode(id, hash) => vec![
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("slack workspaces", "", "")),
            slack::by_id(*id).into(),
            call!("SELECT owner FROM slack_codes WHERE hash = $1", hash.0.to_vec()),
        ],
        Subject::Link(hash, name) => vec![
            call!(USERS_LOCK),
            call!("SELECT * FROM links WHERE hash = $1", hash.0.to_vec()),
            call!("SELECT 1 FROM users WHERE name = $1", name.clone()),
            call!(OTHER_ADMINISTRATOR, String::new()),
            call!("SELECT users.* FROM users JOIN links ON owner = id WHERE hash = $1", hash.0.to_vec()),
        ],
    });
    let is_long = matches!(subject, Subject::ProjectWithJobs(_));
    let answers = if is_long { session.run_long(&calls).await? } else { session.run(&calls).await? };
    let rows = |index: usize| answers.get(first + index).map(Vec::as_slice).unwrap_or_default();
    let is_any = |index: usize| !rows(index).is_empty();
    let mut state = AdminState { epoch: epoch.base, ..AdminState::default() };
    match subject {
        // The row is read after its lock was taken, so that the read sees the last committed version.
        Subject::Project(_) => state.project = rows(1).first().map(rows::project).transpose()?,
        Subject::ProjectWithJobs(_) => {
            state.project = rows(2).first().map(rows::project).transpose()?;
            state.has_active_jobs = is_any(4);
            state.was_deleted = state.project.is_none() && is_any(5);
        }
        Subject::Webhook(..) => {
            state.project = rows(1).first().map(rows::project).transpose()?;
            state.webhook = rows(2).first().map(rows::webhook).transpose()?;
            let count = rows(3).first().map(|row| row.try_get::<_, i64>("webhooks")).transpose()?;
            state.webhooks = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.was_deleted = state.webhook.is_none() && is_any(4);
        }
        Subject::Template(..) => {
            state.project = rows(1).first().map(rows::project).transpose()?;
            state.template = rows(2).first().map(rows::template).transpose()?;
            let count = rows(3).first().map(|row| row.try_get::<_, i64>("templates")).transpose()?;
            state.templates = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.name_is_taken = is_any(4);
            state.was_deleted = state.template.is_none() && is_any(5);
        }
        Subject::Job(..) => {
            state.job = rows(0).first().map(rows::job).transpose()?;
            state.was_deleted = state.job.is_none() && is_any(1);
        }
        Subject::Key(_) => state.key = rows(0).first().map(rows::key).transpose()?,
        Subject::User(_) | Subject::UserIdentity(..) => {
            state.user = rows(0).first().map(rows::user).transpose()?;
            state.has_other_administrator = is_any(1);
            state.keys = rows(2).iter().map(rows::key).collect::<Result<_, PgError>>()?;
            // Only the second subject has this query.
            state.name_is_taken = is_any(3);
        }
        Subject::NewUser(..) => state.name_is_taken = is_any(0),
        Subject::CodeHost(..) => {
            state.code_host = rows(0).first().map(rows::code_host).transpose()?;
            state.name_is_taken = is_any(1);
            state.code_host_is_used = is_any(2);
            state.was_deleted = state.code_host.is_none() && is_any(3);
        }
        Subject::SlackCode(..) => {
            state.slack = rows(0).first().map(rows::slack_workspace).transpose()?;
            state.slack_code = rows(1).first().map(rows::slack_code).transpose()?;
        }
        Subject::SlackWorkspace(..) => {
            state.slack = rows(0).first().map(rows::slack_workspace).transpose()?;
            state.name_is_taken = is_any(1);
            state.was_deleted = state.slack.is_none() && is_any(2);
        }
        Subject::Pull(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            let last = rows(1).first().map(|row| row.try_get::<_, Option<i64>>("place")).transpose()?;
            let last = last.flatten().and_then(|place| u64::try_from(place).ok()).unwrap_or(0);
            let opened = state.pull.as_ref().map(|pull| pull.created_at);
            state.last_comment = opened.map_or(last, |opened| epoch.continued(last, opened));
            state.drafts = rows(2).iter().map(rows::comment).collect::<Result<_, PgError>>()?;
        }
        Subject::NewPull(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            let last = rows(1).first().map(|row| row.try_get::<_, i64>("last")).transpose()?;
            let last = last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
            state.last_pull = last.max(epoch.pulls_after());
        }
        Subject::PullLines(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            state.lines = rows(1).iter().map(rows::comment).collect::<Result<_, PgError>>()?;
        }
        Subject::Trust(..) => {
            state.trust = rows(0).first().map(rows::trust).transpose()?;
            let count = rows(1).first().map(|row| row.try_get::<_, i64>("trusts")).transpose()?;
            state.trusts = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.name_is_taken = is_any(2);
            state.keys = rows(3).iter().map(rows::key).collect::<Result<_, PgError>>()?;
            state.was_deleted = state.trust.is_none() && is_any(4);
        }
        Subject::Exchange(_) => {
            state.trust = rows(0).first().map(rows::trust).transpose()?;
            state.user = rows(1).first().map(rows::user).transpose()?;
            state.key = rows(2).first().map(rows::key).transpose()?;
            let count = |name: &str| {
                let count = rows(3).first().map(|row| row.try_get::<_, i64>(name)).transpose()?;
                Ok::<_, PgError>(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
            };
            state.live_keys = LiveKeys { all: count("all_live")?, of_subject: count("of_subject")? };
        }
        Subject::Link(..) => {
            state.link = rows(0).first().map(rows::link).transpose()?;
            state.name_is_taken = is_any(1);
            state.has_other_administrator = is_any(2);
            state.user = rows(3).first().map(rows::user).transpose()?;
        }
    }
    Ok(state)
}

const DELETED: &str = "SELECT 1 FROM deleted WHERE subject = $1";

/// Selects a row if there is an enabled administrator other than the user `$1`.
const OTHER_ADMINISTRATOR: &str =
    "SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL AND id <> $1 LIMIT 1";

/// Returns the statements that lock and load a project.
pub(super) fn project_calls(lock: &'static str, id: &ProjectId) -> Vec<Call> {
    // The advisory lock also covers a project that does not exist yet.
    let number = lock_number("project", id.as_str(), "");
    vec![call!("SELECT pg_advisory_xact_lock($1)", number), call!(lock, id.to_string()), projects::by_id(id).into()]
}

/// Returns the statements that lock and load a user.
pub(super) fn user_calls(id: UserId) -> Vec<Call> {
    vec![
        call!(USERS_LOCK),
        call!("SELECT * FROM users WHERE id = $1", id.to_string()),
        call!(OTHER_ADMINISTRATOR, id.to_string()),
        call!("SELECT * FROM keys WHERE owner = $1 AND revoked_at IS NULL FOR UPDATE", id.to_string()),
    ]
}
