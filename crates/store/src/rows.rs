//! Conversion of database rows to values, the same for every database. An unknown value is an error that names the
//! table and the row.

mod columns;
mod hosts;
mod jobs;
mod slack;

use std::time::Duration;

use journeyman_core::audit::{AuditEntry, AuditLine};
use journeyman_core::checks::CheckWatch;
use journeyman_core::code_host::HostName;
use journeyman_core::feed::{FeedEnds, FeedEntry};
use journeyman_core::hook::HookEvent;
use journeyman_core::idempotency::{Fingerprint, Remembered};
use journeyman_core::ids::ProjectId;
use journeyman_core::import::Import;
use journeyman_core::inbox::{Content, InboxEvent};
use journeyman_core::key::{ApiKey, KeyHash, OldSecret};
use journeyman_core::outbox::{Backlog, Task};
use journeyman_core::ports::{Answer, DeliveryBacklog, SealedKind, StoreError};
use journeyman_core::project::Project;
use journeyman_core::project::hold::Hold;
use journeyman_core::rate::Window;
use journeyman_core::template::Template;
use journeyman_core::trust::Trust;
use journeyman_core::usage::{UsageLine, UsageSum};
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};
use journeyman_core::webhook::{AttemptResult, Delivery, DeliveryState, Response, Webhook};
use journeyman_core::worker::WorkerReport;
use serde::Serialize;

use self::columns::{At, Read};
use crate::sealed::{Stored, is_text};

pub(crate) use columns::{Columns, to_json};
pub(crate) use hosts::{
    HostDocument, code_host, comment, comment_state, compared_pull, due_comparison, indexed_pull, poll,
    project_of_schedule, project_pulls, pull, pull_count, reviews_of_author,
};
pub(crate) use jobs::{
    accepted_line, attribute, hold_of_job, hold_or_null, job, job_counts, job_diff, job_document, job_id, log_entry,
    merge_lines, message, plan, project_running, run, summary, tool_entry, usage, usage_of_job, usage_text,
};
pub(crate) use slack::{slack_code, slack_event, slack_post, slack_thread, slack_workspace};

pub(crate) fn hold<R: Columns>(row: &R) -> Read<(ProjectId, Hold), R> {
    let at = At::new("project_holds", row, &["project"])?;
    Ok((at.parsed("project")?, at.json("hold")?))
}

pub(crate) fn task<R: Columns>(row: &R) -> Read<Task, R> {
    let at = At::new("tasks", row, &["kind"])?;
    let (number, created_at, attempt) = (at.number("number")?, at.time("created_at")?, at.number("attempts")?);
    Ok(Task { number, effect: at.json("effect")?, created_at, attempt })
}

/// Decodes claimed tasks, in the order of their numbers. A row that cannot be decoded must not block the others: it stays
/// claimed, and is logged again when its lease has expired.
pub(crate) fn tasks<T, E: std::fmt::Debug>(rows: impl Iterator<Item = Result<T, E>>, number: fn(&T) -> u64) -> Vec<T> {
    let mut tasks = Vec::new();
    for row in rows {
        match row {
            Ok(task) => tasks.push(task),
            Err(error) => tracing::error!(?error, "a task of the outbox cannot be read"),
        }
    }
    tasks.sort_unstable_by_key(number);
    tasks
}

pub(crate) fn backlog<R: Columns>(row: &R) -> Read<Backlog, R> {
    let at = At::new("tasks", row, &[])?;
    let oldest = at.time_or_null("oldest")?;
    Ok(Backlog { tasks: at.number("tasks")?, retried: at.number("retried")?, oldest })
}

/// Decodes the stored request of an idempotency key, with its answer as JSON text.
pub(crate) fn remembered<R: Columns>(row: &R) -> Read<Remembered<String>, R> {
    let at = At::new("idempotency_keys", row, &["project", "key"])?;
    let fingerprint = Fingerprint(at.hash("fingerprint")?);
    Ok(Remembered { fingerprint, at: at.time("at")?, answer: at.text("record")? })
}

/// Decodes the stored request of an idempotency key, with the job record of its answer.
pub(crate) fn remembered_job<R: Columns>(row: &R) -> Read<Remembered<Answer>, R> {
    let at = At::new("idempotency_keys", row, &["project", "key"])?;
    let Remembered { fingerprint, at: time, .. } = remembered(row)?;
    Ok(Remembered { fingerprint, at: time, answer: at.json("record")? })
}

/// Reads an encrypted value from a page of [`sealed`](crate::sealed).
pub(crate) fn sealed<R: Columns>(row: &R, kind: SealedKind) -> Read<Stored, R> {
    let at = At::new("encrypted values", row, &["owner", "name"])?;
    let value = if is_text(kind) { row.text("value")?.map(String::into_bytes) } else { row.bytes("value")? };
    let value = at.not_null("value", value)?;
    Ok(Stored { owner: at.text("owner")?, name: at.text("name")?, value })
}

/// Decodes the name and the encrypted value of a secret.
pub(crate) fn secret<R: Columns>(row: &R) -> Read<(String, Vec<u8>), R> {
    let at = At::new("secrets", row, &["name"])?;
    Ok((at.text("name")?, at.not_null("value", row.bytes("value")?)?))
}

pub(crate) fn window<R: Columns>(row: &R) -> Read<Window, R> {
    let at = At::new("rate_windows", row, &["project", "kind"])?;
    Ok(Window { started_at: at.time("started_at")?, used: at.number("used")? })
}

pub(crate) fn feed_entry<R: Columns>(row: &R) -> Read<FeedEntry, R> {
    let at = At::new("feed", row, &[])?;
    Ok(FeedEntry {
        position: at.number("position")?,
        kind: at.text("type")?,
        at: at.time("at")?,
        project: at.parsed("project")?,
        job: at.parsed("job")?,
        data: at.json("data")?,
    })
}

pub(crate) fn feed_ends<R: Columns>(row: &R) -> Read<FeedEnds, R> {
    let at = At::new("feed", row, &[])?;
    Ok(FeedEnds { oldest: at.number_or_null("oldest")?, newest: at.number("newest")?, gaps: Vec::new() })
}

pub(crate) fn webhook<R: Columns>(row: &R) -> Read<Webhook, R> {
    let at = At::new("webhooks", row, &["id"])?;
    let disabled = row.text("disabled")?.map(|_| at.named("disabled")).transpose()?;
    Ok(Webhook {
        id: at.parsed("id")?,
        project: at.parsed("project")?,
        settings: at.json("settings")?,
        disabled,
        failing_since: at.time_or_null("failing_since")?,
        created_at: at.time("created_at")?,
        old_secret_until: at.time_or_null("old_secret_until")?,
        version: at.number("version")?,
    })
}

pub(crate) fn delivery<R: Columns>(row: &R) -> Read<Delivery, R> {
    let at = At::new("deliveries", row, &["webhook"])?;
    let detail = || Ok::<_, R::Error>(row.text("detail")?.unwrap_or_default());
    let last = match at.time_or_null("attempted_at")? {
        None => None,
        Some(attempted_at) => {
            let response = match at.number_or_null("status")? {
                Some(status) => Response::Status(status, detail()?),
                None => Response::Failed(detail()?),
            };
            let duration = Duration::from_micros(at.number_or_null("duration")?.unwrap_or(0));
            Some(AttemptResult { at: attempted_at, duration, response })
        }
    };
    let state = at.text("state")?;
    let known = [DeliveryState::Pending, DeliveryState::Delivered, DeliveryState::Failed];
    let state = known.into_iter().find(|known| known.name() == state);
    Ok(Delivery {
        number: at.number("number")?,
        webhook: at.parsed("webhook")?,
        position: at.number("position")?,
        kind: at.text("type")?,
        job: at.parsed("job")?,
        state: state.ok_or_else(|| at.corrupt("state is unknown"))?,
        attempts: at.number("attempts")?,
        created_at: at.time("created_at")?,
        due_at: at.time_or_null("due_at")?,
        last,
    })
}

/// Decodes a delivery with its fencing token.
pub(crate) fn claimed<R: Columns>(row: &R) -> Read<(Delivery, u64), R> {
    Ok((delivery(row)?, At::new("deliveries", row, &["webhook"])?.number("claims")?))
}

pub(crate) fn delivery_backlog<R: Columns>(row: &R) -> Read<DeliveryBacklog, R> {
    let at = At::new("deliveries", row, &[])?;
    Ok(DeliveryBacklog {
        pending: at.number("pending")?,
        oldest: at.time_or_null("oldest")?,
        failing: at.number("failing")?,
    })
}

/// Decodes a line of a report on usage.
pub(crate) fn usage_line<R: Columns>(row: &R) -> Read<UsageLine, R> {
    let at = At::new("usage_days", row, &[])?;
    let text = |column: &str| Ok::<_, R::Error>(row.text(column)?.filter(|text| !text.is_empty()));
    Ok(UsageLine {
        day: row.number("of_day")?,
        project: text("of_project")?.map(|id| at.parse("project", &id)).transpose()?,
        model: text("of_model")?,
        author: text("of_author")?,
        key: text("of_key")?.map(|id| at.parse("key", &id)).transpose()?,
        sum: UsageSum {
            runs: at.number("runs")?,
            unpriced: at.number("unpriced")?,
            input_tokens: at.number("input_tokens")?,
            output_tokens: at.number("output_tokens")?,
            cached_tokens: at.number("cached_tokens")?,
            cost_micros: at.number("cost_micros")?,
            estimated_micros: at.number("estimated_micros")?,
        },
    })
}

/// Decodes the ID of a project.
pub(crate) fn project_id<R: Columns>(row: &R) -> Read<ProjectId, R> {
    At::new("projects", row, &["id"])?.parsed("id")
}

/// Decodes a project. The query computes `secret_names` as a JSON array.
pub(crate) fn project<R: Columns>(row: &R) -> Read<Project, R> {
    let at = At::new("projects", row, &["id"])?;
    Ok(Project {
        id: at.parsed("id")?,
        repository: at.text("repository")?,
        reference: at.row.text("ref")?,
        agent: at.text("agent")?,
        model: at.text("model")?,
        created_at: at.time("created_at")?,
        settings: at.json("settings")?,
        secret_names: at.json("secret_names")?,
        version: at.number("version")?,
        identity: at.json_or_null("identity")?,
    })
}

pub(crate) fn key<R: Columns>(row: &R) -> Read<ApiKey, R> {
    let at = At::new("keys", row, &["id"])?;
    Ok(ApiKey {
        id: at.parsed("id")?,
        name: at.text("name")?,
        prefix: at.text("prefix")?,
        hash: KeyHash(at.hash("hash")?),
        scopes: match at.json_or_null("grants")? {
            Some(scopes) => scopes,
            None => at.json("scopes")?,
        },
        projects: at.json_or_null("projects")?,
        expires_at: at.time_or_null("expires_at")?,
        allowed_ips: at.json_or_null("allowed_ips")?,
        created_at: at.time("created_at")?,
        last_used_at: at.time_or_null("last_used_at")?,
        revoked_at: at.time_or_null("revoked_at")?,
        creator: at.row.text("creator")?,
        owner: at.parsed_or_null("owner")?,
        old_secret: match at.time_or_null("old_until")? {
            Some(until) => Some(OldSecret { hash: KeyHash(at.hash("old_hash")?), until }),
            None => None,
        },
        version: at.number("version")?,
    })
}

pub(crate) fn trust<R: Columns>(row: &R) -> Read<Trust, R> {
    let at = At::new("trusts", row, &["id"])?;
    Ok(Trust {
        id: at.parsed("id")?,
        settings: at.json("settings")?,
        creator: at.text("creator")?,
        owner: at.parsed_or_null("owner")?,
        created_at: at.time("created_at")?,
        last_used_at: at.time_or_null("last_used_at")?,
        version: at.number("version")?,
    })
}

/// Decodes a template.
pub(crate) fn template<R: Columns>(row: &R) -> Read<Template, R> {
    let at = At::new("templates", row, &["id"])?;
    Ok(Template {
        id: at.parsed("id")?,
        project: at.parsed("project")?,
        settings: at.json("settings")?,
        created_at: at.time("created_at")?,
        version: at.number("version")?,
    })
}

/// Decodes the last import of a project.
pub(crate) fn import<R: Columns>(row: &R) -> Read<Import, R> {
    let at = At::new("imports", row, &["project"])?;
    Ok(Import { project: at.parsed("project")?, state: at.json("state")?, version: at.number("version")? })
}

/// Decodes the report of a worker.
pub(crate) fn worker<R: Columns>(row: &R) -> Read<WorkerReport, R> {
    let at = At::new("workers", row, &["id"])?;
    Ok(WorkerReport { id: at.parsed("id")?, seen_at: at.time("seen_at")?, state: at.json("state")? })
}

pub(crate) fn audit_line<R: Columns>(row: &R) -> Read<AuditLine, R> {
    let at = At::new("audit", row, &["subject"])?;
    let (actor, action, subject) = (at.text("actor")?, at.text("action")?, at.text("subject")?);
    let entry = AuditEntry { at: at.time("at")?, actor, action, subject, address: at.row.text("address")? };
    Ok(AuditLine { number: at.number("number")?, entry })
}

pub(crate) fn user<R: Columns>(row: &R) -> Read<User, R> {
    let at = At::new("users", row, &["id"])?;
    let role = at.text("role")?;
    let (issuer, subject) = (at.row.text("issuer")?, at.row.text("subject")?);
    Ok(User {
        id: at.parsed("id")?,
        name: at.text("name")?,
        role: Role::parse(&role).ok_or_else(|| at.corrupt("role is unknown"))?,
        password: at.row.text("password")?.map(PasswordHash),
        second_factor: at.json_or_null("second_factor")?,
        passkeys: at.json_or_null("passkeys")?.unwrap_or_default(),
        identity: issuer.zip(subject).map(|(issuer, subject)| Identity { issuer, subject }),
        created_at: at.time("created_at")?,
        signed_in_at: at.time_or_null("signed_in_at")?,
        disabled_at: at.time_or_null("disabled_at")?,
        version: at.number("version")?,
    })
}

pub(crate) fn inbox_event<R: Columns>(row: &R) -> Read<InboxEvent, R> {
    let at = At::new("inbox", row, &["host", "delivery"])?;
    let read: Option<HookEvent> = at.json_or_null("content")?;
    let content = match read {
        Some(event) => Some(Content::Read(Box::new(event))),
        None => row.bytes("body")?.map(Content::Raw),
    };
    let outcome = row.text("outcome")?.map(|text| serde_json::from_value(text.into())).transpose();
    Ok(InboxEvent {
        number: at.number("number")?,
        host: HostName(at.text("host")?),
        code_host: at.parsed_or_null("code_host")?,
        project: at.parsed_or_null("project")?,
        delivery: at.text("delivery")?,
        event: at.text("event")?,
        received_at: at.time("received_at")?,
        state: at.named("state")?,
        outcome: outcome.map_err(|error| at.corrupt(format!("outcome: {error}")))?,
        detail: row.text("detail")?,
        content,
        job: at.parsed_or_null("job")?,
        message: at.parsed_or_null("message")?,
        attempts: at.number("attempts")?,
    })
}

pub(crate) fn check_watch<R: Columns>(row: &R) -> Read<CheckWatch, R> {
    let at = At::new("check_watches", row, &["job"])?;
    Ok(CheckWatch {
        job: at.parsed("job")?,
        project: at.parsed("project")?,
        sha: at.parsed("sha")?,
        since: at.time("since")?,
        due_at: at.time_or_null("due_at")?,
        looks: at.number("looks")?,
        checks: at.json("checks")?,
    })
}

pub(crate) fn session<R: Columns>(row: &R) -> Read<Session, R> {
    session_begun(row, "created_at")
}

/// Decodes a session with its user. The query names the time when the session was created `begun_at`.
pub(crate) fn session_with_user<R: Columns>(row: &R) -> Read<(Session, User), R> {
    Ok((session_begun(row, "begun_at")?, user(row)?))
}

fn session_begun<R: Columns>(row: &R, created_at: &str) -> Read<Session, R> {
    let at = At::new("sessions", row, &["owner"])?;
    Ok(Session {
        hash: TokenHash(at.hash("hash")?),
        user: at.parsed("owner")?,
        created_at: at.time(created_at)?,
        seen_at: at.time("seen_at")?,
        proven_at: at.time_or_null("proven_at")?,
        address: at.row.text("address")?,
        browser: at.row.text("browser")?,
    })
}

pub(crate) fn link<R: Columns>(row: &R) -> Read<SignInLink, R> {
    let at = At::new("links", row, &[])?;
    Ok(SignInLink {
        hash: TokenHash(at.hash("hash")?),
        user: at.parsed_or_null("owner")?,
        expires_at: at.time("expires_at")?,
    })
}

/// Returns serde's name of an enum's variant.
pub(crate) fn name_of<T: Serialize>(value: &T) -> Result<String, StoreError> {
    Ok(to_json(value)?.trim_matches('"').to_owned())
}
