//! The rows of Slack workspaces, events, threads and posts.

use journeyman_core::ids::UserId;
use journeyman_core::slack::{SlackInboxEvent, SlackPost, SlackThread, SlackThreadId, SlackWorkspace};

use super::columns::{At, Columns, Read};

pub(crate) fn slack_workspace<R: Columns>(row: &R) -> Read<SlackWorkspace, R> {
    let at = At::new("slack_workspaces", row, &["id"])?;
    let (settings, created_at) = (at.json("settings")?, at.time("created_at")?);
    Ok(SlackWorkspace { id: at.parsed("id")?, settings, created_at, version: at.number("version")? })
}

/// Returns the user of a code.
pub(crate) fn slack_code<R: Columns>(row: &R) -> Read<UserId, R> {
    At::new("slack_codes", row, &[])?.parsed("owner")
}

fn thread_id<R: Columns>(at: &At<'_, R>) -> Read<SlackThreadId, R> {
    Ok(SlackThreadId { workspace: at.parsed("workspace")?, channel: at.text("channel")?, thread: at.text("thread")? })
}

pub(crate) fn slack_event<R: Columns>(row: &R) -> Read<SlackInboxEvent, R> {
    let at = At::new("slack_events", row, &["workspace", "event_id"])?;
    let outcome = row.text("outcome")?.map(|_| at.named("outcome")).transpose()?;
    Ok(SlackInboxEvent {
        number: at.number("number")?,
        thread: thread_id(&at)?,
        event_id: at.text("event_id")?,
        ts: at.text("ts")?,
        content: at.json("content")?,
        received_at: at.time("received_at")?,
        state: at.named("state")?,
        outcome,
        detail: row.text("detail")?,
        job: at.parsed_or_null("job")?,
        message: at.parsed_or_null("message")?,
        attempts: at.number("attempts")?,
    })
}

pub(crate) fn slack_thread<R: Columns>(row: &R) -> Read<SlackThread, R> {
    let at = At::new("slack_threads", row, &["workspace", "channel", "thread"])?;
    Ok(SlackThread { id: thread_id(&at)?, project: at.parsed("project")?, job: at.parsed("job")? })
}

pub(crate) fn slack_post<R: Columns>(row: &R) -> Read<SlackPost, R> {
    let at = At::new("slack_posts", row, &["workspace", "channel", "thread", "purpose"])?;
    Ok(SlackPost {
        number: at.number("number")?,
        thread: thread_id(&at)?,
        purpose: at.text("purpose")?,
        content: at.json("content")?,
        ts: row.text("ts")?,
        shown: row.text("shown")?,
        state: at.named("state")?,
        detail: row.text("detail")?,
        created_at: at.time("created_at")?,
        claims: at.number("claims")?,
        failures: at.number("failures")?,
    })
}
